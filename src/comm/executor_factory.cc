#include "comm/executor_factory.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "comm/membership/hub.h"
#include "core/crc32c.h"
#include "executor/cpu_executor.h"
#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

namespace {

/// Lanes of links that a communicator has; algorithms use at most as many.
constexpr int kLanes = 2;
/// One more lane, which only sends and receives use.
constexpr Lane kPointToPointLane{kLanes};
/// A tcp link holds so many messages of each kind. Half of them are sure to be free before the other half is consumed.
constexpr std::uint32_t kTcpCredits = 8;

/// A rank whose memory is not mapped here; 0 if there is none.
Rank far_rank(const JoinResult& joined) {
  for (Rank rank{0}; rank.value < joined.membership->ranks(); ++rank)
    if (joined.segments.of(rank) == nullptr) return rank;
  return Rank{0};
}

Status open_shm(const CreateOptions& options, const JoinResult& joined, const std::vector<Rank>& near,
                std::unique_ptr<ShmEndpoint>* endpoint) {
  ShmGeometry geometry = geometry_of(options);
  geometry.ranks = static_cast<int>(near.size());
  std::vector<std::shared_ptr<Segment>> segments;
  segments.reserve(near.size());
  for (const Rank rank : near) segments.push_back(joined.segments.of(rank));
  const auto self = std::lower_bound(near.begin(), near.end(), Rank{options.rank});
  return ShmEndpoint::open(geometry, Rank{static_cast<int>(self - near.begin())}, std::move(segments), endpoint);
}

PointToPointPolicy point_to_point_policy(const CreateOptions& options) {
  return {kPointToPointLane, options.settings.unexpected_bytes};
}

Status make_inproc(const CreateOptions& options, const JoinResult& joined, const LadderPolicy& ladder,
                   std::unique_ptr<Executor>* executor) {
  if (!joined.single_process) return fail(Code::kInvalidUsage, "TUTTI_TRANSPORT=inproc needs all ranks in one process");
  const auto fabric = Hub::shared<InprocFabric>(joined.membership->comm_id(), [&] {
    return std::make_shared<InprocFabric>(options.ranks, kLanes + 1, options.settings.shm_slot_bytes);
  });
  *executor = std::make_unique<CpuExecutor<InprocEndpoint>>(
      std::make_unique<InprocEndpoint>(fabric, Rank{options.rank}), ladder, point_to_point_policy(options));
  return {};
}

Status open_tcp(const CreateOptions& options, const JoinResult& joined, const std::vector<Rank>& near,
                std::unique_ptr<TcpEndpoint>* endpoint) {
  TcpEndpoint::Place place{Rank{options.rank}, options.ranks, kLanes + 1, near};
  const std::uint64_t id = joined.membership->comm_id();
  const bool all_by_tcp = options.settings.transport == TransportKind::kTcp || have_a_host_each(joined.hosts);
  const Bytes largest = largest_message(options.settings.shm_slot_bytes, all_by_tcp);
  const TcpGeometry geometry{largest, kTcpCredits, options.settings.checksum,
                             crc32c(0, std::as_bytes(std::span(&id, 1)))};
  return TcpEndpoint::open(*joined.tcp_streams, geometry, std::move(place), LogSource{Rank{options.rank}, options.name},
                           endpoint);
}

Status make_mixed(const CreateOptions& options, const JoinResult& joined, const std::vector<Rank>& near,
                  const LadderPolicy& ladder, std::unique_ptr<Executor>* executor) {
  std::unique_ptr<TcpEndpoint> far;
  TUTTI_TRY(open_tcp(options, joined, near, &far));
  if (near.size() == 1) {
    *executor = std::make_unique<CpuExecutor<TcpEndpoint>>(std::move(far), ladder, point_to_point_policy(options));
    return {};
  }
  std::unique_ptr<ShmEndpoint> endpoint;
  TUTTI_TRY(open_shm(options, joined, near, &endpoint));
  *executor = std::make_unique<CpuExecutor<MixedEndpoint>>(
      std::make_unique<MixedEndpoint>(std::move(endpoint), std::move(far), near, ladder.ranks_per_core), ladder,
      point_to_point_policy(options));
  return {};
}

}  // namespace

ShmGeometry geometry_of(const CreateOptions& options) {
  ShmGeometry geometry;
  geometry.ranks = options.ranks;
  geometry.lanes = kLanes + 1;
  geometry.slot_bytes = options.settings.shm_slot_bytes;
  geometry.slots = options.settings.shm_slots;
  return geometry;
}

Machine machine_of(const CreateOptions& options, const JoinResult& joined, const Capabilities& capabilities) {
  Machine machine;
  machine.ranks = options.ranks;
  machine.max_message = capabilities.max_message;
  machine.credits = capabilities.credits;
  machine.lanes = kLanes;
  machine.deterministic = options.settings.deterministic;
  machine.same_host_id = joined.same_host_id;
  machine.ranks_per_core = joined.ranks_per_core;
  machine.same_boot_id = joined.same_boot_ranks == options.ranks;
  if (options.settings.transport == TransportKind::kTcp) {
    machine.network = options.ranks > 1;
    machine.hosts.resize(static_cast<std::size_t>(options.ranks));
    std::iota(machine.hosts.begin(), machine.hosts.end(), 0);
  } else if (options.settings.transport != TransportKind::kInproc) {
    machine.network = !joined.all_mapped;
    machine.hosts = joined.hosts;
  }
  if (machine.network) machine.credits = std::min(options.settings.shm_slots, kTcpCredits);
  return machine;
}

std::vector<Rank> near_ranks(const CreateOptions& options, const JoinResult& joined) {
  if (options.settings.transport == TransportKind::kTcp) return {Rank{options.rank}};
  std::vector<Rank> near;
  const int host = joined.hosts[static_cast<std::size_t>(options.rank)];
  for (Rank peer{0}; peer.value < options.ranks; ++peer)
    if (joined.hosts[static_cast<std::size_t>(peer.value)] == host) near.push_back(peer);
  return near;
}

Status make_executor(const CreateOptions& options, const JoinResult& joined, int ranks_per_core,
                     std::unique_ptr<Executor>* executor) {
  const TransportKind kind = options.settings.transport;
  const std::vector<Rank> near = near_ranks(options, joined);
  const bool network = kind == TransportKind::kTcp || (kind == TransportKind::kAuto && !joined.all_mapped);
  const LadderPolicy ladder = LadderPolicy::choose(ranks_per_core, options.settings.spin_microseconds, network);
  if (kind == TransportKind::kInproc) return make_inproc(options, joined, ladder, executor);
  if (network) return make_mixed(options, joined, near, ladder, executor);
  if (!joined.all_mapped)
    return fail(Code::kInvalidUsage, "TUTTI_TRANSPORT={}, but rank {} ({}) is on another host", name_of(kind),
                far_rank(joined).value, joined.membership->describe(far_rank(joined)));
  std::unique_ptr<ShmEndpoint> endpoint;
  TUTTI_TRY(open_shm(options, joined, near, &endpoint));
  *executor = std::make_unique<CpuExecutor<ShmEndpoint>>(std::move(endpoint), ladder, point_to_point_policy(options));
  return {};
}

}  // namespace tutti
