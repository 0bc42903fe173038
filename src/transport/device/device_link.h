// Links between the thread blocks of kernels: plain structs of pointers and counters, for host and device.
//
// Each rank owns one arena of device memory. Block b of a rank meets block b of its peers only, on links of its own. A
// link has a ring of cells for small messages, whose words each carry half data and half flag, so that they need no
// order and no second trip, and a ring of slots for large ones, announced by a counter. Positions only grow and live in
// the arena: a kernel finds there where the one before it stopped, so a replayed graph goes on where it should, and
// nothing is ever cleared. See docs/design/device.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "device/device_word.h"

namespace tutti {

inline constexpr int kMaxDeviceRanks = 16;
inline constexpr int kMaxDeviceBlocks = 64;
/// Allocations that a rank lends to other processes at a time.
inline constexpr std::uint32_t kLentRegions = 16;

/// Positions of the next message in a link's two rings. A cell's flag is the low half of its position, plus one.
struct LinkEnd {
  std::uint64_t cells = 0;
  std::uint64_t slots = 0;

  TUTTI_HD std::uint64_t& ring(bool small) { return small ? cells : slots; }
  TUTTI_HD std::uint64_t ring(bool small) const { return small ? cells : slots; }
};

/// One rank's ends of one block's links; between kernels in its arena, within one in the block's shared memory.
struct LinkTable {
  LinkEnd sent[kMaxDeviceRanks];       ///< to each rank; to itself: the multicast link
  LinkEnd received[kMaxDeviceRanks];   ///< from each rank, what was sent to this one
  LinkEnd multicast[kMaxDeviceRanks];  ///< from each rank, what was sent to all
  LinkEnd limits[kMaxDeviceRanks];     ///< of `sent`: the first position without a credit, as far as was looked
};

/// What lies beside a slot, stored before the counter tells of it.
struct SlotMark {
  std::uint64_t fingerprint = 0;  ///< of the message
  std::uint64_t lent = 0;         ///< a LentPlace: where the message is, in the writer's buffers; 0: it is in the slot
};

/// Where a lent message is. Within one process: its address. Else, as addresses differ, the writer's region in the
/// upper 16 bits, counted from 1, and the distance from that one's begin in the rest.
struct LentPlace {
  static constexpr int kOffsetBits = 48;

  TUTTI_HD static std::uint64_t in_region(std::uint32_t region, std::uint64_t offset) {
    return (std::uint64_t{region} + 1) << kOffsetBits | offset;
  }
  TUTTI_HD static std::uint32_t region_of(std::uint64_t place) {
    return static_cast<std::uint32_t>(place >> kOffsetBits) - 1;
  }
  TUTTI_HD static std::uint64_t offset_of(std::uint64_t place) {
    return place & ((std::uint64_t{1} << kOffsetBits) - 1);
  }
};

/// Memory of the caller's that peers in other processes can read.
struct LentBuffer {
  const std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;  ///< of its begin

  TUTTI_HD bool holds(const std::byte* memory) const {
    return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(begin) < bytes;
  }
};

/// Agreed at join; all ranks compute the same offsets from it.
struct DeviceGeometry {
  std::int32_t ranks = 1;            ///< at most kMaxDeviceRanks
  std::uint32_t blocks = 1;          ///< at most kMaxDeviceBlocks
  std::uint32_t cells = 8;           ///< a power of two, at least 8: credits come back in halves
  std::uint32_t cell_bytes = 2048;   ///< the largest message of a cell; a multiple of 16
  std::uint32_t slots = 2;           ///< a power of two, at least 2
  std::uint32_t slot_bytes = 65536;  ///< the largest message; a multiple of 256

  /// A head and its data, half of which are flags.
  TUTTI_HD constexpr std::size_t pairs_of_cell() const { return 1 + cell_bytes / 8; }

