// How a message is written and read: little-endian integers, and texts with their size before them. The reader checks
// every bound; a message that does not parse to its last byte is refused as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "core/units.h"
#include "net/crypto.h"

namespace tutti {

/// What a message is. It travels as a number; whoever exchanges messages gives the numbers their names.
enum class MessageType : std::uint16_t;

/// Builds a message.
class MessageWriter {
 public:
  void u8(std::uint8_t value) { integer(value, 1); }
  void u16(std::uint16_t value) { integer(value, 2); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  void rank(Rank value) { u32(static_cast<std::uint32_t>(value.value)); }
  void bytes(ByteView value) { out_.insert(out_.end(), value.begin(), value.end()); }
  /// Cut at kMaxText.
  void text(std::string_view value);

  static constexpr std::size_t kMaxText = 4096;
  const std::vector<std::byte>& data() const { return out_; }

 private:
  void integer(std::uint64_t value, int size);
  std::vector<std::byte> out_;
};

/// Takes a message apart. After the first value that is not there every further one is zero or empty, and finish()
/// fails.
class MessageReader {
 public:
  explicit MessageReader(ByteView data) : data_(data) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(integer(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  Rank rank() { return Rank{static_cast<std::int32_t>(u32())}; }
  void bytes(std::span<std::byte> out);
  std::string text();
  /// A text that is shown: see printable().
  std::string line();
  /// A text of several lines that may be shown line by line.
  std::string lines();
  /// How many items follow; more than `limit`, or more than `item_size` bytes each leave room for, is refused.
  std::size_t count(std::size_t limit, std::size_t item_size);
  void refuse() { bad_ = true; }
  bool bad() const { return bad_; }

  /// kRemoteError unless everything was there and nothing is left.
  Status finish(const char* what) const;

 private:
  std::uint64_t integer(std::size_t size);
  ByteView take(std::size_t size);
  ByteView data_;
  bool bad_ = false;
};

}  // namespace tutti
