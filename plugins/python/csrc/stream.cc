#include "stream.h"

#include <nanobind/stl/optional.h>

#include <utility>

#include "errors.h"
#include "unlocked.h"

namespace tutti_python {

Stream::Stream(std::optional<uintptr_t> cuda) {
  check(cuda ? tuttiStreamFromCuda(&stream_, reinterpret_cast<void*>(*cuda)) : tuttiStreamCreate(&stream_), nullptr);
}

Stream::~Stream() {
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiStreamDestroy(stream_);
  }
  // If it was not destroyed, as in a forked child, its calls may still want their arrays.
  if (result == tuttiInvalidUsage) new std::deque<Call>(std::move(calls_));
}

bool Stream::is_done() {
  const tuttiResult_t result = tuttiStreamQuery(stream_);
  forget_done();
  if (result == tuttiInProgress) return false;
  check(result, nullptr);
  return true;
}

void Stream::synchronize() {
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiStreamSynchronize(stream_);
  }
  check(result, nullptr);
  forget_done();
}

void Stream::watch(std::shared_ptr<Outcome> outcome, Arrays arrays, tuttiComm_t comm) {
  forget_done();
  calls_.push_back({outcome, std::move(arrays)});
  check(report_end(stream_, comm, std::move(outcome), first_error_), nullptr);
}

void Stream::forget_done() {
  while (!calls_.empty() && calls_.front().outcome->is_reported()) {
    const Call done = std::move(calls_.front());
    calls_.pop_front();  // before the arrays die, since what dies with them may come here again
  }
}

Future::Future(std::shared_ptr<Outcome> outcome, nb::object value, nb::object stream)
    : outcome_(std::move(outcome)), value_(std::move(value)), stream_(std::move(stream)) {}

void Future::wait(std::optional<double> seconds) const {
  if (!outcome_->wait(seconds)) {
    PyErr_SetString(PyExc_TimeoutError, "the call on the stream is not done yet");
    throw nb::python_error();
  }
  if (stream_.is_valid()) nb::cast<Stream&>(stream_).forget_done();
}

nb::any Future::result(std::optional<double> seconds) const {
  wait(seconds);
  if (outcome_->result() != tuttiSuccess) raise(outcome_->result(), outcome_->sentence());
  return nb::borrow<nb::any>(value_);
}

nb::any Future::exception(std::optional<double> seconds) const {
  wait(seconds);
  if (outcome_->result() == tuttiSuccess) return nb::borrow<nb::any>(nb::none());
  return nb::borrow<nb::any>(exception_of(outcome_->result(), outcome_->sentence()));
}

int Future::visit(visitproc visit, void* arg) const {  // the names that Py_VISIT wants
  Py_VISIT(value_.ptr());
  Py_VISIT(stream_.ptr());
  return 0;
}

void Future::clear() { const nb::object value = std::move(value_), stream = std::move(stream_); }

namespace {

int visit_future(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Future>(self)->visit(visit, arg) : 0;
}

int clear_future(PyObject* self) {
  nb::inst_ptr<Future>(self)->clear();
  return 0;
}

PyType_Slot future_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_future)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear_future)},
                              {0, nullptr}};

}  // namespace

void bind_streams(nb::module_& module) {
  nb::class_<Future>(module, "Future", nb::type_slots(future_slots),
                     "The result of a call on a stream. It is ready when the call is done; arrays of the call must "
                     "not be read or written before.")
      .def("done", &Future::is_done, "Whether the call is done, well or not. Does not block.")
      .def("result", &Future::result, nb::arg("timeout") = nb::none(),
           "Waits for the call and returns the array that it wrote (None if it wrote none), or raises its error. "
           "`timeout` is in seconds; Python's TimeoutError after it.")
      .def("exception", &Future::exception, nb::arg("timeout") = nb::none(),
           "Waits for the call and returns its error, or None. `timeout` is in seconds; Python's TimeoutError after "
           "it.");
  nb::class_<Stream>(
      module, "Stream",
      "An in-order queue of calls, which the library's thread carries out. A stream reports its first error from then "
      "on. When nobody holds it any more, not even a future, it waits for its calls. With cuda= (the address of a "
      "cudaStream_t) it is in the order of that stream, and takes arrays in the memory of the GPU.")
      .def(nb::init<std::optional<uintptr_t>>(), nb::kw_only(), nb::arg("cuda") = nb::none())
      .def("done", &Stream::is_done, "Whether all calls are done. Raises the stream's first error. Does not block.")
      .def("synchronize", &Stream::synchronize, "Waits until all calls are done. Raises the stream's first error.");
}

}  // namespace tutti_python
