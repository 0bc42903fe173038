// ShmLayout: where things are in a rank's segment. The map is drawn in docs/design/links.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/call_board.h"
#include "core/units.h"
#include "transport/shm/direct_read.h"
#include "transport/shm/segment.h"
#include "transport/shm/sleep_word.h"

namespace tutti {

/// Sizes that all ranks of a communicator agreed on at join; they fix the layout of every segment.
struct ShmGeometry {
  /// A segment has links to every rank, and the segments of more ranks would not fit into an address space.
  static constexpr int kMostRanks = 4096;

  int ranks = 1;
  int lanes = 1;
  Bytes slot_bytes{256 * 1024};  ///< payload of a large slot: the largest message
  std::uint32_t slots = 4;       ///< large slots of each link; rounded up to a power of two of at least 2

  /// The size of one rank's segment. It is sparse: pages appear when touched.
  Bytes segment_bytes() const;
};

/// A link has two rings; both sides choose by the size of the message.
enum class RingKind : std::uint8_t { kCells = 0, kSlots = 1 };

/// The line in front of a message. `word` is written last and read first. It has 48 bits of fingerprint, then 16 bits
/// of the message's position in the ring plus 1, so that neither zeroed memory nor the message that was in this place
/// before matches.
struct alignas(kCacheLine) MessageHeader {
  static constexpr std::size_t kInline = 48;
  std::atomic<std::uint64_t> word;
  static constexpr std::uint64_t kReference = std::uint64_t{1} << 63;
  std::uint64_t size;  // with kReference, the payload is the message's address in the writer's memory
  std::byte
      payload[kInline];  // of a message of at most kInline bytes: flag and data cross in one line; else see slot()

  /// Which slot a message is in that is too large for a cell.
  std::uint64_t slot() const {
    std::uint64_t number = 0;
    std::memcpy(&number, payload, sizeof number);
    return number;
  }
  void set_slot(std::uint64_t number) { std::memcpy(payload, &number, sizeof number); }
};
static_assert(sizeof(MessageHeader) == kCacheLine);

/// How many messages a reader has released of one writer's links to it on one lane. Only the reader writes this line.
struct alignas(kCacheLine) ReleaseLine {
  std::atomic<std::uint64_t> released[2][2];  // [multicast][RingKind]
};

/// The front of a segment.
struct ControlPage {
  alignas(kCacheLine) SleepWord sleep_word;  // alone in its line, because peers load it at every commit and release
  alignas(kCacheLine) std::atomic<std::uint64_t> digest;  // of the geometry, once the endpoint exists
  std::atomic<std::uint32_t> enrolled;                    // 1: ProcessBarrier::run reaches this rank's process
  std::atomic<std::uint32_t> unmapped;  // 1: this rank's process has closed the device memory of its peers
  alignas(kCacheLine) CallBoard board;
  alignas(kCacheLine) DirectPage direct;
};
static_assert(sizeof(ControlPage) <= Segment::kFrontBytes.value && Segment::kFrontBytes.value == 4096);
static_assert(DirectPage::kMostRanks >= ShmGeometry::kMostRanks);

class ShmLayout {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kCellBytes = 4096;  ///< largest message that goes through cells
  static constexpr std::uint32_t kCells = 16;      ///< a power of two
  static constexpr std::uint32_t kMaxSlots = 64;   ///< a bit each in SendRing
  static constexpr std::size_t kHeaderStride = kCacheLine;

  explicit ShmLayout(const ShmGeometry& geometry);

  std::size_t slots() const { return slots_; }
  std::size_t capacity(RingKind kind) const { return kind == RingKind::kCells ? kCells : slots_; }
  std::size_t segment_bytes() const { return end_; }
  std::uint64_t digest() const;

  /// An offset in the reader's segment.
  std::size_t release_line(Rank writer, std::uint16_t lane) const {
    return kPage + (index(lane) * ranks_ + index(writer.value)) * sizeof(ReleaseLine);
  }
  /// An offset in the writer's segment. `target` is the reader, or ranks() for the multicast ring, which comes first.
  std::size_t headers(std::size_t target, std::uint16_t lane, RingKind kind) const {
    return headers_ + ring(target, lane) * header_bytes_ + (kind == RingKind::kCells ? 0 : kCells * kHeaderStride);
  }
  std::size_t payloads(std::size_t target, std::uint16_t lane, RingKind kind) const {
    return kind == RingKind::kCells ? cells_ + ring(target, lane) * kCells * kCellStride
                                    : large_ + ring(target, lane) * slots_ * slot_stride_;
  }
  std::size_t payload_stride(RingKind kind) const { return kind == RingKind::kCells ? kCellStride : slot_stride_; }
  std::size_t ranks() const { return ranks_; }

  /// What every pair of ranks uses from the first call on: control page, release lines, headers.
  std::size_t hot_bytes() const { return headers_end_; }

 private:
  // Strides are an odd number of lines, so that equal offsets in different slots are not equal modulo 4096. If they
  // were, loads would wait for stores to addresses that only look alike, and all slots would share the same sets of the
  // first-level cache.
  static constexpr std::size_t kCellStride = kCellBytes + kCacheLine;
  static constexpr std::size_t kSlotStagger = 17 * kCacheLine;

  static std::size_t index(int value) { return static_cast<std::size_t>(value); }
  std::size_t ring(std::size_t target, std::uint16_t lane) const {
    const std::size_t place = target == ranks_ ? 0 : target + 1;
    return lane * (ranks_ + 1) + place;
  }

  std::size_t ranks_;
  std::size_t lanes_;
  std::size_t slots_;
  std::size_t slot_stride_;
  std::size_t header_bytes_;  // those of both rings of one link
  std::size_t headers_;
  std::size_t headers_end_;
  std::size_t cells_;
  std::size_t large_;
  std::size_t end_;  // after the page for device memory, see lending_page.h
};

inline ShmLayout::ShmLayout(const ShmGeometry& geometry)
    : ranks_(index(geometry.ranks)),
      lanes_(index(geometry.lanes)),
      slots_(std::bit_ceil(std::max(geometry.slots, 2u))),
      slot_stride_(round_up(geometry.slot_bytes.value, kCacheLine) + kSlotStagger),
      header_bytes_((kCells + slots_) * kHeaderStride),
      headers_(round_up(kPage + lanes_ * ranks_ * sizeof(ReleaseLine), kPage)),
      headers_end_(headers_ + lanes_ * (ranks_ + 1) * header_bytes_),
      cells_(round_up(headers_end_, kPage)),
      large_(round_up(cells_ + lanes_ * (ranks_ + 1) * kCells * kCellStride, kPage)),
      end_(round_up(large_ + lanes_ * (ranks_ + 1) * slots_ * slot_stride_, kPage) + kPage) {}

}  // namespace tutti
