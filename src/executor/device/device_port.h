// Moves a step's messages over the links of one thread block: waits for them and for credits, finds their memory, gives
// it back, and publishes what is sent. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/device/block_memory.h"
#include "executor/device/device_call.h"
#include "executor/device/device_spin.h"
#include "kernels/device/thread_team.h"

namespace tutti {

/// One per thread; the threads of a block call the same functions in the same order, with the same plan.
template <class Block>
class DevicePort {
 public:
  TUTTI_HD DevicePort(const DeviceCall& call, Block& block, BlockMemory& memory)
      : links_(call.links), watch_(call.watch), block_(block), memory_(memory) {}

  /// Fetches the positions from the arena, where close() leaves them for the next kernel. Returns false if an earlier
  /// kernel was stopped: this one would take that one's messages for its own and overwrite them.
  TUTTI_HD bool open() {
    copy_words(block_.thread(), block_.threads(), &memory_.links, links_.table(block_.index()));
    for (std::int32_t p = first(); p < links_.geometry.ranks; p += step())
      memory_.sections.of[p] = links_.section(p, block_.index());
    if (block_.thread() == 0) {
      memory_.sections.mirror = links_.mirror_of(links_.mirror, block_.index());
      memory_.sections.to_mirrors = links_.mirror_of(links_.to_mirrors, block_.index());
    }
    // DeviceWatch::fail() of any block stores it.
    return !block_.any(block_.thread() == 0 && load_relaxed(watch_.stop) != 0);
  }
  /// Leaves the positions in the arena. If messages of this kernel may lie in the caller's buffers (`lends`), waits
  /// first until they have been read, because the buffers are the caller's again when the kernel has ended.
  TUTTI_HD void close(bool lends) {
    if (lends) {
      const bool in_time = await_readers();
      if (block_.any(!in_time)) return;
    }
    copy_words(block_.thread(), block_.threads(), links_.table(block_.index()), &memory_.links);
  }
  /// Tells the host, by the call's number, that the block uses nothing of the call any more. Called last, also after a
  /// failure.
  TUTTI_HD void say_end(std::uint64_t number) {
    block_.sync();
    std::uint64_t* const ended = &watch_.report->ended[block_.index()];
    if (number != 0 && block_.thread() == 0) store_release(ended, number, true);  // pairs with CallEnd::query()
  }

  /// Waits for all that the plan needs. Returns false if the wait was given up, which has been reported then. A barrier
  /// has to follow.
  TUTTI_HD bool await(StepPlan& plan) {
    bool there = true;
    if (plan.messages != 0) there = take_cells(plan) && await_slots(plan);
    for (std::int32_t k = first_sent(); k < plan.sends; k += step())
      if (plan.readers[k] >= 0) there = await_credit(plan, k) && there;
    return there;
  }

  /// Gives back what was read and publishes what was written; called after the second barrier.
  TUTTI_HD void finish(const StepPlan& plan) {
    for (std::int32_t k = first(); k < plan.messages; k += step())
      if (plan.peers[k] != links_.rank && is_still_lent(plan, k)) release(plan, k);
    if (plan.sends == 0) return;
    fill_cells(plan);
    for (std::int32_t k = first_sent(); k < plan.sends; k += step())
      if (plan.readers[k] >= 0 && !is_small(plan, k)) publish(plan, k);
  }

 private:
  TUTTI_HD std::int32_t first() const { return static_cast<std::int32_t>(block_.thread()); }
  TUTTI_HD std::int32_t step() const { return static_cast<std::int32_t>(block_.threads()); }
  /// The last threads send, so that the first ones are free to wait for messages.
  TUTTI_HD std::int32_t first_sent() const { return step() - 1 - first(); }
  TUTTI_HD static std::uint32_t pairs(const StepPlan& plan, std::int32_t k) { return 1 + (plan.bytes[k] + 7) / 8; }
  TUTTI_HD bool is_small(const StepPlan& plan, std::int32_t k) const {
    return plan.bytes[k] <= links_.geometry.cell_bytes;
  }
  TUTTI_HD ThreadTeam team(std::int32_t pieces) const {
    return ThreadTeam::of(block_.thread(), block_.threads(), static_cast<std::uint32_t>(pieces));
  }
  /// Takes small messages. Each has a team of threads, which divide its words, so that a look at one message does not
  /// wait for another.
  TUTTI_HD bool take_cells(StepPlan& plan) {
    const ThreadTeam team = this->team(plan.messages);
    for (auto k = static_cast<std::int32_t>(team.index); k < plan.messages;
         k += static_cast<std::int32_t>(team.teams)) {
      if (plan.peers[k] == links_.rank || !is_small(plan, k)) continue;
      const std::uint32_t used = pairs(plan, k);
      for (std::uint32_t at = team.thread; at < used; at += team.threads)
        if (!take_pair(plan, k, at)) return false;
    }
    return true;
  }

