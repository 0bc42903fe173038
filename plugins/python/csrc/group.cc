#include "group.h"

#include <string>
#include <utility>

#include "errors.h"
#include "unlocked.h"

namespace tutti_python {
namespace {

// A thread that ends in a group leaves them: nobody could free Python's objects then.
thread_local CollectedCalls* collected = nullptr;
thread_local int depth = 0;
thread_local bool is_refused = false;  // an exception left a group of this thread that is still open

/// The context manager that group() returns. It has no state, because the calls belong to the thread.
struct Group {};

}  // namespace

CollectedCalls* CollectedCalls::open() { return collected; }

void CollectedCalls::enter() {
  check(tuttiGroupStart(), nullptr);
  if (depth++ == 0) collected = new CollectedCalls();
}

void CollectedCalls::exit(bool by_exception) {
  if (depth == 0) raise(tuttiInvalidUsage, "no group of this thread is open");
  if (by_exception && !std::exchange(is_refused, true))
    tuttiBarrier(nullptr, nullptr);  // its refusal refuses the group
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiGroupEnd();
  }
  const std::string sentence = is_refused               ? "the group's block was left by an exception"
                               : result == tuttiSuccess ? ""
                                                        : tuttiGetLastError(nullptr);
  if (--depth == 0) {
    is_refused = false;
    const std::unique_ptr<CollectedCalls> calls(std::exchange(collected, nullptr));
    calls->hand_over(result, sentence);
  }
  if (result != tuttiSuccess && !by_exception) raise(result, sentence);
}

void CollectedCalls::hand_over(tuttiResult_t failure, const std::string& sentence) {
  for (OnStream& call : on_streams_) {
    if (failure != tuttiSuccess) {
      call.outcome->report(failure, sentence);
      call.outcome = std::make_shared<Outcome>();  // what is queued all the same keeps its arrays to its end
    }
    nb::cast<Stream&>(call.stream).watch(call.outcome, std::move(call.arrays), call.comm);
  }
}

void CollectedCalls::keep(Arrays arrays) { blocking_.push_back(std::move(arrays)); }

void CollectedCalls::keep(Arrays arrays, nb::object stream, std::shared_ptr<Outcome> outcome, tuttiComm_t comm) {
  on_streams_.push_back({std::move(stream), std::move(outcome), std::move(arrays), comm});
}

void bind_groups(nb::module_& module) {
  nb::class_<Group>(module, "Group", "What group() returns: a context manager.")
      .def(
          "__enter__",
          [](nb::object self) {
            CollectedCalls::enter();
            return self;
          },
          nb::sig("def __enter__(self) -> Group"))
      .def(
          "__exit__", [](Group&, nb::handle type, nb::handle, nb::handle) { CollectedCalls::exit(!type.is_none()); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  module.def(
      "group", [] { return Group(); },
      "`with group():` collects the calls of this thread and makes them together at its end, concurrently across "
      "communicators: sends and receives in any pattern, or several ranks of one thread. Results are there after it, "
      "which raises the first error. If an exception leaves the block, none of them is made. All ranks of a "
      "communicator put the same collectives into a group.");
}

}  // namespace tutti_python
