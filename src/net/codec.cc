#include "net/codec.h"

#include <algorithm>
#include <array>

#include "core/printable.h"

namespace tutti {

void MessageWriter::integer(std::uint64_t value, int size) {
  std::array<std::byte, sizeof(value)> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  out_.insert(out_.end(), bytes.begin(), bytes.begin() + size);
}

void MessageWriter::text(std::string_view value) {
  value = value.substr(0, kMaxText);
  u32(static_cast<std::uint32_t>(value.size()));
  bytes(bytes_of(value));
}

ByteView MessageReader::take(std::size_t size) {
  if (bad_ || data_.size() < size) {
    bad_ = true;
    return {};
  }
  const ByteView taken = data_.first(size);
  data_ = data_.subspan(size);
  return taken;
}

std::uint64_t MessageReader::integer(std::size_t size) {
  const ByteView from = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < from.size(); ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

void MessageReader::bytes(std::span<std::byte> out) {
  const ByteView from = take(out.size());
  if (from.empty()) return std::fill(out.begin(), out.end(), std::byte{0});
  std::copy(from.begin(), from.end(), out.begin());
}

std::string MessageReader::line() { return printable(text()); }

std::string MessageReader::lines() {
  const std::string whole = text();
  std::string shown = printable(whole);
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (whole[i] == '\n' || whole[i] == '\t') shown[i] = whole[i];
  return shown;
}

std::string MessageReader::text() {
  const std::uint32_t size = u32();
  if (size > MessageWriter::kMaxText) bad_ = true;
  const ByteView from = take(bad_ ? 0 : size);
  return std::string(reinterpret_cast<const char*>(from.data()), from.size());
}

std::size_t MessageReader::count(std::size_t limit, std::size_t item_size) {
  const std::uint32_t value = u32();
  if (value > limit || value > data_.size() / item_size) bad_ = true;
  return bad_ ? 0 : value;
}

Status MessageReader::finish(const char* what) const {
  if (!bad_ && data_.empty()) return {};
  return fail(Code::kRemoteError, "a peer sent a {} message that cannot be read", what);
}

}  // namespace tutti
