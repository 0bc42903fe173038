#include "comm/device_side.h"

#include <algorithm>

#include "collectives/catalogue.h"
#include "comm/hub.h"
#include "executor/device_probe.h"

namespace tutti {

namespace {
/// The largest message of a device's link: large enough that announcing it costs little, small enough that all slots
/// stay in the device's second-level cache. Not measured yet.
constexpr Bytes kDeviceSlot{128 * 1024};

std::shared_ptr<const AutomaticChoice> device_choice(const DeviceRequest& request, const Capabilities& links,
                                                     int ranks) {
  Machine machine;  // without costs and places: thresholds decide
  machine.ranks = ranks;
  machine.max_message = links.max_message;
  machine.credits = links.credits;
  machine.deterministic = request.deterministic;
  machine.on_device = true;
  return std::make_shared<const AutomaticChoice>(machine);
}

/// The devices of all ranks, as each told the others in the join: alike on all ranks.
Status find_party(const JoinResult& joined, DeviceParty* party) {
  party->processes = joined.processes;
  for (std::size_t rank = 0; rank < joined.devices.size(); ++rank) {
    if (joined.devices[rank].empty()) return fail(Code::kUnsupported, "rank {} uses no device", rank);
    party->cards.emplace_back();
    TUTTI_TRY(DeviceCard::decode(joined.devices[rank], &party->cards.back()));
  }
  return {};
}

/// Other processes' memory can be mapped on one host only, and what they do with it is told in the host's own.
Status check_host(const JoinResult& joined) {
  if (joined.one_host) return {};
  const auto far = std::find_if(joined.hosts.begin(), joined.hosts.end(), [](int host) { return host != 0; });
  const Rank rank{static_cast<std::int32_t>(far - joined.hosts.begin())};
  return fail(Code::kUnsupported, "rank {} ({}) and rank 0 share no host memory", rank.value,
              joined.membership->describe(rank));
}

/// The key of what all communicators of the process share.
constexpr std::uint64_t kOneForAll = 0;

std::shared_ptr<DeviceFabric> make_fabric(DeviceDriver& driver, std::shared_ptr<DeviceBudget> budget,
                                          const JoinResult& joined) {
  DeviceFabric::Segments own(joined.segments.size()), others(joined.segments.size());
  const auto self = static_cast<std::size_t>(joined.membership->rank().value);
  for (std::size_t rank = 0; rank < joined.segments.size() && !joined.one_process; ++rank) {
    const bool here = joined.processes[rank] == joined.processes[self];
    (here ? own : others)[rank] = joined.segments[rank];
  }
  return std::make_shared<DeviceFabric>(driver, std::move(budget), std::move(own), std::move(others));
}

/// Of this rank's process.
std::size_t ranks_here(const JoinResult& joined) {
  const int self = joined.processes[static_cast<std::size_t>(joined.membership->rank().value)];
  return static_cast<std::size_t>(std::count(joined.processes.begin(), joined.processes.end(), self));
}

/// Every rank has a device, so somebody may miss what is not offered: told once a communicator.
Status log_refusal(const DeviceRequest& request, Rank rank, const Status& why) {
  if (rank == Rank{0})
    log(LogLevel::kInfo, request.source, "no links between the devices of the ranks: {}", why.text());
  return why;
}
}  // namespace

Status DeviceSide::open(const DeviceRequest& request, const JoinResult& joined, Executor& host,
                        std::unique_ptr<DeviceSide>* made) {
  std::unique_ptr<DeviceSide> side(new DeviceSide(request, *joined.membership, host));
  side->streams_ = Hub::shared<StreamLedger>(joined.membership->comm_id(),
                                             [&] { return std::make_shared<StreamLedger>(ranks_here(joined)); });
  HostExchange ranks(host, *joined.membership, request.deadline);
  side->why_not_ = side->set_up(joined, ranks);
  TUTTI_TRY(ranks.failure());
  if (!side->why_not_.ok()) {  // for all ranks: no link keeps memory
    side->executor_ = nullptr;
    side->fabric_ = nullptr;
  }
  *made = std::move(side);
  return {};
}

// A dead rank's process maps nothing any more: nobody need wait for it.
DeviceSide::~DeviceSide() {
  if (fabric_ == nullptr) return;
  for (Rank peer{0}; peer.value < membership_.ranks(); ++peer)
    if (membership_.life(peer) == Life::kDead) fabric_->forget(peer);
}

Status DeviceSide::set_up(const JoinResult& joined, HostExchange& ranks) {
  DeviceParty party;
  TUTTI_TRY(find_party(joined, &party));
  spans_processes_ = !party.one_process();
  if (spans_processes_) TUTTI_TRY(check_host(joined));
  TUTTI_TRY(connect(joined, party, request_.multicast, ranks));
  const Status multicast = check_multicast(ranks);
  if (!multicast.ok()) {
    if (request_.multicast == MulticastMode::kMapped) return multicast;
    // Links that were waited for in vain are of no more use: all ranks make them anew when none has the old ones.
    executor_ = nullptr;
    fabric_ = nullptr;
    TUTTI_TRY(DeviceSeat::agree({}, ranks));
    TUTTI_TRY(connect(joined, party, MulticastMode::kOff, ranks));
  }
  plans_ = std::make_unique<PlanCache>(device_choice(request_, executor_->capabilities(), membership_.ranks()),
                                       membership_.rank(), request_.algorithm, request_.tile, request_.source);
  return {};
}

Status DeviceSide::connect(const JoinResult& joined, const DeviceParty& party, MulticastMode multicast,
                           HostExchange& ranks) {
  const Rank rank = membership_.rank();
  const auto budget = Hub::shared<DeviceBudget>(kOneForAll, [] { return std::make_shared<DeviceBudget>(); });
  fabric_ = Hub::shared<DeviceFabric>(membership_.comm_id(), [&] { return make_fabric(driver(), budget, joined); });
  auto seat = std::make_unique<DeviceSeat>(fabric_, driver(), request_.device, rank, party);
  const Status seated = seat->open(kDeviceSlot, multicast, ranks);
  if (!seated.ok()) return log_refusal(request_, rank, seated);
  if (rank == Rank{0} && !seat->why_no_mirror().ok())
    log(LogLevel::kInfo, request_.source, "no NVLink multicast: {}", seat->why_no_mirror().text());
  executor_ = std::make_unique<DeviceExecutor>(std::move(seat), host_);
  TUTTI_TRY(DeviceSeat::agree(executor_->open(), ranks));
  const ProbedLinks links{find_algorithm(Collective::kAllToAll, "all_pairs"), "the links between devices"};
  const Status probed = DeviceSeat::agree(probe_links(*executor_, links, rank, membership_.ranks(), ranks), ranks);
  return probed.ok() ? probed : log_refusal(request_, rank, probed);
}

Status DeviceSide::check_multicast(HostExchange& ranks) {
  if (!executor_->has_mirror()) return {};
  const Rank rank = membership_.rank();
  const ProbedLinks links{find_algorithm(Collective::kAllGather, "all_pairs"), "multicast between devices"};
  const Status probed = DeviceSeat::agree(probe_links(*executor_, links, rank, membership_.ranks(), ranks), ranks);
  if (!probed.ok() && ranks.failure().ok() && rank == Rank{0})
    log(LogLevel::kWarn, request_.source, "messages to all do without NVLink multicast: {}", probed.text());
  return probed;
}

// Also where the ranks' devices are reached by kernels: calls whose operation is a function of the caller's.
Status DeviceSide::open_staging(int device) {
  if (staged_ != nullptr) return {};
  if (request_.forced) return fail(Code::kUnsupported, "TUTTI_TRANSPORT=cuda forbids to go through host memory");
  if (device < 0) device = std::max(request_.device, 0);
  auto staged = std::make_unique<StagedExecutor>(driver(), device, host_);
  TUTTI_TRY(staged->open());
  staged_ = std::move(staged);
  opened_.store(staged_.get(), std::memory_order_release);
  if (executor_ == nullptr)
    log(LogLevel::kInfo, request_.source, "device buffers go through host memory: {}", why_not_.text());
  return {};
}

Status DeviceSide::check_place(const char* buffer, int rank, DeviceDriver::Place place) const {
  if (!place.on_device || place.device < 0 || place.device == executor_->device()) return {};
  return fail(Code::kInvalidArgument, "{} of rank {} is memory of device {}, the rank uses device {}", buffer, rank,
              place.device, executor_->device());
}

namespace {
bool moves(const CallArguments& a, const BlockTable* blocks) {
  if (blocks == nullptr) return a.count != 0;
  return std::any_of(blocks->counts, blocks->counts + blocks->size, [](std::size_t count) { return count != 0; });
}
// What is not read or written may be anything.
bool sends_memory(const CallArguments& a, int rank) {
  return a.send != nullptr && reads_send(a, rank) && moves(a, a.blocks == nullptr ? nullptr : &a.blocks->send);
}
bool receives_memory(const CallArguments& a, int rank) {
  return a.recv != nullptr && writes_recv(a, rank) && moves(a, a.blocks == nullptr ? nullptr : &a.blocks->recv);
}
}  // namespace

bool DeviceSide::has_memory(const CallArguments& a, int rank) {
  return a.collective != Collective::kBarrier && (sends_memory(a, rank) || receives_memory(a, rank));
}

Status DeviceSide::locate(CallArguments* a, int rank) {
  const bool sends = sends_memory(*a, rank);
  const bool receives = receives_memory(*a, rank);
  if (!sends && !receives) return {};
  DeviceDriver::Place from = sends ? place_of(a->send) : DeviceDriver::Place{};
  DeviceDriver::Place to = receives ? place_of(a->recv) : DeviceDriver::Place{};
  if (sends && receives && from.on_device != to.on_device) {  // beside host memory
    if (from.on_host) from = DeviceDriver::Place{};
    if (to.on_host) to = DeviceDriver::Place{};
  }
  if (sends && receives && from.on_device != to.on_device)
    return fail(Code::kInvalidArgument, "{}: of rank {} sendbuff is {} memory and recvbuff {} memory",
                name_of(a->collective), rank, from.on_device ? "device" : "host", to.on_device ? "device" : "host");
  const bool device = from.on_device || to.on_device;
  a->on_device = a->staged = false;
  if (!device) return check_scalar(*a);
  const Status offer = executor_ == nullptr ? why_not_ : check_offer(*a);
  if (!offer.ok()) {
    if (request_.forced)
      return fail(Code::kUnsupported, "{}: rank {} has device buffers: {}", name_of(a->collective), rank, offer.text());
    TUTTI_TRY(check_scalar(*a));
    a->staged = true;
    return open_staging(std::max(from.device, to.device));
  }
  if (sends) TUTTI_TRY(check_place("sendbuff", rank, from));
  if (receives) TUTTI_TRY(check_place("recvbuff", rank, to));
  a->on_device = true;
  return {};
}

Status DeviceSide::follow_default_stream(const CallArguments& a, std::uint64_t number) {
  StreamPlace place;
  place.device = a.staged ? staged_->device() : executor_->device();
  place.handle = driver().default_stream();
  place.is_default = true;
  place.is_apart = false;
  return streams_->follow(membership_.rank(), place, number);
}

DeviceDriver::Place DeviceSide::place_of(const void* memory) {
  DeviceDriver* const driver = device_driver_in_use();
  return driver == nullptr ? DeviceDriver::Place{} : driver->place_of(memory);
}

bool DeviceSide::is_on_host(const CallArguments& a) const {
  if (device_driver_in_use() == nullptr) return true;
  if (executor_ != nullptr && !executor_->reported_by_graphs().ok()) return false;
  return !is_device_memory(a.send) && (a.recv == a.send || !is_device_memory(a.recv));
}

// What a pointer is can change between two calls, but not that of memory that is still the library's own.
bool DeviceSide::is_device_memory(const void* buffer) {
  return buffer != nullptr && !host_allocations().contains(buffer, 1) && place_of(buffer).on_device;
}

Status DeviceSide::check_offer(const CallArguments& a) const {
  if (a.user != nullptr && a.user->function != nullptr)
    return fail(Code::kUnsupported, "{}: operations made by the user are not offered on device buffers",
                name_of(a.collective));
  return {};
}

Status DeviceSide::check_scalar(const CallArguments& a) const {
  if (a.user == nullptr || a.user->scalar_place == nullptr || !place_of(a.user->scalar_place).on_device) return {};
  return fail(Code::kInvalidArgument, "{}: the operation's scalar is device memory, and the call is not run by kernels",
              name_of(a.collective));
}

void DeviceSide::bind_scalar(const UserOperation& operation, Launch* launch) const {
  launch->op = RedOp::kSum;
  launch->scalar = operation.scalar_now();
  launch->scalar_on_device = operation.scalar_place != nullptr && place_of(operation.scalar_place).on_device;
}

Status DeviceSide::locate(const Transfer& transfer) {
  if (transfer.count.value == 0) return {};
  const DeviceDriver::Place place = place_of(transfer.data);
  if (!place.on_device) return {};
  if (request_.forced && place.on_host) return {};
  if (request_.forced) return fail(Code::kUnsupported, "sends and receives of device buffers go through host memory");
  return open_staging(place.device);
}

bool DeviceSide::any_on_device(std::span<const Transfer> transfers) const {
  return staged() != nullptr && std::any_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) {
           return transfer.count.value != 0 && place_of(transfer.data).on_device;
         });
}

}  // namespace tutti
