#include "comm/create.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>

#include "comm/hub.h"
#include "executor/cpu_executor.h"
#include "transport/inproc.h"
#include "transport/shm.h"

namespace tutti {

namespace {

/// Lanes of links that a communicator has; algorithms use at most as many.
constexpr int kLanes = 2;
/// One more, which sends and receives have for themselves.
constexpr Lane kPeerLane{kLanes};
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
          {"TUTTI_DETERMINISTIC", s.deterministic ? "1" : "0"},
          {"wire type", s.wire_type < 0 ? "none" : name_of(static_cast<DataType>(s.wire_type))},
          {"TUTTI_TLS", s.tls ? "on" : "off"},
          {"TUTTI_CHECKSUM", s.checksum ? "1" : "0"},
          {"library version", std::to_string(TUTTI_VERSION_CODE)}};
}

Status check_transport(const Settings& settings) {
  const TransportKind kind = settings.transport;
  if (kind == TransportKind::kTcp || kind == TransportKind::kCuda)
    return fail(Code::kUnsupported, "TUTTI_TRANSPORT={} comes with a later version", name_of(kind));
  return {};
}

Status check_place(const CreateOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return fail(Code::kInvalidArgument, "rank {} of {} ranks: ranks count from 0", options.rank, options.ranks);
  if (options.ranks > kMostRanks)
    return fail(Code::kInvalidArgument, "{} ranks on one host are more than {}", options.ranks, kMostRanks);
  return {};
}

Machine machine_of(const CreateOptions& options, const Capabilities& capabilities) {
  Machine machine;
  machine.ranks = options.ranks;
  machine.max_message = capabilities.max_message;
  machine.credits = capabilities.credits;
  machine.lanes = kLanes;
  machine.deterministic = options.settings.deterministic;
  return machine;
}

Status make_executor(const CreateOptions& options, const JoinResult& joined, std::unique_ptr<Executor>* executor) {
  const LadderPolicy ladder = LadderPolicy::choose(options.ranks, usable_cores(), options.settings.spin_microseconds);
  const Rank rank{options.rank};
  if (options.settings.transport == TransportKind::kInproc) {
    if (!joined.one_process) return fail(Code::kInvalidUsage, "TUTTI_TRANSPORT=inproc needs all ranks in one process");
    const auto fabric = Hub::shared<InprocFabric>(joined.membership->comm_id(), [&] {
      return std::make_shared<InprocFabric>(options.ranks, kLanes + 1, options.settings.shm_slot_bytes);
    });
    *executor = std::make_unique<CpuExecutor<InprocEndpoint>>(std::make_unique<InprocEndpoint>(fabric, rank), ladder,
                                                              kPeerLane);
    return {};
  }
  if (!joined.one_host) {
    for (std::size_t peer = 0; peer < joined.segments.size(); ++peer)
      if (joined.segments[peer] == nullptr)
        return fail(Code::kUnsupported, "rank {} ({}) is on another host: the tcp transport comes with a later version",
                    peer, joined.membership->describe(Rank{static_cast<int>(peer)}));
    return fail(Code::kUnsupported, "the ranks are on several hosts: the tcp transport comes with a later version");
  }
  std::unique_ptr<ShmEndpoint> endpoint;
  TUTTI_TRY(ShmEndpoint::open(geometry_of(options), rank, joined.segments, &endpoint));
  *executor = std::make_unique<CpuExecutor<ShmEndpoint>>(std::move(endpoint), ladder, kPeerLane);
  return {};
}

Status finish_join(const CreateOptions& options, JoinResult joined, std::shared_ptr<Communicator>* comm) {
  std::unique_ptr<Executor> executor;
  const Status made = make_executor(options, joined, &executor);
  if (!made.ok()) {
    joined.membership->post_cause(Cause{made.code(), Rank{options.rank}, kNoRank, made.text()});
    return made;
  }
  const std::string name =
      options.name.empty() ? fmt::format("{:08x}", joined.membership->comm_id() >> 32) : options.name;
  const Machine machine = machine_of(options, executor->capabilities());
  *comm = std::make_shared<Communicator>(options.settings, name, std::move(joined), std::move(executor), machine);
  log(LogLevel::kInfo, (*comm)->log_source(), "joined: {} ranks, transport {}, kernels {}", options.ranks,
      options.settings.transport == TransportKind::kInproc ? "inproc" : "shm", simd_in_use());
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
  TUTTI_TRY(switch_field("deterministic", own.deterministic, &options->settings.deterministic));
  TUTTI_TRY(seconds_field("timeoutSeconds", own.timeoutSeconds, &options->settings.timeout_seconds));
  TUTTI_TRY(seconds_field("joinTimeoutSeconds", own.joinTimeoutSeconds, &options->settings.join_timeout_seconds));
  TUTTI_TRY(wire_field(static_cast<int>(own.wireType), &options->settings));
  if (own.commName != nullptr) options->name = own.commName;
  return {};
}

Status read_options(const tuttiConfig_t* config, CreateOptions* options) {
  TUTTI_TRY(read_settings(&options->settings));
  use_simd(options->settings.simd);
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
  return Segment::create(geometry_of(options).segment_bytes(), &request->segment);
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