  // Within a block's section of an arena.
  TUTTI_HD constexpr std::size_t released_at() const { return sizeof(LinkTable); }
  TUTTI_HD constexpr std::size_t landing_at() const {
    return round_up(released_at() + 2 * kMaxDeviceRanks * sizeof(LinkEnd), kAlign);
  }
  TUTTI_HD constexpr std::size_t heads_at() const {
    return round_up(landing_at() + (links() + 1) * cell_bytes, kAlign);
  }
  TUTTI_HD constexpr std::size_t marks_at() const { return heads_at() + kMaxDeviceRanks * sizeof(std::uint64_t); }
  TUTTI_HD constexpr std::size_t cells_at() const {
    return round_up(marks_at() + links() * slots * sizeof(SlotMark), kAlign);
  }
  TUTTI_HD constexpr std::size_t slots_at() const {
    return round_up(cells_at() + links() * cells * pairs_of_cell() * sizeof(WordPair), kAlign);
  }
  TUTTI_HD constexpr std::size_t section_bytes() const { return slots_at() + links() * slots * slot_bytes; }
  /// Of one rank's arena.
  TUTTI_HD constexpr std::size_t arena_bytes() const { return kHead + blocks * section_bytes(); }
  TUTTI_HD constexpr std::size_t section_at(std::uint32_t block) const { return kHead + block * section_bytes(); }

  /// Heads, marks and cells of a block, which is what a mirror has.
  TUTTI_HD constexpr std::size_t mirrored_bytes() const { return slots_at() - heads_at(); }
  TUTTI_HD constexpr std::size_t mirror_bytes() const { return blocks * mirrored_bytes(); }

  static constexpr std::size_t kAlign = 256;
  /// In front of the sections: the stop word, and where the peers' regions are mapped.
  static constexpr std::size_t kRegionsAt = kAlign;
  static constexpr std::size_t kHead = kRegionsAt + kMaxDeviceRanks * kLentRegions * sizeof(std::uint64_t);

 private:
  TUTTI_HD constexpr std::size_t links() const { return static_cast<std::size_t>(ranks); }
};

/// Where a link's rings are: in the arena of `home`, as the link from `writer`. What goes to one rank lies with that
/// rank, where it polls and reads; what goes to all lies with its writer, but for what a mirror has of it.
struct DeviceRoute {
  std::int32_t home;
  std::int32_t writer;

  TUTTI_HD static DeviceRoute of(std::int32_t writer, std::int32_t reader, bool multicast) {
    return DeviceRoute{multicast ? writer : reader, writer};
  }
  TUTTI_HD bool is_to_all() const { return home == writer; }
};

/// Who uses a link's words: each side has an address of its own for them where there is a mirror.
enum class LinkSide : std::uint8_t { kReader, kWriter };

/// All links of one rank, as they travel in kernel parameters. The memory is the arenas', and the mirrors'.
struct DeviceLinks {
  DeviceGeometry geometry;
  std::int32_t rank = 0;
  bool wide = false;            ///< peers may be on other devices, see device_word.h
  bool single_process = false;  ///< all ranks are of one process: an address means the same to all of them
  bool multimem = false;        ///< `to_mirrors` is of a multicast object
  std::byte* arenas[kMaxDeviceRanks] = {};
  /// What is announced to all, on this rank's device: for loads. nullptr: it lies in the writers' arenas.
  std::byte* mirror = nullptr;
  std::byte* to_mirrors = nullptr;  ///< the same on all ranks' devices: for stores

  /// Set to stop all blocks of this rank.
  TUTTI_HD std::uint64_t* stop() const { return stop_of(rank); }
  TUTTI_HD std::uint64_t* stop_of(std::int32_t peer) const { return reinterpret_cast<std::uint64_t*>(arenas[peer]); }

  /// The address at which this rank's kernels find a region of the peer's; written by the host.
  TUTTI_HD std::uint64_t* region(std::int32_t peer, std::uint32_t index) const {
    auto* const regions = reinterpret_cast<std::uint64_t*>(arenas[rank] + DeviceGeometry::kRegionsAt);
    return regions + static_cast<std::size_t>(peer) * kLentRegions + index;
  }
  /// What a peer has lent; nullptr: it is not mapped here.
  TUTTI_HD const std::byte* lent(std::int32_t peer, std::uint64_t place) const {
    if (single_process) return reinterpret_cast<const std::byte*>(place);
    const std::uint32_t index = LentPlace::region_of(place);
    if (index >= kLentRegions) return nullptr;
    const std::uint64_t begin = load_relaxed(region(peer, index));
    return begin == 0 ? nullptr : reinterpret_cast<const std::byte*>(begin + LentPlace::offset_of(place));
  }

