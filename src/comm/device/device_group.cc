#include "comm/device/device_group.h"

#include <algorithm>
#include <utility>

#include "collectives/choice/catalogue.h"
#include "comm/membership/hub.h"
#include "executor/device/device_launch.h"
#include "executor/device/device_probe.h"

namespace tutti {

namespace {
/// The largest message of a link between devices, where there is memory for such slots. Each message costs its reader
/// and its writer a few microseconds of waiting; docs/design/device.md has what an H200 took with smaller ones.
constexpr Bytes kDeviceSlot{512 * 1024};
/// The key of what all communicators of the process share.
constexpr std::uint64_t kTheBudget = 0;
}  // namespace

DeviceGroup::DeviceGroup(const DeviceRequest& request, const JoinResult& joined, std::vector<int> members,
                         Executor& host)
    : request_(request),
      membership_(*joined.membership),
      host_(host),
      members_(std::move(members)),
      index_{static_cast<std::int32_t>(std::find(members_.begin(), members_.end(), joined.membership->rank().value) -
                                       members_.begin())} {}

DeviceGroup::~DeviceGroup() {
  if (fabric_ == nullptr) return;
  for (Rank peer{0}; peer.value < ranks(); ++peer)
    if (membership_.liveness(Rank{members_[static_cast<std::size_t>(peer.value)]}) == Liveness::kDead)
      fabric_->forget(peer);
}

/// Reads what each member said of its device in the join. All ranks get the same result.
Status DeviceGroup::find_peers(const JoinResult& joined, DevicePeers* peers) const {
  peers->numbers = members_;
  for (const int rank : members_) {
    const std::string& device = membership_.device(Rank{rank});
    if (device.empty()) return fail(Code::kUnsupported, "rank {} uses no device", rank);
    peers->cards.emplace_back();
    TUTTI_TRY(DeviceInfo::decode(device, &peers->cards.back()));
    peers->processes.push_back(joined.processes[static_cast<std::size_t>(rank)]);
  }
  return {};
}

/// Device memory of other processes can be mapped within one host only, and the processes announce what they do with it
/// in the host memory that they share.
Status DeviceGroup::check_memory(const JoinResult& joined) const {
  const auto host = [&](int rank) { return joined.hosts[static_cast<std::size_t>(rank)]; };
  for (const int rank : members_)
    if (host(rank) != host(members_[0]))
      return fail(Code::kUnsupported, "rank {} ({}) and rank {} share no host memory", rank,
                  membership_.describe(Rank{rank}), members_[0]);
  const bool mapped = std::all_of(members_.begin(), members_.end(),
                                  [&](int rank) { return joined.segments.of(Rank{rank}) != nullptr; });
  return mapped ? Status{} : fail(Code::kUnsupported, "ranks of several processes share no host memory");
}

std::shared_ptr<DeviceFabric> DeviceGroup::make_fabric(const JoinResult& joined, const DevicePeers& peers,
                                                       std::shared_ptr<BlockBudget> budget) const {
  DeviceFabric::Segments own(members_.size()), others(members_.size());
  const auto self = static_cast<std::size_t>(index_.value);
  for (std::size_t i = 0; i < members_.size() && !peers.single_process(); ++i)
    (peers.same_process(i, self) ? own : others)[i] = joined.segments.of(Rank{members_[i]});
  return std::make_shared<DeviceFabric>(*device_driver(), std::move(budget), std::move(own), std::move(others));
}

/// The key of the fabric that the group's ranks in this process share. A process may have ranks of several groups of
/// one communicator.
std::uint64_t DeviceGroup::key() const {
  const bool all = ranks() == membership_.ranks();
  return all ? membership_.comm_id() : mix64(membership_.comm_id() + static_cast<std::uint64_t>(members_[0]) + 1);
}

/// Logs, once for each group, that there are no links between the devices: all ranks have devices, so somebody may have
/// expected them.
Status DeviceGroup::log_refusal(const Status& why) const {
  if (is_first()) log(LogLevel::kInfo, request_.source, "no links between the devices of the ranks: {}", why.text());
  return why;
}

Status DeviceGroup::open(const JoinResult& joined, RankExchange& ranks, WaitMonitor& monitor) {
  Status status = set_up(joined, ranks, monitor);
  if (!status.ok()) {  // all members do this, so that no link keeps memory
    executor_ = nullptr;
    fabric_ = nullptr;
  }
  return status;
}

Status DeviceGroup::set_up(const JoinResult& joined, RankExchange& ranks, WaitMonitor& monitor) {
  DevicePeers peers;
  TUTTI_TRY(find_peers(joined, &peers));
  spans_processes_ = !peers.single_process();
  if (spans_processes_) TUTTI_TRY(check_memory(joined));
  TUTTI_TRY(connect(joined, peers, request_.multicast, ranks, monitor));
  const Status multicast = check_multicast(ranks, monitor);
  if (multicast.ok() || request_.multicast == MulticastMode::kMapped) return multicast;
  // The probe has failed, so these links are of no more use. All ranks make new ones when none has the old ones any
  // more.
  executor_ = nullptr;
  fabric_ = nullptr;
  TUTTI_TRY(ranks.agree({}));
  return connect(joined, peers, MulticastMode::kOff, ranks, monitor);
}

Status DeviceGroup::connect(const JoinResult& joined, const DevicePeers& peers, MulticastMode multicast,
                            RankExchange& ranks, WaitMonitor& monitor) {
  const auto budget = Hub::shared<BlockBudget>(kTheBudget, [] { return std::make_shared<BlockBudget>(); });
  fabric_ = Hub::shared<DeviceFabric>(key(), [&] { return make_fabric(joined, peers, budget); });
  auto rank_links = std::make_unique<RankDeviceLinks>(fabric_, *device_driver(), request_.device, index_, peers);
  const Status opened = rank_links->open(kDeviceSlot, multicast, kernels_of_collectives(), ranks);
  if (!opened.ok()) return log_refusal(opened);
  if (is_first() && !rank_links->why_no_multicast().ok())
    log(LogLevel::kInfo, request_.source, "no NVLink multicast: {}", rank_links->why_no_multicast().text());
  executor_ = std::make_unique<DeviceExecutor>(std::move(rank_links), host_);
  TUTTI_TRY(ranks.agree(executor_->open()));
  const ProbedLinks links{find_algorithm(Collective::kAllToAll, "all_pairs"), "the links between devices"};
  const Status probed = ranks.agree(probe_links(*executor_, links, index_, this->ranks(), monitor));
  return probed.ok() ? probed : log_refusal(probed);
}

Status DeviceGroup::check_multicast(RankExchange& ranks, WaitMonitor& monitor) {
  if (!executor_->has_mirror()) return {};
  const ProbedLinks links{find_algorithm(Collective::kAllGather, "all_pairs"), "multicast between devices"};
  Status probed = ranks.agree(probe_links(*executor_, links, index_, this->ranks(), monitor));
  const bool goes_on = monitor.check(kNoRank, 0).ok();  // if it does not, the join fails and reports why
  if (!probed.ok() && is_first() && goes_on)
    log(LogLevel::kWarn, request_.source, "messages to all do without NVLink multicast: {}", probed.text());
  return probed;
}

}  // namespace tutti
