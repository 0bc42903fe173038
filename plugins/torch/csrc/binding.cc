// The module tutti_torch._C.
#include <optional>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>

#include "process_group.h"

namespace tutti_torch {
namespace {

namespace py = pybind11;
using Options = ProcessGroupTutti::Options;

std::optional<at::ScalarType> wire_type(const Options& options) {
  switch (options.wire_type) {
    case tuttiFloat16:
      return at::kHalf;
    case tuttiBfloat16:
      return at::kBFloat16;
    case tuttiFloat8e4m3:
      return at::kFloat8_e4m3fn;
    case tuttiFloat8e5m2:
      return at::kFloat8_e5m2;
    case tuttiFloat32:
      return at::kFloat;
    default:
      return std::nullopt;
  }
}

void set_wire_type(Options& options, std::optional<at::ScalarType> dtype) {
  options.wire_type = dtype ? moved(*dtype).type : tuttiDataTypeMax;
}

c10::intrusive_ptr<ProcessGroupTutti> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                           const c10::intrusive_ptr<Options>& options) {
  return c10::make_intrusive<ProcessGroupTutti>(store, rank, size, options);
}

c10::intrusive_ptr<Options> make_options(std::chrono::milliseconds timeout, std::optional<at::ScalarType> wire,
                                         std::optional<bool> deterministic) {
  auto options = c10::make_intrusive<Options>(timeout);
  set_wire_type(*options, wire);
  if (deterministic) options->deterministic = *deterministic ? 1 : 0;
  return options;
}

int version() {
  int version = 0;
  static_cast<void>(tuttiGetVersion(&version));
  return version;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<ProcessGroupTutti, c10d::Backend, c10::intrusive_ptr<ProcessGroupTutti>> group(m, "ProcessGroupTutti");
  py::class_<Options, c10d::Backend::Options, c10::intrusive_ptr<Options>>(m, "Options")
      .def(py::init(&make_options), py::arg("timeout") = kBackendDefaultTimeout, py::arg("wire_dtype") = std::nullopt,
           py::arg("deterministic") = std::nullopt)
      .def("__copy__", [](const Options& options) { return c10::make_intrusive<Options>(options); })
      .def_property("wire_dtype", &wire_type, &set_wire_type)
      .def_readwrite("label", &Options::label)
      .def_readwrite("stands_for", &Options::stands_for);
  group
      .def(py::init(&make), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
           py::call_guard<py::gil_scoped_release>())
      .def(
          "allreduce_wire",
          [](ProcessGroupTutti& self, const at::Tensor& tensor, const c10d::ReduceOp& op, py::object wire) {
            const at::ScalarType dtype = reinterpret_cast<THPDtype*>(wire.ptr())->scalar_type;
            const py::gil_scoped_release released;
            self.allreduce_wire(tensor, op, dtype);
          },
          py::arg("tensor"), py::arg("op"), py::arg("wire_dtype"),
          "All-reduces a float32 tensor that travels in a smaller type.")
      .def(
          "perform_nocolor_split", [](const ProcessGroupTutti&, const at::Device&) {}, py::arg("device"),
          "torch calls it on ranks that are in none of the groups of a split; only the members meet.")
      .def("set_timeout", &ProcessGroupTutti::setTimeout, py::arg("timeout"))
      .def("abort", &ProcessGroupTutti::abort, py::call_guard<py::gil_scoped_release>())
      .def("info", &ProcessGroupTutti::info, py::arg("key"), py::call_guard<py::gil_scoped_release>(),
           "What the communicator uses: 'transport', or 'algorithm:<collective>:<bytes>'.");
  m.def("wait_for_goodbyes", &wait_for_goodbyes, py::arg("limit"), py::call_guard<py::gil_scoped_release>());
  m.def("version", &version);
  m.attr("cuda") =
#ifdef TUTTI_TORCH_CUDA
      true;
#else
      false;
#endif
}

}  // namespace tutti_torch
