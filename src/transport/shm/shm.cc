#include "transport/shm/shm.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

namespace tutti {
namespace {

// Without a barrier that reaches all senders a wake-up can be missed, and the sleep is short.
constexpr std::chrono::nanoseconds kSliceWithoutBarrier = std::chrono::milliseconds(1);

/// Makes the pages present. If the host has no memory left for them, this is an error, while their first use would be a
/// signal. Linux before 5.14 does not know the advice; there the pages come one by one.
Status populate(std::byte* begin, std::size_t bytes, int advice) {
  int result = 0;
  do {
    result = ::madvise(begin, bytes, advice);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0 || errno == EINVAL) return {};
  return fail(Code::kSystemError,
              "cannot get {} bytes of shared memory: {} (see the memory limit of the cgroup and vm.overcommit_memory)",
              bytes, errno_text());
}

/// Makes present, for writing, this rank's pages that others wait on or look at, and, for reading, the same part of the
/// peers' segments, or of many peers the front, at which all look: what all map of all grows with n * n, and a rank
/// exchanges messages with few of them. The rings of the n * n pairs come with their first message, unless there are
/// few. Fronts that lie side by side are asked for together.
Status touch(const ShmLayout& layout, Rank rank, const std::vector<std::shared_ptr<Segment>>& segments) {
  constexpr std::size_t kLimit = 256 * 1024;
  constexpr std::size_t kManyRanks = 64;
  const std::size_t hot = std::min(round_up(layout.hot_bytes(), ShmLayout::kPage), kLimit);
  const Segment& own = *segments[static_cast<std::size_t>(rank.value)];
  TUTTI_TRY(populate(own.front(), ShmLayout::kPage, MADV_POPULATE_WRITE));
  TUTTI_TRY(populate(own.data() + ShmLayout::kPage, hot - ShmLayout::kPage, MADV_POPULATE_WRITE));
  for (std::size_t peer = 0; peer < segments.size();) {
    std::byte* const begin = segments[peer]->front();
    std::byte* end = begin;
    for (; peer < segments.size() && segments[peer]->front() == end; ++peer) {
      end += ShmLayout::kPage;
      if (segments.size() <= kManyRanks)
        TUTTI_TRY(populate(segments[peer]->data() + ShmLayout::kPage, hot - ShmLayout::kPage, MADV_POPULATE_READ));
    }
    TUTTI_TRY(populate(begin, static_cast<std::size_t>(end - begin), MADV_POPULATE_READ));
  }
  return {};
}

std::vector<ControlPage*> pages_of(const std::vector<std::shared_ptr<Segment>>& segments) {
  std::vector<ControlPage*> pages;
  pages.reserve(segments.size());
  for (const std::shared_ptr<Segment>& segment : segments)
    pages.push_back(reinterpret_cast<ControlPage*>(segment->front()));
  return pages;
}

std::vector<DirectPage*> direct_pages_of(const std::vector<ControlPage*>& pages) {
  std::vector<DirectPage*> direct;
  direct.reserve(pages.size());
  for (ControlPage* page : pages) direct.push_back(&page->direct);
  return direct;
}

}  // namespace

Bytes ShmGeometry::segment_bytes() const { return Bytes(ShmLayout(*this).segment_bytes()); }

std::uint64_t ShmLayout::digest() const {
  constexpr std::uint64_t kFormat = 0x7475747469000004;  // changes with the layout
  std::uint64_t digest = mix64(kFormat);
  for (const std::size_t part : {ranks_, lanes_, slots_, slot_stride_, end_}) digest = mix64(digest ^ part);
  return digest | 1;  // never 0, which means: no endpoint yet
}

Status ShmEndpoint::open(const ShmGeometry& geometry, Rank rank, std::vector<std::shared_ptr<Segment>> segments,
                         std::unique_ptr<ShmEndpoint>* endpoint) {
  if (geometry.ranks < 1 || geometry.lanes < 1 || geometry.slot_bytes.value < ShmLayout::kCellBytes ||
      geometry.slots > ShmLayout::kMaxSlots || segments.size() != index(geometry.ranks) || rank.value < 0 ||
      rank.value >= geometry.ranks)
    return fail(Code::kInternalError, "shm endpoint of rank {} of {}: {} lanes, {} slots of {} bytes, {} segments",
                rank.value, geometry.ranks, geometry.lanes, geometry.slots, geometry.slot_bytes.value, segments.size());
  const ShmLayout layout(geometry);
  for (std::size_t peer = 0; peer < segments.size(); ++peer) {
    // A segment is made before it is known how many ranks share the host: it may be larger than they need.
    if (!segments[peer] || segments[peer]->size().value < layout.segment_bytes())
      return fail(Code::kInternalError, "the shared memory of rank {} is missing or smaller than {} bytes", peer,
                  layout.segment_bytes());
  }
  TUTTI_TRY(touch(layout, rank, segments));
  for (std::size_t peer = 0; peer < segments.size(); ++peer) {
    const auto* page = reinterpret_cast<const ControlPage*>(segments[peer]->front());
    const std::uint64_t digest = page->digest.load(std::memory_order_acquire);  // pairs with the constructor
    if (digest != 0 && digest != layout.digest())
      return fail(Code::kMismatch, "rank {} laid out its shared memory differently: another version of the library?",
                  peer);
    if (digest != 0 && peer == index(rank.value))
      return fail(Code::kInternalError, "the shared memory of rank {} already has an endpoint", peer);
  }
  *endpoint = std::make_unique<ShmEndpoint>(geometry, rank, std::move(segments));
  return {};
}

ShmEndpoint::ShmEndpoint(const ShmGeometry& geometry, Rank rank, std::vector<std::shared_ptr<Segment>> segments)
    : rank_(rank),
      max_message_(geometry.slot_bytes),
      credits_(static_cast<std::uint32_t>(ShmLayout(geometry).slots())),
      layout_(geometry),
      lane_bits_(std::bit_width(static_cast<unsigned>(geometry.lanes) - 1)),
      segments_(std::move(segments)),
      peers_(pages_of(segments_)),
      send_rings_(send_index(segments_.size() + 1, 0, 0)),
      recv_rings_(recv_index(segments_.size(), false, 0, 0)),
      direct_(rank, direct_pages_of(peers_)) {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer)
    if (peer != index(rank.value)) readers_.push_back(&peers_[peer]->sleep_word);
  ControlPage& own = *peers_[index(rank.value)];
  own.enrolled.store(ProcessBarrier::enroll() ? 1 : 0, std::memory_order_release);  // pairs with all_enrolled()
  own.digest.store(layout_.digest(), std::memory_order_release);                    // pairs with open()
}

