#include "comm/device/device_side.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "comm/membership/hub.h"

namespace tutti {

namespace {
std::shared_ptr<const AutomaticChoice> device_choice(const Machine& host, const Capabilities& links) {
  Machine machine;  // it has no costs and places, so thresholds decide
  machine.ranks = host.ranks;
  machine.max_message = links.max_message;
  machine.credits = links.credits;
  machine.deterministic = host.deterministic;
  machine.on_device = true;
  return std::make_shared<const AutomaticChoice>(machine);
}

/// How many of the communicator's ranks are in this process.
std::size_t ranks_here(const JoinResult& joined) {
  const int self = joined.processes[static_cast<std::size_t>(joined.membership->rank().value)];
  return static_cast<std::size_t>(std::count(joined.processes.begin(), joined.processes.end(), self));
}
}  // namespace

Status DeviceSide::open(const DeviceRequest& request, const JoinResult& joined, Executor& host,
                        std::unique_ptr<DeviceSide>* made) {
  std::unique_ptr<DeviceSide> side(new DeviceSide(request, *joined.membership, host));
  side->deadlock_check_ = Hub::shared<StreamDeadlockCheck>(
      joined.membership->comm_id(), [&] { return std::make_shared<StreamDeadlockCheck>(ranks_here(joined)); });
  HostExchange ranks(host, *joined.membership, request.deadline);
  std::vector<int> all(static_cast<std::size_t>(joined.membership->ranks()));
  std::iota(all.begin(), all.end(), 0);
  side->group_ = std::make_unique<DeviceGroup>(side->request_, joined, std::move(all), host);
  side->why_not_ = side->group_->open(joined, ranks, ranks);
  TUTTI_TRY(ranks.failure());
  if (side->why_not_.ok()) {
    side->plans_ =
        std::make_unique<PlanCache>(device_choice(request.machine, side->group_->executor().capabilities()),
                                    joined.membership->rank(), request.algorithm, request.tile, request.source);
  } else {
    side->group_ = nullptr;
    TUTTI_TRY(side->open_levels(joined, ranks));
  }
  TUTTI_TRY(side->open_early(joined, ranks));
  *made = std::move(side);
  return {};
}

// Staging memory is made by the first call that needs it. But among ranks of one process that call could wait for a
// kernel which waits for the calling rank, so these make it now, and none begins a call before all have it. If there is
// no memory, the call tries again, and says so.
Status DeviceSide::open_early(const JoinResult& joined, HostExchange& ranks) {
  const std::set<int> processes(joined.processes.begin(), joined.processes.end());
  if (request_.forced || processes.size() == joined.processes.size()) return {};
  if (request_.device >= 0 && staged_ == nullptr && ranks_here(joined) > 1) (void)make_staging(-1);
  (void)ranks.agree({});
  return ranks.failure();
}

// The ranks decide from what all of them know, and from what those of each host found.
Status DeviceSide::open_levels(const JoinResult& joined, HostExchange& ranks) {
  const Machine& machine = request_.machine;
  const bool named = !request_.algorithm.empty() && request_.algorithm != "auto";
  bool all_have = true;
  for (Rank rank{0}; rank.value < membership_.ranks(); ++rank) all_have = all_have && !membership_.device(rank).empty();
  if (request_.forced || named || !request_.two_levels_from || machine.deterministic || !all_have ||
      machine.hosts.empty())
    return {};
  auto levels = std::make_unique<TwoLevelPlans>(machine, membership_.rank(), request_.tile);
  const HostMap& map = levels->hosts();
  if (!TwoLevelPlans::fits(map)) return {};
  const std::vector<int> members = ranks_of_host(map, levels->host());
  GroupExchange among(ranks, members);
  host_group_ = std::make_unique<DeviceGroup>(request_, joined, members, host_);
  Status agreed = host_group_->open(joined, among, ranks);
  if (agreed.ok()) agreed = open_stage(among);
  // The ranks of a host have the same result, so those with the same index on each host agree for all.
  GroupExchange hosts(ranks, ranks_with_index(map, levels->index()));
  agreed = hosts.agree(agreed);
  TUTTI_TRY(ranks.failure());
  if (agreed.ok()) {
    levels_ = std::move(levels);
    return {};
  }
  if (membership_.rank() == Rank{0})
    log(LogLevel::kInfo, request_.source, "no kernels within hosts: {}", agreed.text());
  opened_.store(nullptr, std::memory_order_release);
  staged_ = nullptr;
  stage_ = nullptr;
  host_group_ = nullptr;
  return {};
}

// It allocates what calls need before any kernel waits for another one, because allocations may wait for kernels.
Status DeviceSide::open_stage(RankExchange& host) {
  stage_ = std::make_unique<TwoLevelStage>(host_group_->executor());
  Status opened = stage_->open();
  if (opened.ok()) opened = make_staging(-1);
  return host.agree(opened);
}

void DeviceSide::stop_kernels() {
  if (group_ != nullptr) group_->executor().stop();
  if (host_group_ != nullptr) host_group_->executor().stop();
}

Bytes DeviceSide::device_memory() const {
  std::size_t bytes = group_ == nullptr ? 0 : group_->executor().device_memory().value;
  if (host_group_ != nullptr) bytes += host_group_->executor().device_memory().value + stage_->memory().value;
  return Bytes{bytes};
}

// It may also be needed if kernels connect all ranks, for calls whose operation is a function of the caller's.
Status DeviceSide::open_staging(int device) {
  if (staged_ != nullptr) return {};
  if (request_.forced) return fail(Code::kUnsupported, "TUTTI_TRANSPORT=cuda forbids to go through host memory");
  TUTTI_TRY(make_staging(device));
  if (group_ == nullptr)
    log(LogLevel::kInfo, request_.source, "device buffers go through host memory: {}", why_not_.text());
  return {};
}

// A stream that is made now could share a hardware queue with the stream of another rank, whose kernel waits for this
// rank's. So if there are kernels, the copies go on their stream.
Status DeviceSide::make_staging(int device) {
  if (device < 0) device = std::max(request_.device, 0);
  DeviceExecutor* const kernels = stage_ != nullptr ? &stage_->kernels() : executor();
  const bool same = kernels != nullptr && kernels->device() == device;
  auto staged = std::make_unique<StagedExecutor>(driver(), device, host_);
  TUTTI_TRY(staged->open(same ? kernels->stream() : nullptr));
  staged_ = std::move(staged);
  opened_.store(staged_.get(), std::memory_order_release);
  return {};
}

Status DeviceSide::check_place(const char* buffer, int rank, DeviceDriver::Place place) const {
  if (!place.on_device || place.device < 0 || place.device == device_of_calls()) return {};
  return fail(Code::kInvalidArgument, "{} of rank {} is memory of device {}, the rank uses device {}", buffer, rank,
              place.device, device_of_calls());
}

namespace {
bool moves(const CallArguments& a, const BlockTable* blocks) {
  if (blocks == nullptr) return a.count != 0;
  return std::any_of(blocks->counts, blocks->counts + blocks->size, [](std::size_t count) { return count != 0; });
}
// A buffer that the call does not read or write may be anything.
bool sends_memory(const CallArguments& a, int rank) {
  return a.send != nullptr && reads_send(a, rank) && moves(a, a.blocks == nullptr ? nullptr : &a.blocks->send);
}
bool receives_memory(const CallArguments& a, int rank) {
  return a.recv != nullptr && writes_recv(a, rank) && moves(a, a.blocks == nullptr ? nullptr : &a.blocks->recv);
}
}  // namespace

Status DeviceSide::check_places(const CallArguments& a, int rank, DeviceDriver::Place from,
                                DeviceDriver::Place to) const {
  if (sends_memory(a, rank)) TUTTI_TRY(check_place("sendbuff", rank, from));
  return receives_memory(a, rank) ? check_place("recvbuff", rank, to) : Status{};
}

bool DeviceSide::has_memory(const CallArguments& a, int rank) {
  return a.collective != Collective::kBarrier && (sends_memory(a, rank) || receives_memory(a, rank));
}

Status DeviceSide::locate(CallArguments* a, int rank) {
  const bool sends = sends_memory(*a, rank);
  const bool receives = receives_memory(*a, rank);
  if (!sends && !receives) return {};
  DeviceDriver::Place from, to;
  DeviceRange send, recv;
  if (sends) from = place_of(a->send, &send);
  if (receives && sends && a->recv == a->send) {
    to = from;
    recv = send;
  } else if (receives) {
    to = place_of(a->recv, &recv);
  }
  // Managed memory counts as host memory if the other buffer is host memory.
  if (sends && receives && from.on_device != to.on_device) {
    if (from.on_host) from = DeviceDriver::Place{};
    if (to.on_host) to = DeviceDriver::Place{};
  }
  if (sends && receives && from.on_device != to.on_device)
    return fail(Code::kInvalidArgument, "{}: of rank {} sendbuff is {} memory and recvbuff {} memory",
                name_of(a->collective), rank, from.on_device ? "device" : "host", to.on_device ? "device" : "host");
  const bool device = from.on_device || to.on_device;
  a->on_device = a->staged = a->two_levels = false;
  if (!device) return check_scalar(*a);
  const Status offer = group_ == nullptr ? why_not_ : check_offer(*a);
  if (!offer.ok()) {
    if (request_.forced)
      return fail(Code::kUnsupported, "{}: rank {} has device buffers: {}", name_of(a->collective), rank, offer.text());
    TUTTI_TRY(check_scalar(*a));
    a->staged = true;
    a->two_levels = runs_levels(*a);
    if (a->two_levels) TUTTI_TRY(check_places(*a, rank, from, to));
    return open_staging(std::max(from.device, to.device));
  }
  TUTTI_TRY(check_places(*a, rank, from, to));
  a->on_device = true;
  a->send_memory = send;
  a->recv_memory = recv;
  return {};
}

// All ranks decide alike, because they decide by the call.
bool DeviceSide::runs_levels(const CallArguments& a) const {
  if (!has_two_levels() || a.user != nullptr || a.blocks != nullptr || a.wire >= 0) return false;
  return moves_enough(a.collective, Bytes{a.count * size_of(static_cast<DataType>(a.type)).value});
}

bool DeviceSide::moves_enough(Collective collective, Bytes block) const {
  TwoLevelForm form;
  if (!two_level_form(collective, &form)) return false;
  return block.value * static_cast<std::size_t>(form.by_blocks ? membership_.ranks() : 1) >=
         request_.two_levels_from->value;
}

void DeviceSide::bind_levels(const CallArguments& a, StagedBuffers* buffers) {
  const std::size_t element = size_of(static_cast<DataType>(a.type)).value;
  TwoLevelForm form;
  (void)two_level_form(a.collective, &form);
  const HostMap& hosts = levels_->hosts();
  const std::size_t block = TwoLevelStage::block_between(hosts, form.by_blocks, a.count, element);
  const TwoLevelPlan plan = levels_->find(a.collective, Bytes{block * element}, a.root);
  buffers->stage = stage_.get();
  buffers->levels = TwoLevelCall{plan.first,
                                 plan.between,
                                 plan.last,
                                 Elems{plan.tile.value / element},
                                 form.by_blocks,
                                 hosts,
                                 membership_.rank().value};
}

std::string DeviceSide::describe_levels(Collective collective, Bytes block) const {
  if (!has_two_levels() || !moves_enough(collective, block)) return {};
  TwoLevelForm form;
  (void)two_level_form(collective, &form);
  const std::size_t between = TwoLevelStage::block_between(levels_->hosts(), form.by_blocks, block.value, 1);
  return fmt::format("two_levels: {}", levels_->name_between(collective, Bytes{between}));
}

Status DeviceSide::follow_default_stream(const CallArguments& a, std::uint64_t number) {
  StreamKey place;
  place.device = a.staged ? staged_->device() : group_->executor().device();
  place.handle = driver().default_stream();
  place.is_default = true;
  place.is_apart = false;
  return deadlock_check_->follow(membership_.rank(), place, number);
}

DeviceDriver::Place DeviceSide::place_of(const void* memory) {
  DeviceDriver* const driver = device_driver_in_use();
  return driver == nullptr ? DeviceDriver::Place{} : driver->place_of(memory);
}

bool DeviceSide::is_on_host(const CallArguments& a) const {
  if (device_driver_in_use() == nullptr) return true;
  if (group_ != nullptr && !group_->executor().reported_by_graphs().ok()) return false;
  return !is_device_memory(a.send) && (a.recv == a.send || !is_device_memory(a.recv));
}

DeviceDriver::Place DeviceSide::place_of(const void* memory, DeviceRange* whole) {
  DeviceDriver* const driver = device_driver_in_use();
  return driver == nullptr ? DeviceDriver::Place{} : driver->place_of(memory, whole);
}

// The kind of memory that a pointer points to can change between two calls, but not if the memory is the library's own.
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
