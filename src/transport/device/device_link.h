// Links between the thread blocks of kernels: plain structs of pointers and counters, for host and device.
//
// Each rank owns one arena of device memory. Block b of a rank exchanges messages with block b of its peers only, on
// links of its own. A link has a ring of cells for small messages and a ring of slots for large ones. Each word of a
// cell is half data and half flag, so that the words need no order and no second trip; slots are announced by a
// counter. Positions only grow and are kept in the arena, where a kernel finds where the one before it stopped. So a
// replayed graph goes on where it should, and nothing is ever cleared. See docs/design/device.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "device/device_word.h"

namespace tutti {

inline constexpr int kMaxDeviceRanks = 16;
inline constexpr int kMaxDeviceBlocks = 64;
/// How many allocations a rank lends to other processes at a time.
inline constexpr std::uint32_t kLentRegions = 16;

/// The positions of the next message in a link's two rings. A cell's flag is the low half of its position plus one.
struct LinkEnd {
  std::uint64_t cells = 0;
  std::uint64_t slots = 0;

  TUTTI_HD std::uint64_t& ring(bool small) { return small ? cells : slots; }
  TUTTI_HD std::uint64_t ring(bool small) const { return small ? cells : slots; }
};

/// One rank's ends of one block's links. The table is in the rank's arena between kernels, and in the block's shared
/// memory while a kernel runs.
struct LinkTable {
  LinkEnd sent[kMaxDeviceRanks];       ///< to each rank; the entry of this rank is the multicast link
  LinkEnd received[kMaxDeviceRanks];   ///< from each rank, what was sent to this one
  LinkEnd multicast[kMaxDeviceRanks];  ///< from each rank, what was sent to all
  LinkEnd limits[kMaxDeviceRanks];     ///< for each of `sent`, the first position without a credit at the last look
};

/// Describes the message of a slot; it is stored before the counter announces the slot.
struct SlotMark {
  std::uint64_t fingerprint = 0;  ///< of the message
  std::uint64_t lent = 0;         ///< 0 if the message is in the slot, else where it is in the writer's buffers
};

/// SlotMark::lent of a message in the writer's buffers. Within one process it is the message's address. Between
/// processes addresses differ, so it is the number of the writer's region, counted from 1, in the upper 16 bits, and
/// the distance from the begin of that region in the rest.
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
  std::uint64_t place = 0;  ///< the LentPlace of `begin`

  TUTTI_HD bool holds(const std::byte* memory) const {
    return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(begin) < bytes;
  }
};

/// The ranks agree on it when they join; all compute the same offsets from it.
struct DeviceGeometry {
  std::int32_t ranks = 1;            ///< at most kMaxDeviceRanks
  std::uint32_t blocks = 1;          ///< at most kMaxDeviceBlocks
  std::uint32_t cells = 8;           ///< a power of two, at least 8: credits come back in halves
  std::uint32_t cell_bytes = 2048;   ///< the largest message of a cell; a multiple of 16
  std::uint32_t slots = 2;           ///< a power of two, at least 2
  std::uint32_t slot_bytes = 65536;  ///< the largest message; a multiple of 256

  /// A cell has one pair for its head and, as half of each word is a flag, one for every 8 bytes of data.
  TUTTI_HD constexpr std::size_t pairs_of_cell() const { return 1 + cell_bytes / 8; }

  // Offsets within a block's section of an arena.
  TUTTI_HD constexpr std::size_t released_at() const { return sizeof(LinkTable); }
  TUTTI_HD constexpr std::size_t landing_at() const {
    return round_up(released_at() + 2 * kMaxDeviceRanks * sizeof(LinkEnd), kAlign);
  }
  TUTTI_HD constexpr std::size_t heads_at() const { return round_up(landing_at() + 2 * links() * cell_bytes, kAlign); }
  TUTTI_HD constexpr std::size_t marks_at() const { return heads_at() + kMaxDeviceRanks * sizeof(std::uint64_t); }
  TUTTI_HD constexpr std::size_t cells_at() const {
    return round_up(marks_at() + links() * slots * sizeof(SlotMark), kAlign);
  }
  TUTTI_HD constexpr std::size_t slots_at() const {
    return round_up(cells_at() + links() * cells * pairs_of_cell() * sizeof(WordPair), kAlign);
  }
  TUTTI_HD constexpr std::size_t section_bytes() const { return slots_at() + links() * slots * slot_bytes; }
  /// The size of one rank's arena.
  TUTTI_HD constexpr std::size_t arena_bytes() const { return kHead + blocks * section_bytes(); }
  TUTTI_HD constexpr std::size_t section_at(std::uint32_t block) const { return kHead + block * section_bytes(); }

