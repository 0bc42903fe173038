#include "operand.h"

#include <cstring>

namespace tutti_torch {
namespace {

bool plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

}  // namespace

Operand::Operand(std::vector<at::Tensor> parts, Use use) : parts_(std::move(parts)), use_(use) {
  for (const at::Tensor& part : parts_) {
    if (part.layout() != at::kStrided)
      C10_THROW_ERROR(ValueError, c10::str("tutti: a ", part.layout(), " tensor; this operation takes dense ones"));
    if (part.scalar_type() != dtype())
      C10_THROW_ERROR(ValueError,
                      c10::str("tutti: tensors of ", dtype(), " and of ", part.scalar_type(), " in one call"));
    elements_ += part.numel();
    bytes_ += part.nbytes();
  }
}

bool Operand::lies_dense(Place place) const {
  if (place == Place::kHost && !parts_.front().is_cpu()) return false;
  const char* next = nullptr;
  for (const at::Tensor& part : parts_) {
    if (!plain(part)) return false;
    if (part.numel() == 0) continue;
    const char* const begin = static_cast<const char*>(part.const_data_ptr());
    if (next != nullptr && begin != next) return false;
    next = begin + part.nbytes();
  }
  return true;
}

void Operand::open(Place place) {
  if (bytes_ == 0) return;
  scratch_ = at::Tensor();
  if (lies_dense(place)) {
    for (const at::Tensor& part : parts_) {
      if (part.numel() == 0) continue;
      data_ = use_ == Use::kRead ? const_cast<void*>(part.const_data_ptr()) : part.mutable_data_ptr();
      return;
    }
  }
  const c10::Device device = place == Place::kHost ? c10::Device(at::kCPU) : parts_.front().device();
  const bool pinned = device.is_cpu() && !parts_.front().is_cpu();
  scratch_ = at::empty({static_cast<std::int64_t>(bytes_)},
                       at::TensorOptions().dtype(at::kByte).device(device).pinned_memory(pinned));
  data_ = scratch_.mutable_data_ptr();
  if (use_ != Use::kWrite) copy(/*in=*/true);
}

void Operand::close() {
  if (scratch_.defined() && use_ != Use::kRead) copy(/*in=*/false);
}

void Operand::copy(bool in) {
  char* place = static_cast<char*>(data_);
  for (const at::Tensor& part : parts_) {
    const std::size_t bytes = part.nbytes();
    if (bytes == 0) continue;
    if (plain(part) && part.is_cpu() && scratch_.is_cpu()) {
      if (in)
        std::memcpy(place, part.const_data_ptr(), bytes);
      else
        std::memcpy(part.mutable_data_ptr(), place, bytes);
    } else {
      at::Tensor dense = at::for_blob(place, part.sizes())
                             .options(scratch_.options().dtype(part.scalar_type()))
                             .target_device(scratch_.device())
                             .make_tensor();
      if (in)
        dense.copy_(part, /*non_blocking=*/true);
      else
        part.copy_(dense, /*non_blocking=*/true);
    }
    place += bytes;
  }
}

}  // namespace tutti_torch
