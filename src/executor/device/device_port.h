// Moves a step's messages over the links of one thread block: waits for them and for credits, finds their memory, gives
// it back, and publishes what is sent. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/device/device_call.h"
#include "executor/device/device_spin.h"

namespace tutti {

/// One per thread; the threads of a block call the same functions in the same order. Positions are in the block's
/// shared memory. They are read before a step's first barrier and after its second, and changed between the two, each
/// by one thread.
template <class Block>
class DevicePort {
 public:
  TUTTI_HD DevicePort(const DeviceCall& call, Block& block, BlockMemory& memory)
      : links_(call.links), watch_(call.watch), block_(block), memory_(memory), ranks_(call.ranks) {}

  /// Fetches the positions from the arena, where close() leaves them for the next kernel. Returns false if an earlier
  /// kernel was stopped: this one would take that one's messages for its own and overwrite them.
  TUTTI_HD bool open() {
    copy_table(&memory_.links, links_.table(block_.index()));
    return !block_.any(load_relaxed(watch_.stop) != 0);  // DeviceWatch::fail() of any block stores it
  }
  /// Leaves the positions in the arena. If messages of this kernel may lie in the caller's buffers (`lends`), waits
  /// first until they have been read, because the buffers are the caller's again when the kernel has ended.
  TUTTI_HD void close(bool lends) {
    if (lends) {
      const bool in_time = await_readers();
      if (block_.any(!in_time)) return;
    }
    copy_table(links_.table(block_.index()), &memory_.links);
  }
  /// Tells the host, by the call's number, that the block uses nothing of the call any more. Called last, also after a
  /// failure.
  TUTTI_HD void say_end(std::uint64_t number) {
    block_.sync();
    std::uint64_t* const ended = &watch_.report->ended[block_.index()];
    if (number != 0 && block_.thread() == 0) store_release(ended, number, true);  // pairs with CallEnd::query()
  }

  /// Begins a step. `lent` is the LentPlace where the message that is sent lies, or will lie after this step, until its
  /// readers have released it. It is 0 if there is no such place.
  TUTTI_HD void begin(const Step& step, Bytes bytes, Fingerprint fingerprint, std::uint64_t lent) {
    bytes_ = bytes.value;
    lent_ = bytes.value <= links_.geometry.cell_bytes ? 0 : lent;
    small_ = bytes_ <= links_.geometry.cell_bytes;
    fingerprint_ = fingerprint;
    from_all_ = step.is(kMulticastRecv);
    peers_ = senders_of(Shape{ranks_, links_.rank}, step);
    one_ = step.recv_from == PeerSet::kOne ? step.recv_peer : -1;
    messages_ = !step.has(kRecv) ? 0 : one_ >= 0 ? 1 : peers_.count;
    const bool to_all = step.send_to == PeerSet::kAll;
    reader_ = !step.has(kSend) || (to_all && ranks_ == 1) ? -1 : to_all ? links_.rank : step.send_peer;
    if (reader_ >= 0) position_ = memory_.links.sent[reader_].ring(small_);
  }

  /// Waits for all that the step needs. Returns false if the wait was given up, which has been reported then. A barrier
  /// has to follow.
  TUTTI_HD bool await() {
    bool there = true;
    if (messages_ != 0) there = small_ ? take_cells() : await_slots();
    if (reader_ >= 0 && is_sender()) there = await_credit() && there;
    return there;
  }

  TUTTI_HD bool is_moving() const { return messages_ != 0 || reader_ >= 0; }
  /// The set that the step receives from, and this rank's place in it.
  TUTTI_HD const PeerList& peers() const { return peers_; }
  /// Schedules on devices know no hosts, so a rank's place in `peers` follows from its number.
  TUTTI_HD std::int32_t place() const { return (links_.rank - peers_.first) / peers_.distance; }
  /// The messages of a set, in its order.
  TUTTI_HD const void** sources() const { return memory_.sources; }
  TUTTI_HD const std::byte* arrived() const { return static_cast<const std::byte*>(memory_.sources[0]); }
  /// Where the message is to be written; nullptr if none is sent or if it is lent.
  TUTTI_HD std::byte* message() const {
    if (reader_ < 0 || lent_ != 0) return nullptr;
    return small_ ? outgoing() : links_.slot(route_out(), block_.index(), position_);
  }

