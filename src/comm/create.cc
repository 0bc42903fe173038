#include "comm/create.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "comm/algorithm_cache.h"
#include "comm/communicator_information.h"
#include "comm/membership/hub.h"
#include "comm/rendezvous/join_url.h"
#include "comm/rendezvous/launcher_store.h"
#include "core/core_list.h"
#include "core/costs_file.h"
#include "executor/cpu_executor.h"
#include "kernels/kernels.h"
#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

namespace {

/// Lanes of links that a communicator has; algorithms use at most as many.
constexpr int kLanes = 2;
/// One more, which sends and receives have for themselves.
constexpr Lane kPeerLane{kLanes};
/// Messages that a tcp link holds, of each kind; half of them are sure to be free before the other half is consumed.
constexpr std::uint32_t kTcpCredits = 8;
/// A segment has links to every rank: more would not fit an address space.
constexpr int kMostRanks = 4096;

Status switch_field(const char* name, int value, bool* field) {
  if (value == TUTTI_UNDEF_INT) return {};
  if (value != 0 && value != 1) return fail(Code::kInvalidArgument, "config.{} is {}, not 0 or 1", name, value);
  if (field != nullptr) *field = value == 1;
  return {};
}

Status seconds_field(const char* name, double value, double* field) {
  if (std::isnan(value)) return {};
  if (!(value >= 0)) return fail(Code::kInvalidArgument, "config.{} is {}, not 0 or more seconds", name, value);
  *field = value;
  return {};
}

Status wire_field(int type, Settings* settings) {
  if (type != static_cast<int>(tuttiDataTypeMax)) settings->wire_type = type == tuttiFloat32 ? -1 : type;
  const int wire = settings->wire_type;
  if (wire < 0 && type >= 0) return {};
  if (wire < 0 || wire >= kDataTypes || !is_wire_type(static_cast<DataType>(wire)))
    return fail(Code::kInvalidArgument, "config.wireType {} is neither float32 nor a float of 8 or 16 bits", wire);
  if (settings->deterministic)
    return fail(Code::kInvalidArgument, "config.wireType {}: the deterministic mode excludes wire types",
                name_of(static_cast<DataType>(wire)));
  return {};
}

ShmGeometry geometry_of(const CreateOptions& options) {
  ShmGeometry geometry;
  geometry.ranks = options.ranks;
  geometry.lanes = kLanes + 1;
  geometry.slot_bytes = options.settings.shm_slot_bytes;
  geometry.slots = options.settings.shm_slots;
  return geometry;
}

// What must agree because it decides which messages are sent, and of what size.
std::vector<AgreedSetting> agreed_settings(const Settings& s) {
  return {{"TUTTI_TRANSPORT", name_of(s.transport)},
          {"TUTTI_ALGO", s.algorithm},
          {"TUTTI_TILE_BYTES", std::to_string(s.tile_bytes.value)},
          {"TUTTI_SHM_SLOT_BYTES", std::to_string(s.shm_slot_bytes.value)},
          {"TUTTI_SHM_SLOTS", std::to_string(s.shm_slots)},
          {"TUTTI_TWO_LEVELS", s.two_levels_from ? std::to_string(s.two_levels_from->value) : "off"},
          {"TUTTI_DETERMINISTIC", s.deterministic ? "1" : "0"},
          {"wire type", s.wire_type < 0 ? "none" : name_of(static_cast<DataType>(s.wire_type))},
          {"TUTTI_TLS", s.tls ? "on" : "off"},
          {"TUTTI_CHECKSUM", s.checksum ? "1" : "0"},
          {"library version", std::to_string(TUTTI_VERSION_CODE)}};
}

Status check_transport(const Settings& settings) {
  if (settings.transport == TransportKind::kCuda && (device_driver() == nullptr || device_driver()->devices() == 0))
    return fail(Code::kUnsupported, "TUTTI_TRANSPORT=cuda: this process has no device");
  return {};
}

Status check_place(const CreateOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return fail(Code::kInvalidArgument, "rank {} of {} ranks: ranks count from 0", options.rank, options.ranks);
  if (options.ranks > kMostRanks && options.settings.transport != TransportKind::kTcp)
    return fail(Code::kInvalidArgument, "{} ranks are more than {}, which TUTTI_TRANSPORT={} serves", options.ranks,
                kMostRanks, name_of(options.settings.transport));
  return {};
}

/// What the choice may know is equal on all ranks: it comes from the settings that agree and from who is where.
Machine machine_of(const CreateOptions& options, const JoinResult& joined, const Capabilities& capabilities) {
  Machine machine;
  machine.ranks = options.ranks;
  machine.max_message = capabilities.max_message;
  machine.credits = capabilities.credits;
  machine.lanes = kLanes;
  machine.deterministic = options.settings.deterministic;
  machine.same_host_id = joined.same_host_id;
  machine.same_boot_id = joined.kernel_ranks == options.ranks;
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

/// The ranks that share this one's memory, in rank order, this one included.
std::vector<Rank> near_ranks(const CreateOptions& options, const JoinResult& joined) {
  if (options.settings.transport == TransportKind::kTcp) return {Rank{options.rank}};
  std::vector<Rank> near;
  const int host = joined.hosts[static_cast<std::size_t>(options.rank)];
  for (Rank peer{0}; peer.value < options.ranks; ++peer)
    if (joined.hosts[static_cast<std::size_t>(peer.value)] == host) near.push_back(peer);
  return near;
}

/// A rank whose memory is not mapped here.
int far_rank(const JoinResult& joined) {
  const auto far = std::find(joined.segments.begin(), joined.segments.end(), nullptr);
  return static_cast<int>(far - joined.segments.begin()) % static_cast<int>(joined.segments.size());
}

PeerPolicy peers_of(const CreateOptions& options) { return {kPeerLane, options.settings.unexpected_bytes}; }

Status make_inproc(const CreateOptions& options, const JoinResult& joined, const LadderPolicy& ladder,
                   std::unique_ptr<Executor>* executor) {
  if (!joined.single_process) return fail(Code::kInvalidUsage, "TUTTI_TRANSPORT=inproc needs all ranks in one process");
  const auto fabric = Hub::shared<InprocFabric>(joined.membership->comm_id(), [&] {
    return std::make_shared<InprocFabric>(options.ranks, kLanes + 1, options.settings.shm_slot_bytes);
  });
  *executor = std::make_unique<CpuExecutor<InprocEndpoint>>(
      std::make_unique<InprocEndpoint>(fabric, Rank{options.rank}), ladder, peers_of(options));
  return {};
}

Status open_tcp(const CreateOptions& options, const JoinResult& joined, const std::vector<Rank>& near,
                std::unique_ptr<TcpEndpoint>* endpoint) {
  TcpEndpoint::Place place{Rank{options.rank}, options.ranks, kLanes + 1, {}};
  for (Rank peer{0}; peer.value < options.ranks; ++peer)
    if (!std::binary_search(near.begin(), near.end(), peer)) place.far.push_back(peer);
  const TcpGeometry geometry{options.settings.shm_slot_bytes, kTcpCredits, options.settings.checksum};
  return TcpEndpoint::open(*joined.tcp_streams, geometry, std::move(place), LogSource{Rank{options.rank}, options.name},
                           endpoint);
}

Status make_mixed(const CreateOptions& options, const JoinResult& joined, const std::vector<Rank>& near,
                  const LadderPolicy& ladder, std::unique_ptr<Executor>* executor) {
  std::unique_ptr<TcpEndpoint> far;
  TUTTI_TRY(open_tcp(options, joined, near, &far));
  if (near.size() == 1) {
    *executor = std::make_unique<CpuExecutor<TcpEndpoint>>(std::move(far), ladder, peers_of(options));
    return {};
  }
  std::vector<int> places(static_cast<std::size_t>(options.ranks), -1);
  std::vector<std::shared_ptr<Segment>> segments;
  for (const Rank rank : near) {
    places[static_cast<std::size_t>(rank.value)] = static_cast<int>(segments.size());
    segments.push_back(joined.segments[static_cast<std::size_t>(rank.value)]);
  }
  ShmGeometry geometry = geometry_of(options);
  geometry.ranks = static_cast<int>(near.size());
  const Rank self{places[static_cast<std::size_t>(options.rank)]};
  std::unique_ptr<ShmEndpoint> endpoint;
  TUTTI_TRY(ShmEndpoint::open(geometry, self, std::move(segments), &endpoint));
  *executor = std::make_unique<CpuExecutor<MixedEndpoint>>(
      std::make_unique<MixedEndpoint>(std::move(endpoint), std::move(far), std::move(places)), ladder,
      peers_of(options));
  return {};
}

Status make_executor(const CreateOptions& options, const JoinResult& joined, bool oversubscribed,
                     std::unique_ptr<Executor>* executor) {
  const TransportKind kind = options.settings.transport;
  const std::vector<Rank> near = near_ranks(options, joined);
  const bool network = kind == TransportKind::kTcp || (kind == TransportKind::kAuto && !joined.all_mapped);
  const int ranks_a_core = oversubscribed ? 2 : 1;
  const LadderPolicy ladder = LadderPolicy::choose(ranks_a_core, 1, options.settings.spin_microseconds, network);
  if (kind == TransportKind::kInproc) return make_inproc(options, joined, ladder, executor);
  if (network) return make_mixed(options, joined, near, ladder, executor);
  if (!joined.all_mapped)
    return fail(Code::kInvalidUsage, "TUTTI_TRANSPORT={}, but rank {} ({}) is on another host", name_of(kind),
                far_rank(joined), joined.membership->describe(Rank{far_rank(joined)}));
  std::unique_ptr<ShmEndpoint> endpoint;
  TUTTI_TRY(ShmEndpoint::open(geometry_of(options), Rank{options.rank}, joined.segments, &endpoint));
  *executor = std::make_unique<CpuExecutor<ShmEndpoint>>(std::move(endpoint), ladder, peers_of(options));
  return {};
}

/// Who was not told to use a device does not start the driver: that takes longer than a join.
DeviceDriver* driver_of(const CreateOptions& options) {
  const bool told = options.device >= 0 || options.settings.transport == TransportKind::kCuda;
  return told ? device_driver() : device_driver_in_use();
}

/// The device that this rank's buffers may be on; -1: none, or the process has not begun to use one and was not told
/// to.
int device_of(const CreateOptions& options) {
  DeviceDriver* const driver = driver_of(options);
  if (driver == nullptr || driver->devices() == 0) return -1;
  const int device = options.device >= 0 ? options.device : driver->current_device();
  const bool forced = options.settings.transport == TransportKind::kCuda;
  return device < 0 && forced ? options.rank % driver->devices() : device;
}

/// What this rank tells the others of its device.
Status describe_device(const CreateOptions& options, std::string* text) {
  const int device = device_of(options);
  if (device < 0) return {};
  DeviceInfo card;
  const Status known = DeviceInfo::of(*device_driver(), device, &card);
  if (known.ok()) *text = card.encode();
  if (options.settings.transport == TransportKind::kCuda) return known;
  // The others are told of no device, and host buffers go on.
  if (!known.ok()) log(LogLevel::kWarn, LogSource{Rank{options.rank}, options.name}, "{}", known.text());
  return {};
}

/// Offers device buffers where all ranks use a device and can reach one another's. All ranks do the same: where all
/// told of one in the join they meet, else none does.
Status attach_device(const CreateOptions& options, const JoinResult& joined, const Machine& machine, Executor& host,
                     std::unique_ptr<DeviceSide>* side) {
  DeviceRequest request;
  const bool forced = options.settings.transport == TransportKind::kCuda;
  DeviceDriver* const driver = driver_of(options);
  const bool none = driver == nullptr ? !may_have_device() : driver->devices() == 0;
  if (none) return {};
  request.device = device_of(options);
  request.forced = forced;
  request.machine = machine;
  request.algorithm = options.settings.algorithm;
  request.tile = options.settings.tile_bytes;
  request.two_levels_from = options.settings.two_levels_from;
  request.multicast = options.settings.multicast;
  request.deadline = Deadline::in(options.settings.join_timeout_seconds);
  request.source = LogSource{Rank{options.rank}, options.name};
  TUTTI_TRY(DeviceSide::open(request, joined, host, side));
  if (!forced || (*side)->why_not().ok()) return {};
  return fail((*side)->why_not().code(), "TUTTI_TRANSPORT=cuda: {}", (*side)->why_not().text());
}

Status finish_join(const CreateOptions& options, JoinResult joined, std::shared_ptr<Communicator>* comm) {
  std::unique_ptr<Executor> executor;
  Costs costs;
  Status made = parse_costs(joined.from_rank_0, "the costs of rank 0", &costs);
  const int ranks_here = std::max(static_cast<int>(near_ranks(options, joined).size()), joined.kernel_ranks);
  Oversubscription oversubscription(ranks_here, joined.kernel_cores);
  if (made.ok()) made = make_executor(options, joined, oversubscription.oversubscribed(), &executor);
  std::unique_ptr<DeviceSide> device;
  Machine machine;
  if (made.ok()) {
    machine = machine_of(options, joined, executor->capabilities());
    machine.costs = costs;
    made = attach_device(options, joined, machine, *executor, &device);
  }
  if (!made.ok()) {
    joined.membership->post_cause(FailureCause{made.code(), Rank{options.rank}, kNoRank, made.text()});
    return made;
  }
  const std::string name =
      options.name.empty() ? fmt::format("{:08x}", joined.membership->comm_id() >> 32) : options.name;
  std::shared_ptr<const AutomaticChoice> choice;
  TUTTI_TRY(AlgorithmCache::choice_for(machine, &choice));
  *comm = std::make_shared<Communicator>(options.settings, name, std::move(joined), std::move(executor),
                                         std::move(choice), std::move(oversubscription));
  (*comm)->adopt(std::move(device));
  (*comm)->start_listening();
  log(LogLevel::kInfo, (*comm)->log_source(), "joined: {} ranks, transport {}, kernels {}", options.ranks,
      transport_of(**comm), simd_name());
  return {};
}

}  // namespace

Status apply_config(const tuttiConfig_t* config, CreateOptions* options) {
  if (config == nullptr) return {};
  if (config->magic != TUTTI_CONFIG_MAGIC || config->size < offsetof(tuttiConfig_t, blocking))
    return fail(Code::kInvalidArgument, "the config was not set up with TUTTI_CONFIG_INITIALIZER");
  tuttiConfig_t own = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&own, config, std::min(config->size, sizeof own));  // fields that the caller's version lacks stay unset
  TUTTI_TRY(switch_field("blocking", own.blocking, nullptr));
  TUTTI_TRY(switch_field("splitShare", own.splitShare, nullptr));
  if (own.blocking == 0 && Hub::first_time("blocking = 0"))
    log(LogLevel::kWarn, {}, "config.blocking = 0 has no effect: joins and splits complete before they return");
  TUTTI_TRY(switch_field("deterministic", own.deterministic, &options->settings.deterministic));
  TUTTI_TRY(seconds_field("timeoutSeconds", own.timeoutSeconds, &options->settings.timeout_seconds));
  TUTTI_TRY(seconds_field("joinTimeoutSeconds", own.joinTimeoutSeconds, &options->settings.join_timeout_seconds));
  TUTTI_TRY(wire_field(static_cast<int>(own.wireType), &options->settings));
  if (own.commName != nullptr) options->name = own.commName;
  return {};
}

