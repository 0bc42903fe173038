// The memory of numpy arrays, buffers and everything with DLPack, for calls of Tutti.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace tutti_python {

namespace nb = nanobind;

struct ReleaseBuffer {
  void operator()(Py_buffer* view) const;
};

/// Elements of one type in one block of memory, which a Python object lends for as long as this lives. It is made and
/// destroyed with the interpreter's lock held.
struct Array {
  void* data = nullptr;
  size_t count = 0;
  tuttiDataType_t type = tuttiUint8;
  bool is_complex = false;  ///< `type` and `count` are those of the real and imaginary parts

  std::unique_ptr<Py_buffer, ReleaseBuffer> buffer;  // one of these two lends it
  nb::ndarray<nb::ro> dlpack;

  /// Another Array of the same memory. It may be used as long as this one lives.
  Array view() const;
};

size_t size_of(tuttiDataType_t type);

/// Takes the memory of `object` for a call that reads it. `name` is the argument's, for errors. If `type` is given, the
/// bytes are taken for elements of it. Throws InvalidArgument if `object` lends no memory, has gaps or another order
/// than C's, or elements that Tutti has no type for.
Array readable(nb::handle object, const char* name, std::optional<tuttiDataType_t> type);
/// Does what readable does, for a call that writes the memory. Throws InvalidArgument also if it is read-only.
Array writable(nb::handle object, const char* name, std::optional<tuttiDataType_t> type);

}  // namespace tutti_python
