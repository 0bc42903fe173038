// One rank's links in the memory of GPUs: its own arena, the addresses of its peers' arenas, and its stream. They are
// made at the join and only read afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/settings.h"
#include "core/status.h"
#include "device/device_driver.h"
#include "transport/device/device_fabric.h"
#include "transport/device/device_info.h"
#include "transport/device/device_lending.h"
#include "transport/device/device_link.h"
#include "transport/device/multicast_buffer.h"
#include "transport/rank_exchange.h"

namespace tutti {

/// One per rank and DeviceFabric.
class RankDeviceLinks {
 public:
  /// `device` is this process's number of the rank's device. `peers` includes the rank itself.
  RankDeviceLinks(std::shared_ptr<DeviceFabric> fabric, DeviceDriver& driver, int device, Rank rank, DevicePeers peers)
      : fabric_(std::move(fabric)), driver_(driver), device_(device), rank_(rank), peers_(std::move(peers)) {}
  ~RankDeviceLinks();
  RankDeviceLinks(const RankDeviceLinks&) = delete;
  RankDeviceLinks& operator=(const RankDeviceLinks&) = delete;

  /// All ranks call this. Afterwards either all have links, or none has and the status, the same on all, says why.
  /// Loads `kernels`. Messages are at most `slot` large. Blocks for as long as allocating takes.
  Status open(Bytes slot, MulticastMode multicast, std::span<const Kernel* const> kernels, RankExchange& ranks);

  DeviceDriver& driver() const { return driver_; }
  int device() const { return device_; }
  /// The number in the communicator of a rank of the links.
  Rank number(Rank rank) const {
    return rank == kNoRank ? kNoRank : Rank{peers_.number(static_cast<std::size_t>(rank.value))};
  }
  const DeviceLinks& links() const { return links_; }
  DeviceDriver::Stream stream() const { return stream_; }
  /// What the ranks of this process have launched.
  LocalLaunches& launches() const { return fabric_->launches(); }
  Rank rank() const { return rank_; }
  /// These are nullptr if all ranks are of one process, or if not all were alive at the join.
  DeviceLender* lender() const { return lender_.get(); }
  DeviceBorrower* borrower() const { return borrower_.get(); }
  Bytes memory() const { return arena_bytes() + multicast_bytes_; }
  /// Not ok if mirrors could not be made although all ranks' devices can multicast.
  const Status& why_no_multicast() const { return why_no_multicast_; }

 private:
  struct BlockOffer;
  struct ArenaOffer;
  std::vector<BlockClaim> claims() const;
  Status agree_on_blocks(RankExchange& ranks, std::uint32_t* blocks);
  void make_geometry(Bytes slot, std::uint32_t blocks);
  Bytes arena_bytes() const;
  Status allocate(std::span<const Kernel* const> kernels, DeviceDriver::Handle* handle);
  Status reach_peers(const std::vector<ArenaOffer>& offers);
  void open_lending();
  MulticastKind wished_multicast(MulticastMode mode) const;
  Status open_multicast(const std::vector<ArenaOffer>& offers, RankExchange& ranks);
  Status make_mirrors(MulticastKind kind, std::vector<int> devices);
  Status make_stream();

  const std::shared_ptr<DeviceFabric> fabric_;
  DeviceDriver& driver_;
  const int device_;
  const Rank rank_;
  const DevicePeers peers_;
  DeviceLinks links_;
  Bytes multicast_bytes_{0};
  Status why_no_multicast_;
  DeviceDriver::Stream stream_ = nullptr;
  std::unique_ptr<DeviceLender> lender_;
  std::unique_ptr<DeviceBorrower> borrower_;
};

}  // namespace tutti
