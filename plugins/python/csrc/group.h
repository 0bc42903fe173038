// Calls that are collected and made together.
#pragma once

#include <memory>
#include <vector>

#include "stream.h"

namespace tutti_python {

/// The calls that a thread makes between its outermost enter and exit. Their arrays are kept here until then; the
/// streams keep those of calls on streams from then on.
class CollectedCalls {
 public:
  /// Those of this thread, or NULL if no group is open.
  static CollectedCalls* open();
  static void enter();
  /// Makes the calls when the outermost group ends; none if the group's block was left by an exception.
  static void exit(bool by_exception);

  void keep(Arrays arrays);
  /// `stream` is the Python object of a Stream.
  void keep(Arrays arrays, nb::object stream, std::shared_ptr<Outcome> outcome, tuttiComm_t comm);

 private:
  struct OnStream {
    nb::object stream;
    std::shared_ptr<Outcome> outcome;
    Arrays arrays;
    tuttiComm_t comm;
  };
  /// Has the streams report and keep what was called on them. `failure` is the group's.
  void hand_over(tuttiResult_t failure, const std::string& sentence);

  std::vector<Arrays> blocking_;
  std::vector<OnStream> on_streams_;
};

void bind_groups(nb::module_& module);

}  // namespace tutti_python
