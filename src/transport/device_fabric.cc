#include "transport/device_fabric.h"

#include <algorithm>
#include <bit>

namespace tutti {

namespace {
/// What a rank that cannot go on brings to the next exchange.
constexpr std::uint64_t kRefused = ~std::uint64_t{0};
/// More thread blocks than this a rank does not need to use all of a device's bandwidth together with its peers.
constexpr std::uint32_t kMostBlocks = 32;
}  // namespace

Status DeviceFabric::exchange(Rank rank, std::uint64_t mine, Deadline deadline, std::vector<std::uint64_t>* words) {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = round_;
  words_[static_cast<std::size_t>(rank.value)] = mine;
  if (++arrived_ == ranks_) {
    arrived_ = 0;
    last_ = words_;
    ++round_;
    changed_.notify_all();
  }
  const auto complete = [&] { return round_ != round; };
  if (deadline.is_never()) {
    changed_.wait(lock, complete);
  } else if (!changed_.wait_until(lock, deadline.at(), complete)) {
    return fail(Code::kTimeout, "rank {} waited in vain for the other ranks to set up their devices", rank.value);
  }
  *words = last_;
  return {};
}

DeviceFabric::~DeviceFabric() {
  // A failure leaves memory behind, and nobody could do anything about it.
  for (const Kept& kept : kept_) (void)kept.driver->release(kept.device, kept.memory);
}

void DeviceFabric::keep(DeviceDriver& driver, int device, void* memory) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(Kept{&driver, device, memory});
}

DeviceSeat::~DeviceSeat() {
  if (stream_ != nullptr) (void)driver_.destroy_stream(stream_);
}

Status DeviceSeat::open(Bytes slot, Deadline deadline) {
  std::vector<std::uint64_t> words;
  TUTTI_TRY(fabric_->exchange(rank_, device_ < 0 ? kRefused : static_cast<std::uint64_t>(device_), deadline, &words));
  const std::vector<std::uint64_t> devices = words;
  void* arena = nullptr;
  Status mine = make_geometry(devices, slot);
  if (mine.ok()) mine = allocate(&arena);
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(arena);
  TUTTI_TRY(fabric_->exchange(rank_, address, deadline, &words));
  const bool all = std::find(words.begin(), words.end(), 0) == words.end();
  for (std::size_t peer = 0; peer < words.size() && all; ++peer)
    links_.arenas[peer] = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(words[peer]));
  if (mine.ok() && all) mine = reach_peers(devices);
  // Streams take a device's hardware queues in turn, and two ranks whose streams share one would wait for each other:
  // all ranks make theirs now, with nothing in between that needs a stream for a while.
  TUTTI_TRY(agree(mine, deadline));
  mine = driver_.create_stream(device_, &stream_);
  return agree(mine, deadline);
}

Status DeviceSeat::agree(const Status& mine, Deadline deadline) {
  std::vector<std::uint64_t> words;
  TUTTI_TRY(fabric_->exchange(rank_, mine.ok() ? 0 : kRefused, deadline, &words));
  TUTTI_TRY(mine);
  const auto refused = std::find(words.begin(), words.end(), kRefused);
  if (refused == words.end()) return {};
  return fail(Code::kUnsupported, "rank {} could not set up its device", refused - words.begin());
}

// Blocks of all ranks wait for one another, so all of them must be resident together, beside the caller's own work.
Status DeviceSeat::make_geometry(const std::vector<std::uint64_t>& devices, Bytes slot) {
  const auto absent = std::find(devices.begin(), devices.end(), kRefused);
  if (absent != devices.end()) return fail(Code::kUnsupported, "rank {} uses no device", absent - devices.begin());
  if (ranks_ > kMaxDeviceRanks)
    return fail(Code::kUnsupported, "{} ranks are more than {}, which device buffers are offered for", ranks_,
                kMaxDeviceRanks);
  std::uint32_t blocks = kMostBlocks;
  for (const std::uint64_t device : devices) {
    const auto sharing = static_cast<int>(std::count(devices.begin(), devices.end(), device));
    DeviceDriver::Limits limits;
    TUTTI_TRY(driver_.limits(static_cast<int>(device), &limits));
    if (sharing > limits.connections)
      return fail(Code::kUnsupported,
                  "{} ranks share device {}, whose streams run {} at a time (CUDA_DEVICE_MAX_CONNECTIONS)", sharing,
                  device, limits.connections);
    blocks = std::min(blocks, std::bit_floor(static_cast<std::uint32_t>(std::max(limits.processors / sharing, 1))));
    links_.wide = links_.wide || device != devices[0];
  }
  links_.rank = rank_.value;
  links_.geometry.ranks = ranks_;
  links_.geometry.blocks = blocks;
  links_.geometry.slot_bytes = static_cast<std::uint32_t>(round_up(slot.value, DeviceGeometry::kAlign));
  return {};
}

Status DeviceSeat::allocate(void** arena) {
  TUTTI_TRY(driver_.load(device_));
  TUTTI_TRY(driver_.allocate(device_, Bytes{links_.geometry.arena_bytes()}, arena));
  fabric_->keep(driver_, device_, *arena);
  return {};
}

Status DeviceSeat::reach_peers(const std::vector<std::uint64_t>& devices) {
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto device = static_cast<int>(devices[static_cast<std::size_t>(peer)]);
    if (device == device_) continue;
    bool reachable = false;
    TUTTI_TRY(driver_.reach(device_, device, &reachable));
    if (!reachable)
      return fail(Code::kUnsupported, "rank {}'s device {} cannot reach device {} of rank {}", rank_.value, device_,
                  device, peer);
  }
  return {};
}

}  // namespace tutti
