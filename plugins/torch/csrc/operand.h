// Tensors as Tutti takes them: one dense block of memory, of the host or of a device.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "element.h"

namespace tutti_torch {

/// One or several tensors of one dtype and device, one after the other. Tensors that lie so already where the call
/// needs them are used as they are; others (strided, conjugated, scattered over memory, on a GPU) are copied to scratch
/// memory before the call and back after. Copies from and to a device are put on its current stream.
class Operand {
 public:
  enum class Use { kRead, kWrite, kBoth };
  /// Where the call needs the block.
  enum class Place {
    kHost,
    kDevice,  ///< where the tensors are
  };
  Operand(at::Tensor tensor, Use use) : Operand(std::vector<at::Tensor>{std::move(tensor)}, use) {}
  /// `parts` may be empty: no memory, of zero elements.
  Operand(std::vector<at::Tensor> parts, Use use);

  /// By the thread that makes the call, before it: copies in. May be called again, for another place.
  void open(Place place = Place::kHost);
  /// After it: copies out.
  void close();
  bool read() const { return use_ != Use::kWrite; }
  bool written() const { return use_ != Use::kRead; }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Elements of all parts, or of part `i`, as they travel.
  std::size_t count(const Element& element) const { return elements_ * element.per; }
  std::size_t count(const Element& element, std::size_t i) const { return parts_[i].numel() * element.per; }
  std::size_t size() const { return parts_.size(); }
  at::ScalarType dtype() const { return parts_.empty() ? at::kByte : parts_.front().scalar_type(); }
  const std::vector<at::Tensor>& parts() const { return parts_; }

 private:
  bool lies_dense(Place place) const;
  void copy(bool in);

  std::vector<at::Tensor> parts_;
  Use use_;
  std::size_t elements_ = 0;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
  at::Tensor scratch_;
};

}  // namespace tutti_torch
