#include "array.h"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include "errors.h"

namespace tutti_python {
namespace {

/// Tutti's type of elements with this code and size in DLPack, or tuttiDataTypeMax.
tuttiDataType_t real_type(nb::dlpack::dtype_code code, unsigned bits) {
  using Code = nb::dlpack::dtype_code;
  const auto by_size = [bits](tuttiDataType_t one, tuttiDataType_t two, tuttiDataType_t four, tuttiDataType_t eight) {
    return bits == 8 ? one : bits == 16 ? two : bits == 32 ? four : bits == 64 ? eight : tuttiDataTypeMax;
  };
  switch (code) {
    case Code::Int:
      return by_size(tuttiInt8, tuttiInt16, tuttiInt32, tuttiInt64);
    case Code::UInt:
      return by_size(tuttiUint8, tuttiUint16, tuttiUint32, tuttiUint64);
    case Code::Float:
      return by_size(tuttiDataTypeMax, tuttiFloat16, tuttiFloat32, tuttiFloat64);
    case Code::Bfloat:
      return by_size(tuttiDataTypeMax, tuttiBfloat16, tuttiDataTypeMax, tuttiDataTypeMax);
    case Code::Bool:
      return by_size(tuttiBool, tuttiDataTypeMax, tuttiDataTypeMax, tuttiDataTypeMax);
    case Code::Float8_E4M3FN:
      return tuttiFloat8e4m3;
    case Code::Float8_E5M2:
      return tuttiFloat8e5m2;
    default:
      return tuttiDataTypeMax;
  }
}

/// The type of an array's elements, and how many there are.
struct Elements {
  nb::dlpack::dtype_code code;
  unsigned bits;
  size_t count;
};

/// Elements as a format of module struct and numpy's names them; nothing if they are no plain numbers.
std::optional<Elements> elements_of(const Py_buffer& view) {
  using Code = nb::dlpack::dtype_code;
  const std::string_view signed_ones = "bhilqn", unsigned_ones = "BHILQNc", floats = "efd";
  std::string_view format = view.format == nullptr ? "B" : view.format;
  if (!format.empty() && std::string_view("@=<").find(format[0]) != format.npos) format.remove_prefix(1);
  const bool is_complex = !format.empty() && format[0] == 'Z';
  if (is_complex) format.remove_prefix(1);
  if (format.size() != 1 || view.itemsize <= 0) return std::nullopt;
  const auto is_in = [&](std::string_view letters) { return letters.find(format[0]) != letters.npos; };
  Code code = Code::Bool;
  if (is_in(floats))
    code = is_complex ? Code::Complex : Code::Float;
  else if (is_complex)
    return std::nullopt;
  else if (is_in(signed_ones))
    code = Code::Int;
  else if (is_in(unsigned_ones))
    code = Code::UInt;
  else if (format[0] != '?')
    return std::nullopt;
  const size_t size = static_cast<size_t>(view.itemsize);
  return Elements{code, static_cast<unsigned>(8 * size), static_cast<size_t>(view.len) / size};
}

void set_bytes(Array& array, size_t bytes, tuttiDataType_t type, const char* name) {
  const size_t size = size_of(type);
  if (bytes % size != 0) {
    raise(tuttiInvalidArgument, std::string(name) + " has " + std::to_string(bytes) +
                                    " bytes, which is no multiple of an element's " + std::to_string(size));
  }
  array.type = type;
  array.count = bytes / size;
}

void set_elements(Array& array, const std::optional<Elements>& elements, const char* name) {
  using Code = nb::dlpack::dtype_code;
  if (elements) {
    array.is_complex = elements->code == Code::Complex && elements->bits >= 64;
    array.type =
        array.is_complex ? real_type(Code::Float, elements->bits / 2) : real_type(elements->code, elements->bits);
    array.count = array.is_complex ? 2 * elements->count : elements->count;
  }
  if (!elements || array.type == tuttiDataTypeMax) {
    raise(tuttiInvalidArgument, std::string(name) +
                                    " has elements of a type that Tutti does not know; datatype= can "
                                    "say what its bytes are to be taken for");
  }
}

/// The text of what Python raised, which is forgotten; what is no Exception, such as KeyboardInterrupt, goes on.
std::string reason() {
  const nb::python_error error;
  if (!error.matches(PyExc_Exception)) throw error;
  const std::string text = nb::cast<std::string>(nb::str(error.value()));
  return text.empty() ? nb::cast<std::string>(error.type().attr("__name__")) : text;
}

/// Why the memory of `object` could not be had for reading, or "".
std::string why_unreadable(nb::handle object) {
  Py_buffer view;
  if (PyObject_CheckBuffer(object.ptr())) {
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) return reason();
    PyBuffer_Release(&view);
    return "";
  }
  if (!nb::hasattr(object, "__dlpack__")) return "take a numpy array, a buffer, or an object with __dlpack__";
  PyObject* capsule = PyObject_CallMethod(object.ptr(), "__dlpack__", nullptr);
  if (capsule == nullptr) return reason();
  Py_DECREF(capsule);
  return "";
}

/// Says why `object` could not be taken.
[[noreturn]] void refuse(nb::handle object, const char* name) {
  const std::string subject =
      std::string(name) + " (" + nb::cast<std::string>(nb::handle(object.type()).attr("__name__")) + ") ";
  const std::string why = why_unreadable(object);
  if (!why.empty()) raise(tuttiInvalidArgument, subject + "lends no memory: " + why);
  Py_buffer view;
  const bool is_buffer = PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS) == 0;
  if (is_buffer)
    PyBuffer_Release(&view);
  else
    PyErr_Clear();
  nb::ndarray<nb::ro, nb::c_contig> contiguous;
  if (!is_buffer && !nb::try_cast(object, contiguous, false)) {
    raise(tuttiInvalidArgument, subject + "has gaps or another order than C's: its elements are to lie side by side");
  }
  raise(tuttiInvalidArgument, subject + "may only be read");
}

