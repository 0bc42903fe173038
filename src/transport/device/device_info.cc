#include "transport/device/device_info.h"

#include <algorithm>
#include <cstring>

#include "transport/device/device_link.h"

namespace tutti {

namespace {
/// A rank needs no more thread blocks than this to use all of the bandwidth between devices. Ranks of a process that
/// share a device are held up by its memory only, which takes nearly all multiprocessors.
constexpr std::uint32_t kMostBlocks = 32;

/// A DeviceInfo as it is sent. It needs no byte order, because a join with a host of another architecture or with
/// another version of the library fails before this is read.
struct Packed {
  std::array<std::byte, 16> uuid;
  std::uint32_t processors;
  std::uint32_t connections;
  std::uint32_t concurrent;
  std::uint32_t launches_block;
};
/// No device has more of these.
constexpr std::uint32_t kMostProcessors = 1u << 16;
constexpr std::uint32_t kMostConnections = 1u << 10;
}  // namespace

Status DeviceInfo::of(DeviceDriver& driver, int device, DeviceInfo* card) {
  TUTTI_TRY(driver.identify(device, &card->identity));
  return driver.limits(device, &card->limits);
}

std::string DeviceInfo::encode() const {
  Packed packed{};
  packed.uuid = identity.uuid;
  packed.processors = static_cast<std::uint32_t>(limits.processors);
  packed.connections = static_cast<std::uint32_t>(limits.connections);
  packed.concurrent = identity.concurrent_processes ? 1 : 0;
  packed.launches_block = limits.launches_block ? 1 : 0;
  return std::string(reinterpret_cast<const char*>(&packed), sizeof packed);
}

Status DeviceInfo::decode(std::string_view text, DeviceInfo* card) {
  Packed packed{};
  if (text.size() != sizeof packed) return fail(Code::kRemoteError, "a description of a device of another size");
  std::memcpy(&packed, text.data(), sizeof packed);
  const bool sane = packed.processors >= 1 && packed.processors <= kMostProcessors && packed.connections >= 1 &&
                    packed.connections <= kMostConnections && packed.concurrent <= 1 && packed.launches_block <= 1;
  if (!sane) return fail(Code::kRemoteError, "a description of a device that there is not");
  card->identity.uuid = packed.uuid;
  card->identity.concurrent_processes = packed.concurrent == 1;
  card->limits = {static_cast<int>(packed.processors), static_cast<int>(packed.connections),
                  packed.launches_block == 1};
  return {};
}

bool DevicePeers::single_process() const {
  return std::all_of(processes.begin(), processes.end(), [this](int process) { return process == processes[0]; });
}

bool DevicePeers::many_devices() const {
  return std::any_of(cards.begin(), cards.end(),
                     [this](const DeviceInfo& card) { return !card.same_device(cards[0]); });
}

int DevicePeers::sharing(std::size_t rank, bool in_process) const {
  int count = 0;
  for (std::size_t other = 0; other < cards.size(); ++other)
    count += cards[other].same_device(cards[rank]) && (!in_process || same_process(other, rank)) ? 1 : 0;
  return count;
}

std::uint32_t DevicePeers::most_blocks() const {
  std::uint32_t blocks = kMaxDeviceBlocks;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const int all = sharing(rank, false);
    // Processes do not know one another's budgets, so those that share a device leave half of it to a second
    // communicator.
    const int parts = all == sharing(rank, true) ? all : 2 * all;
    if (all == 1) blocks = std::min(blocks, kMostBlocks);
    blocks = std::min(blocks, static_cast<std::uint32_t>(std::max(cards[rank].limits.processors / parts, 1)));
  }
  return blocks;
}

Status DevicePeers::check_concurrency() const {
  if (ranks() > kMaxDeviceRanks)
    return fail(Code::kUnsupported, "{} ranks are more than {}, which kernels' links are made for", ranks(),
                kMaxDeviceRanks);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      const bool apart = cards[rank].same_device(cards[other]) && !same_process(rank, other);
      const bool concurrent = cards[rank].identity.concurrent_processes && cards[other].identity.concurrent_processes;
      if (apart && !concurrent)
        return fail(Code::kUnsupported,
                    "ranks {} and {} use one GPU from two processes, whose kernels run at the same time only under MPS",
                    number(other), number(rank));
    }
    for (std::size_t other = 0; other < rank; ++other)
      if (same_process(rank, other) && cards[rank].limits.launches_block)
        return fail(Code::kUnsupported,
                    "ranks {} and {} are of one process in which each launch waits for its kernel "
                    "(CUDA_LAUNCH_BLOCKING), so their kernels would not run at the same time",
                    number(other), number(rank));
    const int streams = sharing(rank, true);
    if (streams > cards[rank].limits.connections)
      return fail(Code::kUnsupported,
                  "{} ranks of a process share the device of rank {}, whose streams run {} at a time "
                  "(CUDA_DEVICE_MAX_CONNECTIONS)",
                  streams, number(rank), cards[rank].limits.connections);
  }
  return {};
}

}  // namespace tutti
