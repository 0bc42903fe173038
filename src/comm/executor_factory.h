// Makes the executor of calls on host memory from the places of the ranks: its links' sizes, its transport, and the
// machine that the choice of algorithms knows.
#pragma once

#include <memory>
#include <vector>

#include "comm/create_options.h"
#include "comm/join/join.h"
#include "core/machine.h"
#include "core/status.h"
#include "executor/executor.h"
#include "transport/shm/shm_layout.h"

namespace tutti {

/// The geometry of the links in a rank's segment, which is equal on all ranks.
ShmGeometry geometry_of(const CreateOptions& options);
/// The ranks that share memory with this one, in rank order, this one included.
std::vector<Rank> near_ranks(const CreateOptions& options, const JoinResult& joined);
/// Returns the facts that the choice of an algorithm may use. They are equal on all ranks, because they come from the
/// settings that agree and from the places of the ranks. `capabilities` are those of the executor's links.
Machine machine_of(const CreateOptions& options, const JoinResult& joined, const Capabilities& capabilities);
/// `ranks_per_core`: more than one if more ranks run here than there are cores.
Status make_executor(const CreateOptions& options, const JoinResult& joined, int ranks_per_core,
                     std::unique_ptr<Executor>* executor);

}  // namespace tutti