/// Whether a format of module struct names objects of Python. The names of fields, which stand between colons, do not
/// count.
bool names_objects(std::string_view format) {
  bool in_name = false;
  for (const char letter : format) {
    if (letter == ':') in_name = !in_name;
    if (letter == 'O' && !in_name) return true;
  }
  return false;
}

bool take_buffer(Array& array, nb::handle object, const char* name, std::optional<tuttiDataType_t> type,
                 bool is_written) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  auto view = std::make_unique<Py_buffer>();
  const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (is_written ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0) {
    reason();
    return false;
  }
  array.buffer.reset(view.release());
  if (array.buffer->format != nullptr && names_objects(array.buffer->format)) {
    raise(tuttiInvalidArgument, std::string(name) + " has elements that are objects of Python");
  }
  array.data = array.buffer->buf;
  if (type)
    set_bytes(array, static_cast<size_t>(array.buffer->len), *type, name);
  else
    set_elements(array, elements_of(*array.buffer), name);
  return true;
}

/// Takes the memory of an object with __dlpack__.
template <class Memory>
bool take_dlpack(Array& array, nb::handle object, const char* name, std::optional<tuttiDataType_t> type) {
  Memory memory;
  if (!nb::try_cast(object, memory, false)) return false;
  using namespace nb::device;
  const int device = memory.device_type();
  if (device != cpu::value && device != cuda::value && device != cuda_host::value && device != cuda_managed::value) {
    raise(tuttiInvalidArgument,
          std::string(name) + " is in the memory of a device that is neither the host nor a GPU of CUDA");
  }
  array.data = const_cast<void*>(static_cast<const void*>(memory.data()));
  const nb::dlpack::dtype found = memory.dtype();
  const size_t count = memory.size();
  array.dlpack = nb::ndarray<nb::ro>(std::move(memory));
  if (found.bits * found.lanes % 8 != 0) {
    raise(tuttiInvalidArgument, std::string(name) + " has elements that are no whole bytes");
  }
  if (type)
    set_bytes(array, count * (found.bits * found.lanes / 8u), *type, name);
  else
    set_elements(array, Elements{static_cast<nb::dlpack::dtype_code>(found.code), found.bits, count * found.lanes},
                 name);
  return true;
}

}  // namespace

size_t size_of(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt8:
    case tuttiUint8:
    case tuttiBool:
    case tuttiFloat8e4m3:
    case tuttiFloat8e5m2:
      return 1;
    case tuttiInt16:
    case tuttiUint16:
    case tuttiFloat16:
    case tuttiBfloat16:
      return 2;
    case tuttiInt32:
    case tuttiUint32:
    case tuttiFloat32:
      return 4;
    default:
      return 8;
  }
}

void ReleaseBuffer::operator()(Py_buffer* view) const {
  PyBuffer_Release(view);
  delete view;
}

Array Array::view() const {
  Array same;
  same.data = data;
  same.count = count;
  same.type = type;
  same.is_complex = is_complex;
  return same;
}

Array readable(nb::handle object, const char* name, std::optional<tuttiDataType_t> type) {
  Array array;
  if (!take_buffer(array, object, name, type, false) &&
      !take_dlpack<nb::ndarray<nb::ro, nb::c_contig>>(array, object, name, type)) {
    refuse(object, name);
  }
  return array;
}

Array writable(nb::handle object, const char* name, std::optional<tuttiDataType_t> type) {
  Array array;
  if (!take_buffer(array, object, name, type, true) &&
      !take_dlpack<nb::ndarray<nb::c_contig>>(array, object, name, type)) {
    refuse(object, name);
  }
  return array;
}

}  // namespace tutti_python