  /// The size of the heads, marks and cells of a block, which are what a mirror has.
  TUTTI_HD constexpr std::size_t mirrored_bytes() const { return slots_at() - heads_at(); }
  TUTTI_HD constexpr std::size_t mirror_bytes() const { return blocks * mirrored_bytes(); }

  static constexpr std::size_t kAlign = 256;
  /// In front of the sections are the stop word and the addresses at which the peers' regions are mapped.
  static constexpr std::size_t kRegionsAt = kAlign;
  static constexpr std::size_t kHead = kRegionsAt + kMaxDeviceRanks * kLentRegions * sizeof(std::uint64_t);

 private:
  TUTTI_HD constexpr std::size_t links() const { return static_cast<std::size_t>(ranks); }
};

/// The geometry's offsets as numbers. The host computes them once for all kernels, where each address would take a
/// dozen instructions otherwise.
struct SectionLayout {
  std::uint64_t section_bytes = 0;   ///< from one block's section of an arena to the next one's
  std::uint64_t mirrored_bytes = 0;  ///< the same in a mirror
  // Offsets within a section.
  std::uint32_t released = 0;
  std::uint32_t landing = 0;
  std::uint32_t words = 0;  ///< of what a mirror has, of which the heads are first
  std::uint32_t slots = 0;
  // Offsets from `words`.
  std::uint32_t marks = 0;
  std::uint32_t cells = 0;
  std::uint32_t cell_pairs = 0;  ///< of one cell
  std::uint32_t lap_bits = 0;    ///< the position of a message divided by 2^lap_bits is its lap in the ring of cells
  std::uint32_t lap_mask = 0;    ///< one less than the power of two from `cell_pairs` on

  SectionLayout() = default;
  explicit SectionLayout(const DeviceGeometry& geometry)
      : section_bytes(geometry.section_bytes()),
        mirrored_bytes(geometry.mirrored_bytes()),
        released(narrow(geometry.released_at())),
        landing(narrow(geometry.landing_at())),
        words(narrow(geometry.heads_at())),
        slots(narrow(geometry.slots_at())),
        marks(narrow(geometry.marks_at() - geometry.heads_at())),
        cells(narrow(geometry.cells_at() - geometry.heads_at())),
        cell_pairs(narrow(geometry.pairs_of_cell())),
        lap_bits(narrow(std::countr_zero(geometry.cells))),
        lap_mask(std::bit_ceil(cell_pairs) - 1) {}

 private:
  /// All but the slots of a section is a few megabytes.
  template <class Number>
  static std::uint32_t narrow(Number offset) {
    return static_cast<std::uint32_t>(offset);
  }
};

/// Where a link's rings are: in the arena of `home`, as the link from `writer`. Messages to one rank lie in the arena
/// of that rank, which polls and reads them there; messages to all lie in their writer's, except for what a mirror
/// holds.
struct DeviceRoute {
  std::int32_t home;
  std::int32_t writer;

  TUTTI_HD static DeviceRoute of(std::int32_t writer, std::int32_t reader, bool multicast) {
    return DeviceRoute{multicast ? writer : reader, writer};
  }
  TUTTI_HD bool is_to_all() const { return home == writer; }
};

/// Where one block's sections begin, by the rank whose arena they are in, and its parts of the mirrors.
struct BlockSections {
  std::byte* of[kMaxDeviceRanks];
  std::byte* mirror;
  std::byte* to_mirrors;
};

/// Which side uses a link's words. If there is a mirror, each side has an address of its own for them.
enum class LinkSide : std::uint8_t { kReader, kWriter };

/// All links of one rank, in the form in which kernels get them as a parameter. It owns no memory: that belongs to the
/// arenas and mirrors.
struct DeviceLinks {
  DeviceGeometry geometry;
  SectionLayout layout;  ///< of `geometry`
  std::int32_t rank = 0;
  bool wide = false;            ///< peers may be on other devices, see device_word.h
  bool single_process = false;  ///< all ranks are of one process, so an address means the same to all of them
  bool multimem = false;        ///< `to_mirrors` is the address of a multicast object
  std::byte* arenas[kMaxDeviceRanks] = {};
  /// The mirror on this rank's device, for loads of what is announced to all. nullptr if that is in the writers'
  /// arenas.
  std::byte* mirror = nullptr;
  std::byte* to_mirrors = nullptr;  ///< the mirrors on all ranks' devices, for stores

  void set_geometry(const DeviceGeometry& agreed) {
    geometry = agreed;
    layout = SectionLayout(agreed);
  }

  /// This word is set to stop all blocks of this rank.
  TUTTI_HD std::uint64_t* stop() const { return stop_of(rank); }
  TUTTI_HD std::uint64_t* stop_of(std::int32_t peer) const { return reinterpret_cast<std::uint64_t*>(arenas[peer]); }

