// What somebody on the path can do to the bytes that a process receives over TCP. The functions that receive stand in
// front of the system's in this program.
#pragma once

#include <cstdint>

namespace tutti::test {

enum class Interference {
  kNone,
  kChange,   ///< one bit
  kDrop,     ///< some bytes
  kRepeat,   ///< what has just come, once more
  kReplay,   ///< what came earlier, on this or another connection
  kReorder,  ///< what comes next, first
  kInsert,   ///< bytes at random
  kCut,      ///< the connection, in the middle of what comes
};

/// The k-th piece of bytes that this process receives from now on, over all its connections, is interfered with.
/// `seed` draws the places and the bytes.
void interfere(Interference interference, long k, std::uint64_t seed);
/// How many pieces have come since.
long pieces_received();
/// Whether the k-th piece came, and was not what it had been.
bool has_interfered();

}  // namespace tutti::test
