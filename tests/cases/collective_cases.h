// The collectives against results computed here, by arithmetic that shares no code with the library: every type and
// operation, every root in turn, in place and not, aligned and not, counts from 0 to 300007. Uses the C API alone, so
// that the same cases run as processes outside the source tree, under mpirun, and as threads.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>

#include "cases/ledger.h"

namespace tutti::cases {

/// Collective: every rank runs the same cases. Prints the first few failures of this rank to stderr. Stops early when
/// the communicator fails. At most 8 ranks: beyond, sums of 8-bit floats would round. All float results are exact in
/// float16 and bfloat16 too, so that communicators with such a wire type pass.
Outcome run_collective_cases(tuttiComm_t comm, int rank, int ranks, Effort effort);

/// Gather, scatter, all_to_all and the v-forms.
Outcome run_exchange_cases(tuttiComm_t comm, int rank, int ranks, Effort effort);

/// Booleans whose true is any byte but 0.
Outcome run_truth_cases(tuttiComm_t comm, int rank, int ranks);

/// PreMulSum with a scalar of each rank's own, and operations by callback, one of them not commutative.
Outcome run_operation_cases(tuttiComm_t comm, int rank, int ranks, Effort effort);

/// Sends and receives: with and without tags, in groups and not, to oneself, from any source, of no bytes.
Outcome run_message_cases(tuttiComm_t comm, int rank, int ranks, Effort effort);

/// `rounds` groups of up to a dozen random calls of all kinds; the same `seed` on all ranks.
Outcome run_group_cases(tuttiComm_t comm, int rank, int ranks, Effort effort, int rounds, std::uint64_t seed);

/// All of the above, `group_rounds` groups.
Outcome run_all_cases(tuttiComm_t comm, int rank, int ranks, Effort effort, int group_rounds);

}  // namespace tutti::cases