RingMemory ShmEndpoint::ring_memory(Rank writer, std::size_t target, std::uint16_t lane, RingKind kind) const {
  std::byte* base = segments_[index(writer.value)]->data();
  return {reinterpret_cast<MessageHeader*>(base + layout_.headers(target, lane, kind)),
          base + layout_.payloads(target, lane, kind), static_cast<std::uint32_t>(layout_.payload_stride(kind)),
          static_cast<std::uint32_t>(layout_.capacity(kind) - 1)};
}

void ShmEndpoint::make(SendRing* ring, std::size_t target, std::uint16_t lane, RingKind kind) const {
  ring->memory = ring_memory(rank_, target, lane, kind);
  ring->limit = ring->memory.capacity();
  ring->slots = FreeSlots(layout_.slots());
  ring->reader = target == peers_.size() ? nullptr : &peers_[target]->sleep_word;
}

void ShmEndpoint::make(RecvRing* ring, Route route, RingKind kind) const {
  const Rank writer = route.peer;
  std::byte* line = segments_[index(rank_.value)]->data() + layout_.release_line(writer, route.lane);
  ring->memory = ring_memory(writer, route.multicast ? peers_.size() : index(rank_.value), route.lane, kind);
  ring->released =
      &reinterpret_cast<ReleaseLine*>(line)->released[route.multicast ? 1 : 0][static_cast<std::size_t>(kind)];
  ring->writer = &peers_[index(writer.value)]->sleep_word;
}

/// Returns the position up to which all readers of a link have released; `late` becomes a reader that has released no
/// further.
std::uint64_t ShmEndpoint::released(Route route, std::size_t kind, Rank* late) const {
  const std::size_t line = layout_.release_line(rank_, route.lane);
  std::uint64_t released = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t peer = 0; peer < segments_.size(); ++peer) {
    const bool reads = route.multicast ? peer != index(rank_.value) : peer == index(route.peer.value);
    if (!reads) continue;
    const auto* counters = reinterpret_cast<const ReleaseLine*>(segments_[peer]->data() + line);
    const std::uint64_t seen =
        counters->released[route.multicast ? 1 : 0][kind].load(std::memory_order_acquire);  // pairs with release()
    if (seen >= released) continue;
    released = seen;
    *late = Rank{static_cast<int>(peer)};
  }
  return released;
}

bool ShmEndpoint::find_credit(Route route, Bytes bytes, SendRing* ring) const {
  Rank late = kNoRank;
  const std::uint64_t released = this->released(route, kind_of(bytes), &late);
  const bool has_readers = !route.multicast || segments_.size() > 1;
  ring->set_released(has_readers ? released : ring->position, static_cast<RingKind>(kind_of(bytes)));
  return ring->has_credit();
}

std::byte* ShmEndpoint::claim_slot(Route route, Bytes bytes, SendRing* ring) const {
  if (ring->should_look_for_slots(bytes.value)) find_credit(route, bytes, ring);
  return ring->has_credit() ? ring->claim_slot(bytes.value) : nullptr;
}

