// Tutti's results become exceptions of tutti_comm.errors.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include <string>

namespace tutti_python {

/// The exception that stands for `result`, not thrown.
nanobind::object exception_of(tuttiResult_t result, const std::string& sentence);
/// Throws that exception. As all functions here, it is called with the interpreter's lock held.
[[noreturn]] void raise(tuttiResult_t result, const std::string& sentence);
/// Throws if `result` is an error, with this thread's last sentence on `comm` (NULL: on any).
void check(tuttiResult_t result, tuttiComm_t comm);

}  // namespace tutti_python
