// The k-th allocation, descriptor, thread or mapping of a process fails: the program's functions stand in front of the
// system's.
#pragma once

namespace tutti::test {

enum class Scarce { kMemory, kDescriptors, kThreads, kMappings };
inline constexpr int kScarceKinds = 4;

/// From now on the k-th (from 1) request of this kind, of any thread, fails, and with `lasting` all after it, too.
void make_scarce(Scarce kind, long k, bool lasting);
/// Whether this thread's own requests succeed from now on: of a test that asks for more than what it tests does.
void spare_this_thread(bool is_spared);
/// All is there again. How many there were of this kind since make_scarce().
long end_scarcity(Scarce kind);

}  // namespace tutti::test
