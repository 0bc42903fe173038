// The part of the hub that ranks of one process share by communicator, and what the C API leaves behind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tutti {

/// Whether this process was forked from one whose hub was in use: calls are kInvalidUsage then. Any thread. (hub.cc)
bool hub_forked();

/// The object of communicator `comm_id` that its ranks in this process share: made by the first, found by the others,
/// gone with the last. Any thread.
std::shared_ptr<void> hub_shared(std::uint64_t comm_id, const std::function<std::shared_ptr<void>()>& make);

/// Keeps an aborted handle reachable until the process ends, so that late calls on it are refused and leak checkers see
/// that it is kept on purpose.
void hub_keep(void* handle);

}  // namespace tutti
