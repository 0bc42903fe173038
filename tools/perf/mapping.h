// Memory of a buffer, from the system or from tuttiMemAlloc.
#pragma once

#include <cstddef>

namespace tutti::perf {

class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Gets new memory in place of what it had, and touches it, because the first touch of a page is not what is
  /// measured. If `registered`, local peers may read it directly. Returns false if there is no memory.
  bool map(std::size_t bytes, bool registered);
  std::byte* data() const { return data_; }

 private:
  void unmap();
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool registered_ = false;
};

}  // namespace tutti::perf