void ShmEndpoint::commit_slot(SendRing* ring, Bytes bytes, Fingerprint fingerprint) const {
  ring->commit_slot(bytes.value, fingerprint);
  wake_readers(*ring);
}

Peek ShmEndpoint::peek_slot(Route route, Bytes bytes, Fingerprint fingerprint) {
  const Peek peek = recv_ring(route, bytes).peek_slot(bytes.value, fingerprint);
  return peek.state == PeekState::kMismatch ? peek_reference(route, bytes, fingerprint) : peek;
}

bool ShmEndpoint::is_read_by_all(Route route) const {
  if (!route.multicast) return direct_.is_read_by(route.peer);
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank_.value && !direct_.is_read_by(Rank{peer})) return false;
  return true;
}

ReferenceState ShmEndpoint::send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint) {
  if (!is_in_slot(bytes)) return ReferenceState::kNotOffered;
  direct_.offer();
  if (!is_read_by_all(route)) return ReferenceState::kNotOffered;
  SendRing& ring = send_ring(route, bytes);
  if (!ring.has_credit() && !find_credit(route, bytes, &ring)) return ReferenceState::kAgain;
  const auto known = std::find_if(references_.begin(), references_.end(), [&](const Reference& r) {
    return r.route.multicast == route.multicast && r.route.lane == route.lane &&
           (route.multicast || r.route.peer == route.peer);
  });
  if (known == references_.end()) {
    references_.push_back(Reference{route, ring.position});
  } else {
    known->position = ring.position;
  }
  ring.commit_reference(data, bytes.value, fingerprint);
  wake_readers(ring);
  return ReferenceState::kSent;
}

bool ShmEndpoint::references_released(Rank* late) {
  while (!references_.empty()) {
    const Reference& last = references_.back();
    if (released(last.route, static_cast<std::size_t>(RingKind::kSlots), late) <= last.position) return false;
    references_.pop_back();
  }
  return true;
}

// Fetches the message into memory of this endpoint's, but only once, however often it is peeked at.
Peek ShmEndpoint::peek_reference(Route route, Bytes bytes, Fingerprint fingerprint) {
  const RecvRing& ring = recv_ring(route, bytes);
  const std::uint64_t address = ring.reference(bytes.value, fingerprint);
  if (address == 0) return {PeekState::kMismatch, nullptr};
  auto found = std::find_if(fetched_.begin(), fetched_.end(), [&](const Fetched& f) {
    return f.route.peer == route.peer && f.route.multicast == route.multicast && f.route.lane == route.lane;
  });
  if (found == fetched_.end()) {
    fetched_.push_back(Fetched{route, 0, std::make_unique_for_overwrite<std::byte[]>(max_message_.value + kCacheLine)});
    found = fetched_.end() - 1;
  }
  void* memory = found->data.get();
  std::size_t space = max_message_.value + kCacheLine;
  auto* const aligned = static_cast<std::byte*>(std::align(kCacheLine, max_message_.value, memory, space));
  if (found->position != ring.position + 1) {
    // A writer whose memory cannot be read is ending or has failed; whatever watches the rank reports that.
    if (!direct_.read(route.peer, address, aligned, bytes.value)) return {PeekState::kAgain, nullptr};
    found->position = ring.position + 1;
  }
  return {PeekState::kReady, aligned};
}

bool ShmEndpoint::all_enrolled() {
  if (!barrier_reaches_all_) {
    barrier_reaches_all_ = std::all_of(peers_.begin(), peers_.end(), [](const ControlPage* page) {
      return page->enrolled.load(std::memory_order_acquire) != 0;  // pairs with the constructor
    });
  }
  return barrier_reaches_all_;
}

// The barrier costs a system call and an interrupt of every other core. So it is run only after a sleep that ended by
// itself: most waits are over before that.
void ShmEndpoint::announce_sleep(Rank only) {
  peers_[index(rank_.value)]->sleep_word.announce(only);
  barrier_was_run_ = nobody_came_ && all_enrolled() && ProcessBarrier::run();
}

// A rank that finds something after its announcement does not go on to sleep. Its next wait begins without the barrier.
void ShmEndpoint::cancel_sleep() {
  peers_[index(rank_.value)]->sleep_word.cancel();
  nobody_came_ = false;
}

void ShmEndpoint::sleep(std::chrono::nanoseconds slice) {
  const auto longest = barrier_was_run_ ? slice : std::min(slice, kSliceWithoutBarrier);
  nobody_came_ = !peers_[index(rank_.value)]->sleep_word.sleep(longest);
}

void ShmEndpoint::wake() { peers_[index(rank_.value)]->sleep_word.wake(); }

}  // namespace tutti
