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
}  // namespace

std::unique_ptr<DeviceSide> DeviceSide::open(const DeviceRequest& request, const JoinResult& joined, Executor& host) {
  std::unique_ptr<DeviceSide> side(new DeviceSide(*request.driver));
  side->why_not_ = side->set_up(request, joined, host);
  if (!side->why_not_.ok()) side->executor_ = nullptr;
  return side;
}

Status DeviceSide::set_up(const DeviceRequest& request, const JoinResult& joined, Executor& host) {
  if (!joined.one_process)
    return fail(Code::kUnsupported, "device buffers are offered where all ranks live in one process");
  const Rank rank = joined.membership->rank();
  const int ranks = joined.membership->ranks();
  auto fabric = Hub::shared<DeviceFabric>(joined.membership->comm_id(),
                                          [ranks] { return std::make_shared<DeviceFabric>(ranks); });
  auto seat = std::make_unique<DeviceSeat>(std::move(fabric), driver_, request.device, rank, ranks);
  TUTTI_TRY(seat->open(kDeviceSlot, request.deadline));
  DeviceSeat& place = *seat;
  executor_ = std::make_unique<DeviceExecutor>(std::move(seat), host);
  TUTTI_TRY(place.agree(executor_->open(), request.deadline));
  const Algorithm& all_to_all = *find_algorithm(Collective::kAllToAll, "all_pairs");
  TUTTI_TRY(place.agree(probe_links(*executor_, all_to_all, rank, ranks), request.deadline));
  plans_ = std::make_unique<PlanCache>(device_choice(request, executor_->capabilities(), ranks), rank,
                                       request.algorithm, request.tile, request.source);
  return {};
}

Status DeviceSide::check_place(const char* buffer, int rank, DeviceDriver::Place place) const {
  if (!place.on_device || place.device < 0 || place.device == executor_->device()) return {};
  return fail(Code::kInvalidArgument, "{} of rank {} is memory of device {}, the rank uses device {}", buffer, rank,
              place.device, executor_->device());
}

Status DeviceSide::locate(CallArguments* a, int rank, int ranks) const {
  const bool empty = a->blocks == nullptr ? a->count == 0 : a->send == nullptr && a->recv == nullptr;
  const bool sends = !empty && a->send != nullptr && reads_send(*a, rank);
  const bool receives = !empty && a->recv != nullptr && writes_recv(*a, rank);
  if (!sends && !receives) return {};
  const DeviceDriver::Place from = sends ? driver_.place_of(a->send) : DeviceDriver::Place{};
  const DeviceDriver::Place to = receives ? driver_.place_of(a->recv) : DeviceDriver::Place{};
  if (sends && receives && from.on_device != to.on_device)
    return fail(Code::kInvalidArgument, "{}: of rank {} sendbuff is {} memory and recvbuff {} memory",
                name_of(a->collective), rank, from.on_device ? "device" : "host", to.on_device ? "device" : "host");
  a->on_device = from.on_device || to.on_device;
  if (!a->on_device) return {};
  if (executor_ == nullptr)
    return fail(Code::kUnsupported, "{}: rank {} has device buffers: {}", name_of(a->collective), rank,
                why_not_.text());
  if (sends) TUTTI_TRY(check_place("sendbuff", rank, from));
  if (receives) TUTTI_TRY(check_place("recvbuff", rank, to));
  return ranks == 0 ? Status{} : check_offer(*a);
}

Status DeviceSide::check_offer(const CallArguments& a) const {
  if (a.user != nullptr)
    return fail(Code::kUnsupported, "{}: operations made by the user are not offered on device buffers",
                name_of(a.collective));
  if (a.wire >= 0)
    return fail(Code::kUnsupported, "{}: a wire type is not offered on device buffers", name_of(a.collective));
  return {};
}

Status DeviceSide::refuse(const Transfer& transfer) const {
  if (transfer.count.value == 0 || !driver_.place_of(transfer.data).on_device) return {};
  return fail(Code::kUnsupported, "sends and receives are not offered on device buffers");
}

MemoryRanges& device_allocations() {
  static MemoryRanges book;
  return book;
}

Status allocate_on_device(Bytes bytes, int device, void** memory) {
  DeviceDriver* const driver = device_driver();
  const int devices = driver == nullptr ? 0 : driver->devices();
  if (devices == 0) return fail(Code::kUnsupported, "this process has no device");
  if (device < 0 || device >= devices)
    return fail(Code::kInvalidArgument, "device {} is none of 0 to {}", device, devices - 1);
  TUTTI_TRY(driver->allocate(device, Bytes{std::max<std::size_t>(bytes.value, 1)}, memory));
  device_allocations().add(*memory, std::max<std::size_t>(bytes.value, 1));
  return {};
}

bool is_from_device(const void* memory) { return memory != nullptr && device_allocations().contains(memory, 1); }

Status free_on_device(void* memory) {
  DeviceDriver* const driver = device_driver();
  const int device = driver->place_of(memory).device;
  if (device_allocations().remove_at(memory) == 0)
    return fail(Code::kInvalidArgument, "this is not the begin of memory that tuttiMemAllocDevice gave");
  return driver->release(device, memory);
}

}  // namespace tutti