  /// Moves the positions on; called between the two barriers.
  TUTTI_HD void advance() {
    for (std::int32_t k = first(); k < messages_; k += step())
      if (peer(k) != links_.rank) ++end_of(peer(k)).ring(small_);
    if (reader_ >= 0 && is_sender()) ++memory_.links.sent[reader_].ring(small_);
  }
  /// Gives back what was read and publishes what was written; called after the second barrier.
  TUTTI_HD void finish() {
    for (std::int32_t k = first(); k < messages_; k += step())
      if (peer(k) != links_.rank && is_still_lent(k)) release(peer(k));
    if (reader_ < 0) return;
    if (small_) return fill_cell();
    if (!is_sender()) return;
    publish(SlotMark{fingerprint_, lent_});
  }

 private:
  TUTTI_HD std::int32_t first() const { return static_cast<std::int32_t>(block_.thread()); }
  TUTTI_HD std::int32_t step() const { return static_cast<std::int32_t>(block_.threads()); }
  /// The last thread sends, so that the first ones are free to wait for messages.
  TUTTI_HD bool is_sender() const { return block_.thread() + 1 == block_.threads(); }
  TUTTI_HD std::int32_t peer(std::int32_t k) const { return one_ >= 0 ? one_ : peers_[k]; }
  TUTTI_HD LinkEnd& end_of(std::int32_t peer) const {
    return from_all_ ? memory_.links.multicast[peer] : memory_.links.received[peer];
  }
  TUTTI_HD DeviceRoute route_from(std::int32_t peer) const { return DeviceRoute::of(peer, links_.rank, from_all_); }
  TUTTI_HD DeviceRoute route_out() const { return DeviceRoute::of(links_.rank, reader_, reader_ == links_.rank); }
  // These are in device memory, because reductions take operands only from there and leave results only there.
  TUTTI_HD std::byte* landing(std::int32_t place) const { return links_.landing(block_.index(), place); }
  TUTTI_HD std::byte* outgoing() const { return landing(links_.geometry.ranks); }
  TUTTI_HD std::uint32_t pairs() const { return static_cast<std::uint32_t>(1 + div_up(bytes_, 8)); }

  /// Takes small messages. The threads divide all words of all messages, so that a look at one message does not wait
  /// for another.
  TUTTI_HD bool take_cells() {
    const std::uint32_t each = pairs();
    const std::uint32_t all = each * static_cast<std::uint32_t>(messages_);
    for (std::uint32_t i = block_.thread(); i < all; i += block_.threads()) {
      const auto k = static_cast<std::int32_t>(i / each);
      if (peer(k) != links_.rank && !take_pair(k, i % each)) return false;
    }
    return true;
  }

  TUTTI_HD bool take_pair(std::int32_t k, std::uint32_t at) {
    const std::uint64_t position = end_of(peer(k)).cells;
    const WordPair* const place = links_.cell(route_from(peer(k)), block_.index(), position) + at;
    const std::uint32_t flag = FlaggedWord::flag_of(position);
    DeviceSpin spin(watch_, block_.index(), peer(k));
    WordPair pair = load_pair(place);
    while (!FlaggedWord::both(pair, flag)) {
      if (!spin.go_on()) return false;
      pair = load_pair(place);
    }
    spin.end();
    const std::uint64_t value = FlaggedWord::join(pair);
    if (at == 0) {
      memory_.sources[k] = landing(k);
      if (value == fingerprint_) return true;
      watch_.fail(block_.index(), Code::kMismatch, peer(k));
      return false;
    }
    reinterpret_cast<std::uint64_t*>(landing(k))[at - 1] = value;
    return true;
  }

  /// Waits for large messages, each with one thread.
  TUTTI_HD bool await_slots() {
    for (std::int32_t k = first(); k < messages_; k += step())
      if (peer(k) != links_.rank && !await_slot(k)) return false;
    return true;
  }

