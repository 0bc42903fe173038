#include "errors.h"

#include <nanobind/stl/string.h>

namespace tutti_python {

namespace nb = nanobind;

nb::object exception_of(tuttiResult_t result, const std::string& sentence) {
  return nb::module_::import_("tutti_comm.errors").attr("exception_of")(result, sentence);
}

void raise(tuttiResult_t result, const std::string& sentence) {
  const nb::object exception = exception_of(result, sentence);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

void check(tuttiResult_t result, tuttiComm_t comm) {
  if (result != tuttiSuccess) [[unlikely]]
    raise(result, tuttiGetLastError(comm));
}

}  // namespace tutti_python