Status read_options(const tuttiConfig_t* config, CreateOptions* options) {
  TUTTI_TRY(read_settings(&options->settings));
  (void)select_simd(options->settings.simd);  // the setting's parser has checked the name
  return apply_config(config, options);
}

Status prepare_join(const CreateOptions& options, JoinRequest* request) {
  TUTTI_TRY(check_transport(options.settings));
  request->ranks = options.ranks;
  request->rank = Rank{options.rank};
  request->deadline = Deadline::in(options.settings.join_timeout_seconds);
  request->name = options.name;
  request->settings = options.settings;
  request->agreed = agreed_settings(options.settings);
  request->from_rank_0 = options.costs;
  if (options.rank == 0 && options.costs.empty()) {
    Costs costs;
    if (const Status known = costs_in_force(options.settings, &costs); !known.ok())
      return fail(known.code(), "setting TUTTI_COSTS: {}", known.text());
    request->from_rank_0 = costs_text(costs);
  }
  request->cores = usable_core_list();
  TUTTI_TRY(describe_device(options, &request->device));
  if (options.settings.transport == TransportKind::kTcp) return {};
  request->segment_bytes = geometry_of(options).segment_bytes();
  return {};
}

Status create_from_id(const tuttiUniqueId& id, const CreateOptions& options, std::shared_ptr<Communicator>* comm) {
  TUTTI_TRY(check_place(options));
  JoinRequest request;
  TUTTI_TRY(prepare_join(options, &request));
  static_assert(sizeof id.internal == sizeof request.id);
  std::memcpy(request.id.data(), id.internal, sizeof id.internal);
  return create_prepared(request, options, comm);
}

Status create_prepared(const JoinRequest& request, const CreateOptions& options, std::shared_ptr<Communicator>* comm) {
  JoinResult joined;
  TUTTI_TRY(join(request, &joined));
  return finish_join(options, std::move(joined), comm);
}

Status create_from_url(const std::string& url, const CreateOptions& asked, std::shared_ptr<Communicator>* comm) {
  CreateOptions options = asked;
  if (url.rfind("env://", 0) == 0 && (options.ranks == -1 || options.rank == -1)) {
    LaunchInfo launch;
    TUTTI_TRY(detect_launcher(&launch));
    if (options.ranks == -1) options.ranks = launch.ranks;
    if (options.rank == -1) options.rank = launch.rank.value;
  }
  TUTTI_TRY(check_place(options));
  JoinRequest request;
  TUTTI_TRY(prepare_join(options, &request));
  JoinResult joined;
  TUTTI_TRY(join_url(url, request, &joined));
  return finish_join(options, std::move(joined), comm);
}

}  // namespace tutti