  TUTTI_HD bool take_pair(StepPlan& plan, std::int32_t k, std::uint32_t at) {
    const WordPair* const place = plan.from[k].cell + at;
    const std::uint32_t flag = FlaggedWord::flag_of(plan.from[k].position);
    DeviceSpin spin(watch_, block_.index(), plan.peers[k]);
    WordPair pair = load_pair(place);
    while (!FlaggedWord::both(pair, flag)) {
      if (!spin.go_on()) return false;
      pair = load_pair(place);
    }
    spin.end();
    const std::uint64_t value = FlaggedWord::join(pair);
    if (at == 0) {
      if (value == plan.fingerprints[k]) return true;
      watch_.fail(block_.index(), Code::kMismatch, plan.peers[k]);
      return false;
    }
    std::byte* const landing = links_.landing(memory_.sections, k);
    device::assume_global(landing);
    reinterpret_cast<std::uint64_t*>(landing)[at - 1] = value;
    return true;
  }

  /// Waits for large messages, each with one thread.
  TUTTI_HD bool await_slots(StepPlan& plan) {
    for (std::int32_t k = first(); k < plan.messages; k += step())
      if (plan.peers[k] != links_.rank && !is_small(plan, k) && !await_slot(plan, k)) return false;
    return true;
  }

  TUTTI_HD bool await_slot(StepPlan& plan, std::int32_t k) {
    const std::int32_t peer = plan.peers[k];
    const MessagePlace& from = plan.from[k];
    const std::uint64_t* const head = from.head;
    const std::uint64_t position = from.position;
    DeviceSpin spin(watch_, block_.index(), peer);
    while (load_acquire(head, links_.wide) <= position)  // pairs with publish()
      if (!spin.go_on()) return false;
    spin.end();
    if (plan.from_all && links_.mirror != nullptr) alias_fence();
    device::assume_global(from.mark);
    const SlotMark mark = *from.mark;
    plan.is_lent[k] = mark.lent != 0;
    const void*& source = plan.sources[plan.place + k];
    if (mark.lent != 0) source = links_.lent(peer, mark.lent);
    if (mark.fingerprint == plan.fingerprints[k] && source != nullptr) return true;
    watch_.fail(block_.index(), source == nullptr ? Code::kRemoteError : Code::kMismatch, peer);
    return false;
  }

  /// Returns false if the message was lent and its writer has stopped: since then its buffer was the writer's caller's
  /// again, so what was read may not be the message. The next look at the stop word ends this rank's kernel, too.
  TUTTI_HD bool is_still_lent(const StepPlan& plan, std::int32_t k) const {
    if (is_small(plan, k) || !plan.is_lent[k]) return true;
    // It pairs with DeviceWatch::fail(), but by the memory model it does not order the reads of data before it
    // (docs/design/device.md, "A reader that misses the stop").
    if (load_acquire(links_.stop_of(plan.peers[k]), links_.wide) == 0) return true;
    watch_.fail(block_.index(), Code::kAborted, plan.peers[k]);
    return false;
  }

  /// At the end of a call that lends, waits until all large messages have been released, for each link with one thread.
  TUTTI_HD bool await_readers() {
    for (std::int32_t p = first(); p < links_.geometry.ranks; p += step()) {
      if (p == links_.rank) continue;
      if (!await_released(p, false, memory_.links.sent[p].slots)) return false;
      if (!await_released(p, true, memory_.links.sent[links_.rank].slots)) return false;
    }
    return true;
  }
  TUTTI_HD bool await_released(std::int32_t reader, bool to_all, std::uint64_t sent) {
    const std::uint64_t* const word = &links_.released(links_.rank, reader, to_all, memory_.sections)->slots;
    DeviceSpin spin(watch_, block_.index(), reader);
    while (load_acquire(word, links_.wide) < sent)  // pairs with release()
      if (!spin.go_on()) return false;
    spin.end();
    return true;
  }

  /// Cells are given back by halves of the ring, so that one store serves several messages.
  TUTTI_HD void release(const StepPlan& plan, std::int32_t k) {
    const bool small = is_small(plan, k);
    const std::uint64_t position = plan.from[k].position + 1;
    if (small && (position & (links_.geometry.cells / 2 - 1)) != 0) return;
    LinkEnd* const released = links_.released(plan.peers[k], links_.rank, plan.from_all, memory_.sections);
    store_release(&released->ring(small), position, links_.wide);  // pairs with await_release()
  }

