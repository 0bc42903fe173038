// A rank that has the secret and sends what it should not: its messages are changed and signed anew. The
// functions that sign and send stand in front of the system's in this program.
#pragma once

#include <cstdint>

namespace tutti::test {

/// From the k-th signed message of this process on, each is forged with a probability of one in `rarity`, the k-th
/// always; a rarity of 0: that one alone. `seed` draws what is forged.
void forge(long k, std::uint64_t rarity, std::uint64_t seed);
/// How many signed messages were sent since.
long messages_sent();
/// How many of them were forged.
long messages_forged();

}  // namespace tutti::test