  /// The address at which this rank's kernels find a region of the peer's; written by the host.
  TUTTI_HD std::uint64_t* region(std::int32_t peer, std::uint32_t index) const {
    auto* const regions = reinterpret_cast<std::uint64_t*>(arenas[rank] + DeviceGeometry::kRegionsAt);
    return regions + static_cast<std::size_t>(peer) * kLentRegions + index;
  }
  /// Returns the address of a message that a peer has lent, or nullptr if it is not mapped here.
  TUTTI_HD const std::byte* lent(std::int32_t peer, std::uint64_t place) const {
    if (single_process) return reinterpret_cast<const std::byte*>(place);
    const std::uint32_t index = LentPlace::region_of(place);
    if (index >= kLentRegions) return nullptr;
    const std::uint64_t begin = load_relaxed(region(peer, index));
    return begin == 0 ? nullptr : reinterpret_cast<const std::byte*>(begin + LentPlace::offset_of(place));
  }

  /// Where the block's section of the peer's arena begins.
  TUTTI_HD std::byte* section(std::int32_t peer, std::uint32_t block) const {
    return arenas[peer] + DeviceGeometry::kHead + block * layout.section_bytes;
  }
  TUTTI_HD std::byte* mirror_of(std::byte* mirrors, std::uint32_t block) const {
    return mirrors == nullptr ? nullptr : mirrors + block * layout.mirrored_bytes;
  }
  /// All that the functions below need of a block. Kernels keep it in shared memory.
  TUTTI_HD BlockSections sections(std::uint32_t block) const {
    BlockSections sections;
    for (std::int32_t peer = 0; peer < geometry.ranks; ++peer) sections.of[peer] = section(peer, block);
    sections.mirror = mirror_of(mirror, block);
    sections.to_mirrors = mirror_of(to_mirrors, block);
    return sections;
  }

  TUTTI_HD LinkTable* table(std::uint32_t block) const { return reinterpret_cast<LinkTable*>(section(rank, block)); }
  /// How much a reader has released of what `writer` sent to it or, if `shared`, to all. The reader writes it, the
  /// writer reads it.
  TUTTI_HD LinkEnd* released(std::int32_t writer, std::int32_t reader, bool multicast,
                             const BlockSections& block) const {
    const std::int32_t place = reader + (multicast ? kMaxDeviceRanks : 0);
    return reinterpret_cast<LinkEnd*>(block.of[writer] + layout.released) + place;
  }
  /// How many slots have been written so far.
  TUTTI_HD std::uint64_t* head(DeviceRoute link, const BlockSections& block, LinkSide side = LinkSide::kReader) const {
    return reinterpret_cast<std::uint64_t*>(words(link, block, side)) + link.writer;
  }
  TUTTI_HD SlotMark* mark(DeviceRoute link, const BlockSections& block, std::uint64_t position,
                          LinkSide side = LinkSide::kReader) const {
    return reinterpret_cast<SlotMark*>(words(link, block, side) + layout.marks) + slot_index(link, position);
  }
  TUTTI_HD std::byte* slot(DeviceRoute link, const BlockSections& block, std::uint64_t position) const {
    return block.of[link.home] + layout.slots +
           static_cast<std::size_t>(slot_index(link, position)) * geometry.slot_bytes;
  }
  /// Room for the data of a cell that came, by the number of its message.
  TUTTI_HD std::byte* landing(const BlockSections& block, std::int32_t place) const {
    return block.of[rank] + layout.landing + static_cast<std::uint32_t>(place) * geometry.cell_bytes;
  }
  /// Room for the data of a cell that is sent, by the number of its message.
  TUTTI_HD std::byte* outgoing(const BlockSections& block, std::int32_t place) const {
    return landing(block, geometry.ranks + place);
  }
  TUTTI_HD WordPair* cell(DeviceRoute link, const BlockSections& block, std::uint64_t position,
                          LinkSide side = LinkSide::kReader) const {
    const std::uint32_t index = static_cast<std::uint32_t>(link.writer) * geometry.cells +
                                (static_cast<std::uint32_t>(position) & (geometry.cells - 1));
    return reinterpret_cast<WordPair*>(words(link, block, side) + layout.cells) + index * layout.cell_pairs;
  }

 private:
  /// Where heads, marks and cells begin.
  TUTTI_HD std::byte* words(DeviceRoute link, const BlockSections& block, LinkSide side) const {
    if (mirror == nullptr || !link.is_to_all()) return block.of[link.home] + layout.words;
    return side == LinkSide::kWriter ? block.to_mirrors : block.mirror;
  }
  TUTTI_HD std::uint32_t slot_index(DeviceRoute link, std::uint64_t position) const {
    return static_cast<std::uint32_t>(link.writer) * geometry.slots +
           (static_cast<std::uint32_t>(position) & (geometry.slots - 1));
  }
};

/// A word of a cell, with a value in the lower half and the message's flag in the upper.
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
