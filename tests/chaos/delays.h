// Delays of what this process sends over TCP: the program's functions stand in front of the system's.
#pragma once

#include <cstdint>

namespace tutti::chaos {

/// From now on some messages of any thread are sent late, by up to 20 ms.
void delay_messages(std::uint64_t seed);

}  // namespace tutti::chaos
