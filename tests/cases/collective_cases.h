// The six collectives against results computed here, by arithmetic that shares no code with the library: every type and
// operation, every root in turn, in place and not, aligned and not, counts from 0 to 300007. Uses the C API alone, so
// that the same cases run as processes outside the source tree, under mpirun, and as threads.
#pragma once

#include <tutti/tutti.h>

namespace tutti::cases {

struct Outcome {
  long checked = 0;
  long failed = 0;
};

/// How much: kFew is five types that differ in kind, for builds that are ten times slower; kLarge also runs 300007
/// elements.
enum class Effort { kFew, kUsual, kLarge };

/// Collective: every rank runs the same cases. Prints the first few failures of this rank to stderr. Stops early when
/// the communicator fails.
Outcome run_collective_cases(tuttiComm_t comm, int rank, int ranks, Effort effort);

}  // namespace tutti::cases