  TUTTI_HD LinkTable* table(std::uint32_t block) const { return at<LinkTable>(rank, block, 0); }
  /// What a reader has released of what `writer` sent to it, or to all; written by the reader, read by the writer.
  TUTTI_HD LinkEnd* released(std::int32_t writer, std::int32_t reader, bool multicast, std::uint32_t block) const {
    const std::int32_t place = reader + (multicast ? kMaxDeviceRanks : 0);
    return at<LinkEnd>(writer, block, geometry.released_at()) + place;
  }
  /// Slots written so far.
  TUTTI_HD std::uint64_t* head(DeviceRoute link, std::uint32_t block, LinkSide side = LinkSide::kReader) const {
    return reinterpret_cast<std::uint64_t*>(words(link, block, side)) + link.writer;
  }
  TUTTI_HD SlotMark* mark(DeviceRoute link, std::uint32_t block, std::uint64_t position,
                          LinkSide side = LinkSide::kReader) const {
    std::byte* const marks = words(link, block, side) + (geometry.marks_at() - geometry.heads_at());
    return reinterpret_cast<SlotMark*>(marks) + slot_index(link, position);
  }
  TUTTI_HD std::byte* slot(DeviceRoute link, std::uint32_t block, std::uint64_t position) const {
    return at<std::byte>(link.home, block, geometry.slots_at()) + slot_index(link, position) * geometry.slot_bytes;
  }
  /// The data of the cell that came from a rank, and after the last of these of the one that is sent.
  TUTTI_HD std::byte* landing(std::uint32_t block, std::int32_t place) const {
    return at<std::byte>(rank, block, geometry.landing_at()) + static_cast<std::size_t>(place) * geometry.cell_bytes;
  }
  TUTTI_HD WordPair* cell(DeviceRoute link, std::uint32_t block, std::uint64_t position,
                          LinkSide side = LinkSide::kReader) const {
    std::byte* const cells = words(link, block, side) + (geometry.cells_at() - geometry.heads_at());
    const std::size_t index =
        static_cast<std::size_t>(link.writer) * geometry.cells + (position & (geometry.cells - 1));
    return reinterpret_cast<WordPair*>(cells) + index * geometry.pairs_of_cell();
  }

 private:
  /// Where heads, marks and cells begin.
  TUTTI_HD std::byte* words(DeviceRoute link, std::uint32_t block, LinkSide side) const {
    if (mirror == nullptr || !link.is_to_all()) return at<std::byte>(link.home, block, geometry.heads_at());
    return (side == LinkSide::kWriter ? to_mirrors : mirror) + block * geometry.mirrored_bytes();
  }
  template <class T>
  TUTTI_HD T* at(std::int32_t owner, std::uint32_t block, std::size_t offset) const {
    return reinterpret_cast<T*>(arenas[owner] + geometry.section_at(block) + offset);
  }
  TUTTI_HD std::size_t slot_index(DeviceRoute link, std::uint64_t position) const {
    return static_cast<std::size_t>(link.writer) * geometry.slots + (position & (geometry.slots - 1));
  }
};

/// The words of a cell: a value in the lower half, the message's flag in the upper.
struct FlaggedWord {
  TUTTI_HD static std::uint64_t make(std::uint32_t value, std::uint32_t flag) {
    return std::uint64_t{flag} << 32 | value;
  }
  TUTTI_HD static std::uint32_t flag_of(std::uint64_t position) { return static_cast<std::uint32_t>(position + 1); }
  TUTTI_HD static bool both(const WordPair& pair, std::uint32_t flag) {
    return static_cast<std::uint32_t>(pair.first >> 32) == flag &&
           static_cast<std::uint32_t>(pair.second >> 32) == flag;
  }
  TUTTI_HD static std::uint64_t join(const WordPair& pair) { return pair.second << 32 | (pair.first & 0xffffffffu); }
  TUTTI_HD static WordPair split(std::uint64_t value, std::uint32_t flag) {
    return WordPair{make(static_cast<std::uint32_t>(value), flag), make(static_cast<std::uint32_t>(value >> 32), flag)};
  }
};

}  // namespace tutti