  TUTTI_HD bool await_credit(const StepPlan& plan, std::int32_t k) {
    const std::int32_t reader = plan.readers[k];
    const bool small = is_small(plan, k);
    std::uint64_t& limit = memory_.links.limits[reader].ring(small);
    if (plan.to[k].position < limit) return true;
    const bool to_all = reader == links_.rank;
    std::uint64_t lowest = ~std::uint64_t{0};
    for (std::int32_t p = to_all ? 0 : reader; p < (to_all ? links_.geometry.ranks : reader + 1); ++p)
      if (p != links_.rank && !await_release(p, to_all, small, plan.to[k].position, &lowest)) return false;
    if (to_all && links_.mirror != nullptr) alias_fence();
    limit = lowest + capacity(small);
    return true;
  }

  TUTTI_HD bool await_release(std::int32_t reader, bool to_all, bool small, std::uint64_t position,
                              std::uint64_t* lowest) {
    const std::uint64_t* const word = &links_.released(links_.rank, reader, to_all, memory_.sections)->ring(small);
    DeviceSpin spin(watch_, block_.index(), reader);
    std::uint64_t released = load_acquire(word, links_.wide);  // pairs with release()
    while (position - released >= capacity(small)) {
      if (!spin.go_on()) return false;
      released = load_acquire(word, links_.wide);
    }
    spin.end();
    *lowest = released < *lowest ? released : *lowest;
    return true;
  }
  TUTTI_HD std::uint32_t capacity(bool small) const { return small ? links_.geometry.cells : links_.geometry.slots; }

  TUTTI_HD bool is_multicast(std::int32_t reader) const { return links_.multimem && reader == links_.rank; }

  /// Stores a slot's mark and the counter that announces the slot; both pair with await_slot().
  TUTTI_HD void publish(const StepPlan& plan, std::int32_t k) {
    const MessagePlace& to = plan.to[k];
    const SlotMark mark{plan.fingerprints[k], plan.lent[k]};
    if (!is_multicast(plan.readers[k])) {
      device::assume_global(to.mark);
      *to.mark = mark;
      return store_release(to.head, to.position + 1, links_.wide);
    }
    static_assert(sizeof(SlotMark) % sizeof(std::uint64_t) == 0);
    const auto* const words = reinterpret_cast<const std::uint64_t*>(&mark);
    for (std::size_t i = 0; i < sizeof(SlotMark) / sizeof(std::uint64_t); ++i)
      multicast_relaxed(reinterpret_cast<std::uint64_t*>(to.mark) + i, words[i]);
    multicast_release(to.head, to.position + 1);
  }

  /// Copies the data of small messages into their cells, as words that are half data and half flag, by the same teams.
  TUTTI_HD void fill_cells(const StepPlan& plan) {
    const ThreadTeam team = this->team(plan.sends);
    for (auto k = static_cast<std::int32_t>(team.index); k < plan.sends; k += static_cast<std::int32_t>(team.teams)) {
      if (plan.readers[k] < 0 || !is_small(plan, k)) continue;
      const std::uint32_t used = pairs(plan, k);
      for (std::uint32_t at = team.thread; at <= used; at += team.threads) fill_cell(plan, k, at, used);
    }
  }
  /// Fills a pair of a cell. After the `used` pairs of the message comes one pair more: each time another one gets the
  /// new flag, in turn, so that no flag gets so old that it is taken for a new one 2^32 messages later.
  TUTTI_HD void fill_cell(const StepPlan& plan, std::int32_t k, std::uint32_t at, std::uint32_t used) {
    const std::uint64_t position = plan.to[k].position;
    std::uint64_t value = at == 0 ? plan.fingerprints[k] : 0;
    if (at != 0 && at < used) value = words_of(plan.data[k])[at - 1];
    if (at == used) {
      at = static_cast<std::uint32_t>(position >> links_.layout.lap_bits) & links_.layout.lap_mask;
      if (at < used || at >= links_.layout.cell_pairs) return;
    }
    fill_pair(plan.to[k].cell + at, FlaggedWord::split(value, FlaggedWord::flag_of(position)), plan.readers[k]);
  }
  TUTTI_HD static const std::uint64_t* words_of(const std::byte* data) {
    device::assume_global(data);
    return reinterpret_cast<const std::uint64_t*>(data);
  }
  TUTTI_HD void fill_pair(WordPair* place, WordPair pair, std::int32_t reader) {
    if (!is_multicast(reader)) return store_pair(place, pair);
    multicast_relaxed(&place->first, pair.first);
    multicast_relaxed(&place->second, pair.second);
  }

  const DeviceLinks& links_;
  const DeviceWatch& watch_;
  Block& block_;
  BlockMemory& memory_;
};

}  // namespace tutti
