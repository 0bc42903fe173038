#include "transport/device/multicast_buffer.h"

#include <algorithm>
#include <utility>

namespace tutti {

Status choose_mirrors(std::span<const MulticastKind> wishes, std::span<const int> numbers, MulticastKind* kind) {
  const auto number = [&](auto place) {
    const auto rank = static_cast<std::size_t>(place - wishes.begin());
    return numbers.empty() ? static_cast<int>(rank) : numbers[rank];
  };
  const auto is = [](MulticastKind one) { return [one](MulticastKind wish) { return wish == one; }; };
  const auto mapped = std::find_if(wishes.begin(), wishes.end(), is(MulticastKind::kMapped));
  const auto other = std::find_if_not(wishes.begin(), wishes.end(), is(MulticastKind::kMapped));
  if (mapped != wishes.end() && other != wishes.end())
    return fail(Code::kInvalidArgument, "TUTTI_MULTICAST is 'mapped' for rank {} and not for rank {}", number(mapped),
                number(other));
  const bool all = std::all_of(wishes.begin(), wishes.end(), is(wishes[0]));
  *kind = all ? wishes[0] : MulticastKind::kNone;
  return {};
}

Status MulticastBuffer::make(DeviceMappings& mappings, MulticastKind kind, std::vector<int> devices, Bytes bytes,
                             std::unique_ptr<MulticastBuffer>* made) {
  std::unique_ptr<MulticastBuffer> mirror(new MulticastBuffer(mappings, kind, std::move(devices)));
  TUTTI_TRY(mirror->open(bytes));
  *made = std::move(mirror);
  return {};
}

Status MulticastBuffer::open(Bytes bytes) {
  const bool multicast = kind_ == MulticastKind::kMulticast;
  if (!multicast) {
    copies_.resize(1);
    copies_[0].device = devices_[0];
    std::sort(devices_.begin(), devices_.end());
    devices_.erase(std::unique(devices_.begin(), devices_.end()), devices_.end());
  }
  for (std::size_t rank = 0; multicast && rank < devices_.size(); ++rank)
    copies_.emplace_back().device = devices_[rank];
  Bytes unit;
  TUTTI_TRY(mappings_.granularity(devices_, multicast, &unit));
  bytes_ = Bytes{round_up(bytes.value, unit.value)};
  // All devices are added to the object at once: until then, memory cannot be bound to it, nor can it be mapped.
  if (multicast) TUTTI_TRY(mappings_.create_multicast(devices_, bytes_, &object_));
  for (Copy& copy : copies_) TUTTI_TRY(open_copy(&copy));
  return {};
}

Status MulticastBuffer::open_copy(Copy* copy) {
  const std::span<const int> own(&copy->device, 1);
  TUTTI_TRY(mappings_.create(copy->device, bytes_, &copy->memory));
  if (object_ != 0) {
    TUTTI_TRY(mappings_.bind(object_, copy->device, copy->memory, bytes_));
    copy->is_bound = true;
  }
  const std::span<const int> users = object_ != 0 ? own : std::span<const int>(devices_);
  TUTTI_TRY(mappings_.map(copy->memory, bytes_, users, &copy->read));
  TUTTI_TRY(mappings_.zero(copy->device, copy->read, bytes_));
  return mappings_.map(object_ != 0 ? object_ : copy->memory, bytes_, users, &copy->written);
}

// The addresses for stores are unmapped first, so that nothing is written into memory that is gone. A failure leaves
// memory behind, and nobody could do anything about it.
MulticastBuffer::~MulticastBuffer() {
  for (const Copy& copy : copies_)
    if (copy.written != nullptr) (void)mappings_.unmap(copy.written, bytes_);
  for (const Copy& copy : copies_) {
    if (copy.is_bound) (void)mappings_.unbind(object_, copy.device, bytes_);
    if (copy.read != nullptr) (void)mappings_.unmap(copy.read, bytes_);
    if (copy.memory != 0) (void)mappings_.release(copy.memory);
  }
  if (object_ != 0) (void)mappings_.release(object_);
}

const MulticastBuffer::Copy& MulticastBuffer::copy_of(Rank rank) const {
  return copies_[kind_ == MulticastKind::kMapped ? 0 : static_cast<std::size_t>(rank.value)];
}

Bytes MulticastBuffer::bytes_of(Rank rank) const {
  return kind_ == MulticastKind::kMapped && rank != Rank{0} ? Bytes{0} : bytes_;
}

}  // namespace tutti
