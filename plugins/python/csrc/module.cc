// The module tutti_comm._C.
#include <nanobind/nanobind.h>
#include <tutti/tutti.h>

#include "communicator.h"
#include "errors.h"
#include "group.h"
#include "stream.h"

namespace tutti_python {
namespace {

void bind_enums(nb::module_& module) {
  nb::enum_<tuttiDataType_t>(module, "DataType", "Types of elements.")
      .value("INT8", tuttiInt8)
      .value("UINT8", tuttiUint8)
      .value("INT32", tuttiInt32)
      .value("UINT32", tuttiUint32)
      .value("INT64", tuttiInt64)
      .value("UINT64", tuttiUint64)
      .value("FLOAT16", tuttiFloat16)
      .value("FLOAT32", tuttiFloat32)
      .value("FLOAT64", tuttiFloat64)
      .value("BFLOAT16", tuttiBfloat16, "The upper half of a float32.")
      .value("FLOAT8E4M3", tuttiFloat8e4m3, "Largest 448, no infinity.")
      .value("FLOAT8E5M2", tuttiFloat8e5m2, "Largest 57344, with infinity.")
      .value("INT16", tuttiInt16)
      .value("UINT16", tuttiUint16)
      .value("BOOL", tuttiBool, "A byte; nonzero is true.");
  nb::enum_<tuttiRedOp_t>(module, "Op", "How elements of the ranks become one.")
      .value("SUM", tuttiSum, "The sum. Of bool it is or.")
      .value("PROD", tuttiProd, "The product. Of bool it is and.")
      .value("MAX", tuttiMax)
      .value("MIN", tuttiMin)
      .value("AVG", tuttiAvg, "The sum divided by the number of ranks.")
      .value("BIT_AND", tuttiBitAnd)
      .value("BIT_OR", tuttiBitOr)
      .value("BIT_XOR", tuttiBitXor);
  nb::enum_<tuttiResult_t>(module, "Result", "What a call of Tutti ended with; see tutti_comm.errors.")
      .value("SUCCESS", tuttiSuccess)
      .value("UNHANDLED_CUDA_ERROR", tuttiUnhandledCudaError)
      .value("SYSTEM_ERROR", tuttiSystemError)
      .value("INTERNAL_ERROR", tuttiInternalError)
      .value("INVALID_ARGUMENT", tuttiInvalidArgument)
      .value("INVALID_USAGE", tuttiInvalidUsage)
      .value("REMOTE_ERROR", tuttiRemoteError)
      .value("IN_PROGRESS", tuttiInProgress)
      .value("TIMEOUT", tuttiTimeout)
      .value("MISMATCH", tuttiMismatch)
      .value("ABORTED", tuttiAborted)
      .value("UNSUPPORTED", tuttiUnsupported);
}

nb::str version() {
  int code = 0;
  check(tuttiGetVersion(&code), nullptr);
  return nb::str("{}.{}.{}").format(code / 10000, code / 100 % 100, code % 100);
}

}  // namespace
}  // namespace tutti_python

NB_MODULE(_C, module) {
  nanobind::set_leak_warnings(false);  // what a thread holds that the interpreter's end stops is no fault
  tutti_python::bind_enums(module);
  tutti_python::bind_streams(module);
  tutti_python::bind_groups(module);
  tutti_python::bind_communicator(module);
  module.def("version", &tutti_python::version, "The library's version, such as \"0.1.0\".");
}
