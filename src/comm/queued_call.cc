#include "comm/queued_call.h"

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

Bytes bytes_of(const CallArguments& a) { return Bytes{a.count * size_of(static_cast<DataType>(a.type)).value}; }

bool overlap(const void* a, const void* b, const CallArguments& of_a, const CallArguments& of_b) {
  const auto* const x = static_cast<const std::byte*>(a);
  const auto* const y = static_cast<const std::byte*>(b);
  return x < y + bytes_of(of_b).value && y < x + bytes_of(of_a).value;
}

/// The bits of 1. Averages of integers, which could lose it, are not packed.
std::uint64_t one_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x3c00;
    case DataType::kBfloat16:
      return 0x3f80;
    case DataType::kFloat32:
      return 0x3f800000;
    case DataType::kFloat64:
      return 0x3ff0000000000000;
    case DataType::kFloat8e4m3:
      return 0x38;
    case DataType::kFloat8e5m2:
      return 0x3c;
    default:
      return 1;
  }
}

/// Operations whose result is 0 when one operand is; of the others it is not when one is 1 and the rest are 0.
bool is_conjunction(RedOp op) { return op == RedOp::kProd || op == RedOp::kMin || op == RedOp::kBitAnd; }

bool packs(const CallArguments& a) {
  const auto op = static_cast<RedOp>(a.op);
  const bool keeps_objections = op != RedOp::kBitXor && (op != RedOp::kAvg || is_float(static_cast<DataType>(a.type)));
  return a.collective == Collective::kAllReduce && a.user == nullptr && a.wire < 0 && a.count != 0 && keeps_objections;
}

}  // namespace

bool QueuedCall::combines_with(const QueuedCall& other) const {
  if (!collective_ || !other.collective_ || !packs(arguments()) || !packs(other.arguments())) return false;
  return arguments().type == other.arguments().type && arguments().op == other.arguments().op;
}

Bytes QueuedCall::bytes() const { return bytes_of(arguments()); }

void QueuedCall::combine(QueuedCall other) {
  if (parts_.empty()) parts_.push_back(KeptArguments(arguments(), nullptr));
  arguments_.edit()->count += other.arguments().count;
  parts_.push_back(std::move(other.arguments_));
}

/// Packing reads all inputs before any output is written: wrong where an input is an earlier output.
bool QueuedCall::objects() const {
  for (std::size_t later = 1; later < parts_.size(); ++later)
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      if (overlap(parts_[later].get().send, parts_[earlier].get().recv, parts_[later].get(), parts_[earlier].get()))
        return true;
  return false;
}

std::byte* QueuedCall::object_element() const {
  return packed_.get() + bytes().value - size_of(static_cast<DataType>(arguments().type)).value;
}

void QueuedCall::pack() {
  if (parts_.empty() || alone_) return;
  ++arguments_.edit()->count;
  packed_ = std::make_unique_for_overwrite<std::byte[]>(bytes().value);
  std::byte* at = packed_.get();
  for (const KeptArguments& part : parts_) {
    std::memcpy(at, part.get().send, bytes_of(part.get()).value);
    at += bytes_of(part.get()).value;
  }
  const auto type = static_cast<DataType>(arguments().type);
  const bool raised = objects() != is_conjunction(static_cast<RedOp>(arguments().op));
  const std::uint64_t word = raised ? one_of(type) : 0;
  std::memcpy(object_element(), &word, size_of(type).value);  // little-endian, as all supported processors
  arguments_.edit()->send = arguments_.edit()->recv = packed_.get();
}

bool QueuedCall::was_objected() const {
  const std::byte* const element = object_element();
  const std::size_t size = size_of(static_cast<DataType>(arguments().type)).value;
  const bool raised = std::any_of(element, element + size, [](std::byte b) { return b != std::byte{0}; });
  return raised != is_conjunction(static_cast<RedOp>(arguments().op));
}

bool QueuedCall::unpack() {
  if (parts_.empty()) return false;
  if (!alone_ && !was_objected()) {
    const std::byte* at = packed_.get();
    for (const KeptArguments& part : parts_) {
      std::memcpy(part.get().recv, at, bytes_of(part.get()).value);
      at += bytes_of(part.get()).value;
    }
    return false;
  }
  alone_ = true;
  if (next_ == parts_.size()) return false;
  arguments_ = std::move(parts_[next_++]);
  return true;
}

}  // namespace tutti
