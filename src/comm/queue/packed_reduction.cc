#include "comm/queue/packed_reduction.h"

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

DataType type_of(const CallArguments& a) { return static_cast<DataType>(a.type); }
Bytes payload_of(const CallArguments& a) { return Bytes{a.count * size_of(type_of(a)).value}; }

bool overlap(const void* a, Bytes a_bytes, const void* b, Bytes b_bytes) {
  const auto* const x = static_cast<const std::byte*>(a);
  const auto* const y = static_cast<const std::byte*>(b);
  return x < y + b_bytes.value && y < x + a_bytes.value;
}

/// The bits of 1. An average of integers could lose a 1, so those are not packed.
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

/// Whether the result of the operation is 0 as soon as one operand is 0, if all are 0 or 1. For the others it is not 0
/// as soon as one operand is 1.
bool is_conjunction(int op) {
  const auto of = static_cast<RedOp>(op);
  return of == RedOp::kProd || of == RedOp::kMin || of == RedOp::kBitAnd;
}

bool packs(const CallArguments& a) {
  const auto op = static_cast<RedOp>(a.op);
  const bool keeps_objections = op != RedOp::kBitXor && (op != RedOp::kAvg || is_float(type_of(a)));
  return a.collective == Collective::kAllReduce && a.user == nullptr && a.wire < 0 && a.count != 0 && keeps_objections;
}

}  // namespace

bool PackedReduction::fit(const CallArguments& a, const CallArguments& b) {
  return packs(a) && packs(b) && a.type == b.type && a.op == b.op;
}

std::size_t PackedReduction::add(const CallArguments& part, bool input_comes_later) {
  objects_ = objects_ || input_comes_later || part.staged;
  parts_.push_back(part);
  return parts_.size() - 1;
}

Bytes PackedReduction::bytes() const {
  Bytes total{0};
  for (const CallArguments& part : parts_) total += payload_of(part);
  return total;
}

bool PackedReduction::reads_what_is_written() const {
  for (std::size_t later = 1; later < parts_.size(); ++later)
    for (std::size_t earlier = 0; earlier < later; ++earlier)
      if (overlap(parts_[later].send, payload_of(parts_[later]), parts_[earlier].recv, payload_of(parts_[earlier])))
        return true;
  return false;
}

std::byte* PackedReduction::objection() const { return memory_.get() + bytes().value; }

CallArguments PackedReduction::exchange() {
  const CallArguments& first = parts_.front();
  const std::size_t element = size_of(type_of(first)).value;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes().value + element);
  CallArguments whole = first;
  whole.staged = whole.two_levels = false;
  whole.count = 1;
  std::byte* at = memory_.get();
  for (const CallArguments& part : parts_) {
    if (part.staged) std::memset(at, 0, payload_of(part).value);
    if (!part.staged) std::memcpy(at, part.send, payload_of(part).value);
    at += payload_of(part).value;
    whole.count += part.count;
    whole.agreed = mix64(whole.agreed + part.count);  // ranks must agree on where parts end, too
  }
  const bool raised = (objects_ || reads_what_is_written()) != is_conjunction(first.op);
  const std::uint64_t word = raised ? one_of(type_of(first)) : 0;
  std::memcpy(objection(), &word, element);  // all supported processors are little-endian
  whole.send = whole.recv = memory_.get();
  return whole;
}

bool PackedReduction::settle() {
  const std::byte* const element = objection();
  const std::size_t size = size_of(type_of(parts_.front())).value;
  const bool raised = std::any_of(element, element + size, [](std::byte b) { return b != std::byte{0}; });
  settled_ = raised == is_conjunction(parts_.front().op);
  return settled_;
}

void PackedReduction::take(std::size_t part) const {
  const std::byte* at = memory_.get();
  for (std::size_t before = 0; before < part; ++before) at += payload_of(parts_[before]).value;
  std::memcpy(parts_[part].recv, at, payload_of(parts_[part]).value);
}

}  // namespace tutti
