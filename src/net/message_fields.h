// A message names its fields once, for both directions: fields(io, message) passes them, in the order in which they
// travel, to a FieldWriter or a FieldReader, and returns the message's name for errors.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "net/codec.h"

namespace tutti {

/// Writes the fields that fields() names. It ignores checks, which are for the reader.
class FieldWriter {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  void line(const std::string& text, std::size_t limit = MessageWriter::kMaxText) {
    out_.text(std::string_view(text).substr(0, limit));
  }
  void lines(const std::string& text) { out_.text(text); }
  void text(const std::string& text) { out_.text(text); }
  template <class List, class Each>
  void list(const List& items, std::size_t limit, std::size_t /*least_bytes*/, const Each& each) {
    const std::size_t count = std::min(items.size(), limit);
    out_.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) each(items[i]);
  }
  void check(bool) {}
  const std::vector<std::byte>& data() const { return out_.data(); }

 private:
  void put(bool value) { out_.u8(value ? 1 : 0); }
  void put(std::uint8_t value) { out_.u8(value); }
  void put(std::uint16_t value) { out_.u16(value); }
  void put(std::int32_t value) { out_.u32(static_cast<std::uint32_t>(value)); }
  void put(std::uint32_t value) { out_.u32(value); }
  void put(std::uint64_t value) { out_.u64(value); }
  void put(Rank value) { out_.rank(value); }
  void put(Code value) { out_.u32(static_cast<std::uint32_t>(value)); }
  void put(Lane value) { out_.u32(value.value); }
  template <class Enum>
  requires(std::is_enum_v<Enum> && sizeof(Enum) == 1) void put(Enum value) {
    out_.u8(static_cast<std::uint8_t>(value));
  }
  template <class Bytes>
  requires std::convertible_to<const Bytes&, ByteView>
  void put(const Bytes& value) { out_.bytes(value); }

  MessageWriter out_;
};

/// Reads the fields that fields() names. A value that fails a check makes the whole message unreadable.
class FieldReader {
 public:
  explicit FieldReader(ByteView data) : in_(data) {}
  template <class... Values>
  void operator()(Values&... values) {
    (get(&values), ...);
  }
  /// Control characters are replaced; a text of more than `limit` bytes is refused.
  void line(std::string& text, std::size_t limit = MessageWriter::kMaxText) {
    text = in_.line();
    check(text.size() <= limit);
  }
  void lines(std::string& text) { text = in_.lines(); }
  void text(std::string& text) { text = in_.text(); }
  /// More than `limit` items, or more than `least_bytes` each leave room for, are refused.
  template <class List, class Each>
  void list(List& items, std::size_t limit, std::size_t least_bytes, const Each& each) {
    items.resize(in_.count(limit, least_bytes));
    for (auto& item : items) {
      each(item);
      if (in_.bad()) return;
    }
  }
  void check(bool right) {
    if (!right) in_.refuse();
  }
  Status finish(const char* what) const { return in_.finish(what); }

 private:
  void get(bool* value) { *value = in_.u8() != 0; }
  void get(std::uint8_t* value) { *value = in_.u8(); }
  void get(std::uint16_t* value) { *value = in_.u16(); }
  void get(std::int32_t* value) { *value = static_cast<std::int32_t>(in_.u32()); }
  void get(std::uint32_t* value) { *value = in_.u32(); }
  void get(std::uint64_t* value) { *value = in_.u64(); }
  void get(Rank* value) { *value = in_.rank(); }
  void get(Code* value) {
    const std::uint32_t code = in_.u32();
    check(code != 0 && code <= static_cast<std::uint32_t>(Code::kUnsupported));
    *value = static_cast<Code>(code);
  }
  void get(Lane* value) {
    const std::uint32_t lane = in_.u32();
    check(lane <= UINT16_MAX);
    *value = Lane{static_cast<std::uint16_t>(lane)};
  }
  /// Whether the value has a name is for check() to say.
  template <class Enum>
  requires(std::is_enum_v<Enum> && sizeof(Enum) == 1) void get(Enum* value) { *value = static_cast<Enum>(in_.u8()); }
  template <class Bytes>
  requires std::convertible_to<Bytes&, std::span<std::byte>>
  void get(Bytes* value) { in_.bytes(*value); }

  MessageReader in_;
};

/// A Message that is read, or a constant one that is written.
template <class Given, class Message>
concept Of = std::is_same_v<std::remove_const_t<Given>, Message>;

/// The bytes of a message for which there is fields().
template <class Message>
std::vector<std::byte> write_fields(const Message& message) {
  FieldWriter out;
  fields(out, message);
  return out.data();
}

/// kRemoteError: these are not the bytes of such a message, or a value is out of range.
template <class Message>
Status read_fields(ByteView data, Message* message) {
  FieldReader in(data);
  const char* const name = fields(in, *message);
  return in.finish(name);
}

}  // namespace tutti
