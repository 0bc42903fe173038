// Streams, and the futures of what is called on them.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "array.h"
#include "outcome.h"

namespace tutti_python {

/// What a call reads and writes.
using Arrays = std::array<Array, 2>;

/// An in-order queue of calls. It keeps the arrays of a call until the call is done. All functions are called with the
/// interpreter's lock held.
class Stream {
 public:
  /// Without an argument the stream is the library's; else it is in the order of the CUDA stream at this address.
  explicit Stream(std::optional<uintptr_t> cuda);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits for its calls.
  ~Stream();

  tuttiStream_t handle() const { return stream_; }
  bool is_done();
  void synchronize();
  /// Has the outcome of what was called last reported, and keeps its arrays until then.
  void watch(std::shared_ptr<Outcome> outcome, Arrays arrays, tuttiComm_t comm);
  /// Lets go of the arrays of calls that are done.
  void forget_done();

 private:
  struct Call {
    std::shared_ptr<Outcome> outcome;
    Arrays arrays;
  };

  tuttiStream_t stream_ = nullptr;
  std::deque<Call> calls_;
  std::shared_ptr<Outcome> first_error_ = std::make_shared<Outcome>();
};

/// What a call on a stream gives: `value`, once the call is done.
class Future {
 public:
  /// `stream` is the Python object of a Stream.
  Future(std::shared_ptr<Outcome> outcome, nb::object value, nb::object stream);
  bool is_done() const { return outcome_->is_reported(); }
  /// The value, or the call's error as an exception; TimeoutError after `seconds`.
  nb::any result(std::optional<double> seconds) const;
  /// The call's error, or None; TimeoutError after `seconds`.
  nb::any exception(std::optional<double> seconds) const;

  /// For Python's search for cycles.
  int visit(visitproc visitor, void* argument) const;
  void clear();

 private:
  void wait(std::optional<double> seconds) const;

  std::shared_ptr<Outcome> outcome_;
  nb::object value_, stream_;
};

void bind_streams(nb::module_& module);

}  // namespace tutti_python