  TUTTI_HD bool await_slot(std::int32_t k) {
    const DeviceRoute route = route_from(peer(k));
    const std::uint64_t position = end_of(peer(k)).slots;
    const std::uint64_t* const head = links_.head(route, block_.index());
    DeviceSpin spin(watch_, block_.index(), peer(k));
    while (load_acquire(head, links_.wide) <= position)  // pairs with publish()
      if (!spin.go_on()) return false;
    spin.end();
    if (from_all_ && links_.mirror != nullptr) alias_fence();
    const SlotMark mark = *links_.mark(route, block_.index(), position);
    const std::byte* const source =
        mark.lent != 0 ? links_.lent(peer(k), mark.lent) : links_.slot(route, block_.index(), position);
    memory_.sources[k] = source;
    if (mark.fingerprint == fingerprint_ && source != nullptr) return true;
    const Code found = source == nullptr ? Code::kRemoteError : Code::kMismatch;
    watch_.fail(block_.index(), found, peer(k));
    return false;
  }

  /// Returns false if the message was lent and its writer has stopped: since then its buffer was the writer's caller's
  /// again, so what was read may not be the message. The next look at the stop word ends this rank's kernel, too.
  TUTTI_HD bool is_still_lent(std::int32_t k) const {
    if (small_) return true;
    const DeviceRoute route = route_from(peer(k));
    const std::uint64_t position = end_of(peer(k)).slots - 1;
    if (links_.mark(route, block_.index(), position)->lent == 0) return true;
    // It pairs with DeviceWatch::fail(), but by the memory model it does not order the reads of data before it
    // (docs/design/device.md, "A reader that misses the stop").
    if (load_acquire(links_.stop_of(peer(k)), links_.wide) == 0) return true;
    watch_.fail(block_.index(), Code::kAborted, peer(k));
    return false;
  }

  /// At the end of a call that lends, waits until all large messages have been released, for each link with one thread.
  TUTTI_HD bool await_readers() {
    for (std::int32_t p = first(); p < ranks_; p += step()) {
      if (p == links_.rank) continue;
      if (!await_released(p, false, memory_.links.sent[p].slots)) return false;
      if (!await_released(p, true, memory_.links.sent[links_.rank].slots)) return false;
    }
    return true;
  }
  TUTTI_HD bool await_released(std::int32_t reader, bool to_all, std::uint64_t sent) {
    const std::uint64_t* const word = &links_.released(links_.rank, reader, to_all, block_.index())->slots;
    DeviceSpin spin(watch_, block_.index(), reader);
    while (load_acquire(word, links_.wide) < sent)  // pairs with release()
      if (!spin.go_on()) return false;
    spin.end();
    return true;
  }

  /// Cells are given back by halves of the ring, so that one store serves several messages.
  TUTTI_HD void release(std::int32_t peer) {
    const std::uint64_t position = end_of(peer).ring(small_);
    if (small_ && position % (links_.geometry.cells / 2) != 0) return;
    LinkEnd* const released = links_.released(peer, links_.rank, from_all_, block_.index());
    store_release(&released->ring(small_), position, links_.wide);  // pairs with await_release()
  }

  TUTTI_HD bool await_credit() {
    std::uint64_t& limit = memory_.links.limits[reader_].ring(small_);
    if (position_ < limit) return true;
    const bool to_all = reader_ == links_.rank;
    std::uint64_t lowest = ~std::uint64_t{0};
    for (std::int32_t p = to_all ? 0 : reader_; p < (to_all ? ranks_ : reader_ + 1); ++p)
      if (p != links_.rank && !await_release(p, to_all, &lowest)) return false;
    if (to_all && links_.mirror != nullptr) alias_fence();
    limit = lowest + capacity();
    return true;
  }

