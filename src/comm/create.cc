#include "comm/create.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/algorithm_cache.h"
#include "comm/communicator_information.h"
#include "comm/executor_factory.h"
#include "comm/rendezvous/join_url.h"
#include "comm/rendezvous/launcher_store.h"
#include "core/core_list.h"
#include "core/costs_file.h"
#include "kernels/kernels.h"
#include "net/local_network.h"
#include "transport/shm/shm_layout.h"

namespace tutti {

namespace {

// The settings that must agree, because they decide which messages are sent, and of what size.
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

/// A device that the caller names has to be there.
Status check_device(const CreateOptions& options) {
  if (options.device < 0) return {};
  DeviceDriver* const driver = device_driver();
  const int devices = driver == nullptr ? 0 : driver->devices();
  if (devices == 0) return fail(Code::kUnsupported, "device {}: this process has no device", options.device);
  if (options.device < devices) return {};
  return fail(Code::kInvalidArgument, "device {} is none of the devices 0 to {}", options.device, devices - 1);
}

/// The driver is started only if the caller or a setting asks for a device, because that takes longer than a join.
DeviceDriver* driver_of(const CreateOptions& options) {
  const bool asks = options.device >= 0 || options.settings.transport == TransportKind::kCuda;
  const bool starts = asks && options.takes_device;
  return starts ? device_driver() : device_driver_in_use();
}

/// The device that this rank's buffers may be on; -1 if there is none, or if the process does not use one yet and
/// nobody asked for it.
int device_of(const CreateOptions& options) {
  if (!options.takes_device) return -1;
  DeviceDriver* const driver = driver_of(options);
  if (driver == nullptr || driver->devices() == 0) return -1;
  const int device = options.device >= 0 ? options.device : driver->current_device();
  const bool forced = options.settings.transport == TransportKind::kCuda;
  return device < 0 && forced ? options.rank % driver->devices() : device;
}

/// Describes this rank's device for the others.
Status describe_device(const CreateOptions& options, std::string* text) {
  const int device = device_of(options);
  if (device < 0) return {};
  DeviceInfo card;
  const Status known = DeviceInfo::of(*device_driver(), device, &card);
  if (known.ok()) *text = card.encode();
  if (options.settings.transport == TransportKind::kCuda) return known;
  // For the others this rank has no device. Its host buffers can be used all the same.
  if (!known.ok()) log(LogLevel::kWarn, LogSource{Rank{options.rank}, options.name}, "{}", known.text());
  return {};
}

/// Offers device buffers if all ranks use a device and can reach one another's. All ranks do the same, because each
/// knows from the join whether all have a device.
Status attach_device(const CreateOptions& options, Deadline deadline, const JoinResult& joined, const Machine& machine,
                     Executor& host, std::unique_ptr<DeviceSide>* side) {
  DeviceRequest request;
  const bool forced = options.settings.transport == TransportKind::kCuda;
  DeviceDriver* const driver = driver_of(options);
  const bool none = driver == nullptr ? !may_have_device() : driver->devices() == 0;
  if (none) return {};
  request.device = device_of(options);
  request.forced = forced && options.takes_device;
  request.machine = machine;
  request.algorithm = options.settings.algorithm;
  request.tile = options.settings.tile_bytes;
  request.two_levels_from = options.settings.two_levels_from;
  request.multicast = options.settings.multicast;
  request.deadline = deadline;
  request.source = LogSource{Rank{options.rank}, options.name};
  TUTTI_TRY(DeviceSide::open(request, joined, host, side));
  if (!request.forced || (*side)->why_not().ok()) return {};
  return fail((*side)->why_not().code(), "TUTTI_TRANSPORT=cuda: {}", (*side)->why_not().text());
}

Status finish_join(const CreateOptions& options, Deadline deadline, JoinResult joined,
                   std::shared_ptr<Communicator>* comm) {
  std::unique_ptr<Executor> executor;
  Costs costs;
  Status made = parse_costs(joined.costs_text, "the costs of rank 0", &costs);
  const int ranks_here = std::max(static_cast<int>(near_ranks(options, joined).size()), joined.same_boot_ranks);
  Oversubscription oversubscription(ranks_here, joined.same_boot_cores);
  if (made.ok()) made = make_executor(options, joined, oversubscription.ranks_per_core(), &executor);
  std::unique_ptr<DeviceSide> device;
  Machine machine;
  if (made.ok()) {
    machine = machine_of(options, joined, executor->links().capabilities());
    machine.costs = costs;
    made = attach_device(options, deadline, joined, machine, *executor, &device);
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

Status check_place(const CreateOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return fail(Code::kInvalidArgument, "rank {} of {} ranks: ranks count from 0", options.rank, options.ranks);
  if (options.ranks > ShmGeometry::kMostRanks && options.settings.transport != TransportKind::kTcp)
    return fail(Code::kInvalidArgument, "{} ranks are more than {}, which TUTTI_TRANSPORT={} serves", options.ranks,
                ShmGeometry::kMostRanks, name_of(options.settings.transport));
  return {};
}

Status prepare_join(const CreateOptions& options, JoinRequest* request) {
  TUTTI_TRY(check_transport(options.settings));
  TUTTI_TRY(check_device(options));
  request->ranks = options.ranks;
  request->rank = Rank{options.rank};
  request->deadline = Deadline::in(options.settings.join_timeout_seconds);
  request->name = options.name;
  request->settings = options.settings;
  request->agreed = agreed_settings(options.settings);
  request->costs_text = options.costs;
  if (options.rank == 0 && options.costs.empty()) {
    Costs costs;
    if (const Status known = costs_in_force(options.settings, local_network(options.settings), &costs); !known.ok())
      return fail(known.code(), "setting TUTTI_COSTS: {}", known.text());
    request->costs_text = costs_text(costs);
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
  return finish_join(options, request.deadline, std::move(joined), comm);
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
  return finish_join(options, request.deadline, std::move(joined), comm);
}

}  // namespace tutti
