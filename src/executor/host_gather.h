// One all-gather of bytes, outside the calls of a communicator.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "executor/executor.h"

namespace tutti {

/// The ranks of an all-gather together, between two operations: what each brings, of one size, by rank. Blocks.
/// `number`: the same on all of them, another one each time.
Status gather_bytes(Executor& host, const Schedule& all_gather, std::uint64_t number, std::span<const std::byte> mine,
                    std::vector<std::byte>* all, WaitMonitor& monitor);

}  // namespace tutti