  TUTTI_HD bool await_release(std::int32_t reader, bool to_all, std::uint64_t* lowest) {
    const std::uint64_t* const word = &links_.released(links_.rank, reader, to_all, block_.index())->ring(small_);
    DeviceSpin spin(watch_, block_.index(), reader);
    std::uint64_t released = load_acquire(word, links_.wide);  // pairs with release()
    while (position_ - released >= capacity()) {
      if (!spin.go_on()) return false;
      released = load_acquire(word, links_.wide);
    }
    spin.end();
    *lowest = released < *lowest ? released : *lowest;
    return true;
  }
  TUTTI_HD std::uint64_t capacity() const { return small_ ? links_.geometry.cells : links_.geometry.slots; }

  TUTTI_HD bool is_multicast() const { return links_.multimem && reader_ == links_.rank; }

  /// Stores a slot's mark and the counter that announces the slot; both pair with await_slot().
  TUTTI_HD void publish(const SlotMark& mark) {
    SlotMark* const place = links_.mark(route_out(), block_.index(), position_, LinkSide::kWriter);
    std::uint64_t* const head = links_.head(route_out(), block_.index(), LinkSide::kWriter);
    if (!is_multicast()) {
      *place = mark;
      return store_release(head, position_ + 1, links_.wide);
    }
    static_assert(sizeof(SlotMark) % sizeof(std::uint64_t) == 0);
    const auto* const words = reinterpret_cast<const std::uint64_t*>(&mark);
    for (std::size_t i = 0; i < sizeof(SlotMark) / sizeof(std::uint64_t); ++i)
      multicast_relaxed(reinterpret_cast<std::uint64_t*>(place) + i, words[i]);
    multicast_release(head, position_ + 1);
  }

  /// Copies what the threads wrote into outgoing() into the cell, as words that are half data and half flag. Each time
  /// one more pair gets the new flag, in turn, so that no flag gets so old that it is taken for a new one 2^32 messages
  /// later.
  TUTTI_HD void fill_cell() {
    WordPair* const cell = links_.cell(route_out(), block_.index(), position_, LinkSide::kWriter);
    const std::uint32_t flag = FlaggedWord::flag_of(position_);
    const auto* const data = reinterpret_cast<const std::uint64_t*>(outgoing());
    const std::uint32_t used = pairs();
    for (std::uint32_t i = block_.thread(); i < used; i += block_.threads())
      fill_pair(cell + i, FlaggedWord::split(i == 0 ? fingerprint_ : data[i - 1], flag));
    const auto lap = static_cast<std::uint32_t>(position_ >> links_.layout.lap_bits);
    const std::uint32_t marked = lap % links_.layout.cell_pairs;
    if (is_sender() && marked >= used) fill_pair(cell + marked, FlaggedWord::split(0, flag));
  }
  TUTTI_HD void fill_pair(WordPair* place, WordPair pair) {
    if (!is_multicast()) return store_pair(place, pair);
    multicast_relaxed(&place->first, pair.first);
    multicast_relaxed(&place->second, pair.second);
  }

  TUTTI_HD void copy_table(LinkTable* to, const LinkTable* from) {
    constexpr std::uint32_t kWords = sizeof(LinkTable) / sizeof(std::uint64_t);
    auto* const target = reinterpret_cast<std::uint64_t*>(to);
    const auto* const source = reinterpret_cast<const std::uint64_t*>(from);
    for (std::uint32_t i = block_.thread(); i < kWords; i += block_.threads()) target[i] = source[i];
  }

  const DeviceLinks& links_;
  const DeviceWatch& watch_;
  Block& block_;
  BlockMemory& memory_;
  const std::int32_t ranks_;
  // The step under way.
  std::size_t bytes_ = 0;
  bool small_ = true;
  bool from_all_ = false;
  std::uint64_t lent_ = 0;
  Fingerprint fingerprint_ = 0;
  PeerList peers_;
  std::int32_t one_ = -1;       // the one rank that is received from
  std::int32_t messages_ = 0;   // how many are received; for a set its size, which includes this rank
  std::int32_t reader_ = -1;    // the rank that the message goes to; this rank if it goes to all, -1 if to nobody
  std::uint64_t position_ = 0;  // of the message that is sent
};

}  // namespace tutti
