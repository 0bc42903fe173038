// An all-gather of bytes that is no call of a communicator.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "executor/executor.h"

namespace tutti {

/// All ranks of the all-gather call this between two operations. `all` gets what each rank brings, by rank; all bring
/// equally many bytes. `number` is the same on all ranks, and another one each time. Blocks.
Status gather_bytes(Executor& host, const Schedule& all_gather, std::uint64_t number, std::span<const std::byte> mine,
                    std::vector<std::byte>* all, WaitMonitor& monitor);

}  // namespace tutti
