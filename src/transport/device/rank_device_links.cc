#include "transport/device/rank_device_links.h"

#include <algorithm>
#include <bit>

#include "device/quiet_moment.h"
#include "transport/rank_status.h"

namespace tutti {

namespace {
/// All slots of a rank together take no more memory than this, unless they would have to be smaller than kLeastSlot.
constexpr std::size_t kMostInSlots = std::size_t{128} << 20;
constexpr std::size_t kLeastSlot = 128 * 1024;
/// Memory that other processes map is allocated in whole pages of the device, so that they map nothing else with it.
constexpr std::size_t kDevicePage = std::size_t{2} << 20;
}  // namespace

/// What a rank tells the others: how many blocks it may have.
struct RankDeviceLinks::BlockOffer {
  RankStatus status;
  std::uint32_t blocks = 0;
};

/// What a rank tells the others of its arena.
struct RankDeviceLinks::ArenaOffer {
  RankStatus status;
  std::uint64_t bytes = 0;
  DeviceDriver::Handle handle{};
  MulticastKind mirror = MulticastKind::kNone;
};

// Kernels of the rank, and those of peers that read its memory, may still run, so the fabric keeps the memory for them.
RankDeviceLinks::~RankDeviceLinks() {
  if (borrower_ != nullptr)
    for (void* const memory : borrower_->end()) fabric_->close_later(device_, memory);
  if (lender_ != nullptr)
    for (auto& allocation : lender_->end()) fabric_->release_later(std::move(allocation));
  if (stream_ != nullptr) (void)driver_.destroy_stream(stream_);
}

Status RankDeviceLinks::open(Bytes slot, MulticastMode multicast, std::span<const Kernel* const> kernels,
                             RankExchange& ranks) {
  TUTTI_TRY(peers_.check_concurrency());
  std::uint32_t blocks = 0;
  TUTTI_TRY(agree_on_blocks(ranks, &blocks));
  make_geometry(slot, blocks);
  ArenaOffer offer;
  const Status mine = allocate(kernels, &offer.handle);
  offer.status = RankStatus::of(mine);
  offer.bytes = arena_bytes().value;
  offer.mirror = wished_multicast(multicast);
  std::vector<ArenaOffer> offers;
  TUTTI_TRY(ranks.exchange_plain(offer, &offers));
  for (std::size_t peer = 0; peer < offers.size(); ++peer) TUTTI_TRY(offers[peer].status.from(ranks.number(peer)));
  TUTTI_TRY(ranks.agree(reach_peers(offers)));
  TUTTI_TRY(open_multicast(offers, ranks));
  // Streams get a device's hardware queues in turn, and two ranks whose streams share one would wait for each other. So
  // all ranks make theirs at the same time, with nothing in between that needs a stream for a while.
  if (!peers_.single_process()) open_lending();
  return ranks.agree(make_stream());
}

Status RankDeviceLinks::make_stream() {
  const QuietMoment quiet(QuietMoment::of_a_join());
  fabric_->launches().add(rank_, device_);
  return driver_.create_stream(device_, &stream_);
}

Bytes RankDeviceLinks::arena_bytes() const {
  const std::size_t bytes = links_.geometry.arena_bytes();
  return Bytes{peers_.single_process() ? bytes : round_up(bytes, kDevicePage)};
}

/// Makes one claim for each device that ranks of this process use.
std::vector<BlockClaim> RankDeviceLinks::claims() const {
  std::vector<BlockClaim> claims;
  const auto self = static_cast<std::size_t>(rank_.value);
  for (std::size_t rank = 0; rank < peers_.cards.size(); ++rank) {
    if (!peers_.same_process(rank, self)) continue;
    const auto known = std::find_if(claims.begin(), claims.end(), [&](const BlockClaim& claim) {
      return claim.card.same_device(peers_.cards[rank]);
    });
    if (known == claims.end())
      claims.push_back({peers_.cards[rank], 1});
    else
      ++known->ranks;
  }
  return claims;
}

// All ranks must have the same number of blocks, but each process knows only how many are left on its own devices.
Status RankDeviceLinks::agree_on_blocks(RankExchange& ranks, std::uint32_t* blocks) {
  BlockOffer offer;
  offer.blocks = peers_.most_blocks();
  offer.status = RankStatus::of(fabric_->share().take(claims(), &offer.blocks));
  std::vector<BlockOffer> offers;
  TUTTI_TRY(ranks.exchange_plain(offer, &offers));
  *blocks = kMaxDeviceBlocks;
  for (std::size_t peer = 0; peer < offers.size(); ++peer) {
    TUTTI_TRY(offers[peer].status.from(ranks.number(peer)));
    if (offers[peer].blocks == 0 || offers[peer].blocks > kMaxDeviceBlocks)
      return fail(Code::kRemoteError, "rank {} said that it has {} thread blocks", ranks.number(peer),
                  offers[peer].blocks);
    *blocks = std::min(*blocks, offers[peer].blocks);
  }
  fabric_->share().settle(*blocks);
  return {};
}

void RankDeviceLinks::make_geometry(Bytes slot, std::uint32_t blocks) {
  links_.wide = !peers_.single_process() || peers_.many_devices();
  links_.single_process = peers_.single_process();
  links_.rank = rank_.value;
  DeviceGeometry geometry;
  geometry.ranks = peers_.ranks();
  geometry.blocks = blocks;
  const std::size_t slots = std::size_t{blocks} * static_cast<std::size_t>(geometry.ranks) * geometry.slots;
  const std::size_t share = std::max(std::bit_floor(kMostInSlots / slots), kLeastSlot);
  geometry.slot_bytes = static_cast<std::uint32_t>(round_up(std::min(slot.value, share), DeviceGeometry::kAlign));
  links_.set_geometry(geometry);
}

Status RankDeviceLinks::allocate(std::span<const Kernel* const> kernels, DeviceDriver::Handle* handle) {
  const QuietMoment quiet(QuietMoment::of_a_join());
  TUTTI_TRY(driver_.load(device_, kernels));
  void* arena = nullptr;
  TUTTI_TRY(driver_.allocate(device_, arena_bytes(), &arena));
  fabric_->keep(rank_, std::make_shared<DeviceAllocation>(driver_, device_, arena, arena_bytes()));
  if (peers_.single_process()) return {};
  TUTTI_TRY(driver_.export_memory(device_, arena, handle));
  fabric_->expect_mappings();
  return {};
}

Status RankDeviceLinks::reach_peers(const std::vector<ArenaOffer>& offers) {
  const QuietMoment quiet(QuietMoment::of_a_join());
  const auto self = static_cast<std::size_t>(rank_.value);
  for (std::size_t peer = 0; peer < offers.size(); ++peer) {
    const Rank rank{static_cast<std::int32_t>(peer)};
    const auto arena = fabric_->kept(rank);
    void* memory = arena == nullptr ? nullptr : arena->memory;
    if (offers[peer].bytes != arena_bytes().value)
      return fail(Code::kRemoteError, "rank {}'s memory for links has another size than rank {}'s", number(rank).value,
                  number(rank_).value);
    if (!peers_.same_process(peer, self)) {
      TUTTI_TRY(fabric_->open(rank, device_, offers[peer].handle, &memory));
    } else if (!peers_.cards[peer].same_device(peers_.cards[self])) {
      bool reachable = false;
      TUTTI_TRY(driver_.reach(device_, arena->device, &reachable));
      if (!reachable)
        return fail(Code::kUnsupported, "rank {}'s device {} cannot reach device {} of rank {}", number(rank_).value,
                    device_, arena->device, number(rank).value);
    }
    links_.arenas[peer] = static_cast<std::byte*>(memory);
  }
  return {};
}

void RankDeviceLinks::open_lending() {
  const DeviceFabric::Segments segments = fabric_->segments();
  if (std::find(segments.begin(), segments.end(), nullptr) != segments.end()) return;
  const LendingPages pages(segments);
  lender_ = std::make_unique<DeviceLender>(driver_, rank_, pages);
  borrower_ = std::make_unique<DeviceBorrower>(driver_, device_, links_, peers_.processes, pages);
}

MulticastKind RankDeviceLinks::wished_multicast(MulticastMode mode) const {
  if (mode == MulticastMode::kMapped) return MulticastKind::kMapped;
  if (mode == MulticastMode::kOff || peers_.ranks() == 1 || !peers_.single_process()) return MulticastKind::kNone;
  for (std::size_t rank = 0; rank < peers_.cards.size(); ++rank)
    if (peers_.sharing(rank, true) != 1) return MulticastKind::kNone;
  DeviceMappings* const mappings = driver_.virtual_memory();
  return mappings != nullptr && mappings->can_multicast(device_) ? MulticastKind::kMulticast : MulticastKind::kNone;
}

// Rank 0 makes the mirrors of all. If that fails, nothing is half made, and nobody waits for a device that was not
// added. Then the ranks go on without mirrors, unless TUTTI_MULTICAST=mapped demands them.
Status RankDeviceLinks::open_multicast(const std::vector<ArenaOffer>& offers, RankExchange& ranks) {
  std::vector<MulticastKind> wishes;
  std::vector<int> devices;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    wishes.push_back(offers[rank].mirror);
    const auto arena = fabric_->kept(Rank{static_cast<std::int32_t>(rank)});
    devices.push_back(arena == nullptr ? -1 : arena->device);
  }
  MulticastKind kind = MulticastKind::kNone;
  TUTTI_TRY(choose_mirrors(wishes, peers_.numbers, &kind));
  if (kind == MulticastKind::kNone) return {};
  if (!peers_.single_process() || driver_.virtual_memory() == nullptr)
    return fail(Code::kUnsupported, "TUTTI_MULTICAST=mapped is for ranks of one process whose driver maps memory");
  Status made;
  if (rank_ == Rank{0}) made = make_mirrors(kind, std::move(devices));
  made = ranks.agree(made);
  if (!made.ok() && kind == MulticastKind::kMapped) return made;
  why_no_multicast_ = made;
  if (!made.ok()) return {};
  const MulticastBuffer& mirror = *fabric_->mirror();
  links_.multimem = kind == MulticastKind::kMulticast;
  links_.mirror = mirror.to_read(rank_);
  links_.to_mirrors = mirror.to_write(rank_);
  multicast_bytes_ = mirror.bytes_of(rank_);
  return {};
}

Status RankDeviceLinks::make_mirrors(MulticastKind kind, std::vector<int> devices) {
  const QuietMoment quiet(QuietMoment::of_a_join());
  return fabric_->make_multicast(kind, std::move(devices), Bytes{links_.geometry.mirror_bytes()});
}

}  // namespace tutti
