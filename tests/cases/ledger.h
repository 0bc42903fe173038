// What the cases of one rank have found so far.
#pragma once

#include <tutti/tutti.h>

#include <string>

namespace tutti::cases {

struct Outcome {
  long checked = 0;
  long failed = 0;
};
inline Outcome operator+(Outcome a, Outcome b) { return {a.checked + b.checked, a.failed + b.failed}; }

/// How much: kFew is five types that differ in kind; kLeast is these types with a third of the operations
/// each and one layout of buffers a count, in turn, for builds that are ten times slower; kLarge also runs 300007
/// elements.
enum class Effort { kLeast, kFew, kUsual, kLarge };

/// One type of each kind: signed, unsigned, wide float, narrow floats, bool.
bool is_representative(tuttiDataType_t type);

class Ledger {
 public:
  Ledger(tuttiComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}

  tuttiComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int next() const { return (rank_ + 1) % ranks_; }
  int before() const { return (rank_ + ranks_ - 1) % ranks_; }

  /// False, and nothing more can be run: the call failed.
  bool accept(tuttiResult_t code, const std::string& what);
  /// Counts a case; the first few wrong ones are printed.
  void note(bool right, const std::string& what);
  bool usable() const { return usable_; }
  Outcome outcome() const { return outcome_; }

 private:
  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  bool usable_ = true;
  Outcome outcome_;
};

}  // namespace tutti::cases
