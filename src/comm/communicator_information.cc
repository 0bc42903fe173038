#include "comm/communicator_information.h"

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "collectives/choice/catalogue.h"

namespace tutti {

const char* transport_of(const Communicator& comm) {
  if (comm.settings().transport == TransportKind::kInproc) return "inproc";
  if (!comm.machine().network) return "shm";
  return comm.peers().far_count() == comm.ranks() - 1 ? "tcp" : "shm and tcp";
}

Status members_of(const Communicator& comm, std::string* text) {
  if (comm.members().empty()) return fail(Code::kInvalidUsage, "this communicator was not made by a shrink");
  text->clear();
  for (const Rank rank : comm.members()) *text += (text->empty() ? "" : " ") + std::to_string(rank.value);
  return {};
}

Status device_transport_of(Communicator& comm, std::string* text) {
  DeviceSide* const side = comm.device_calls().side();
  if (side == nullptr) return fail(Code::kUnsupported, "this process has no CUDA device");
  const char* const within = side->has_two_levels() ? "cuda within hosts, " : "";
  *text = side->executor() != nullptr ? "cuda" : fmt::format("{}staged over {}", within, transport_of(comm));
  return {};
}

Status algorithm_for(Communicator& comm, Collective collective, Bytes bytes, bool on_device, std::string* text) {
  if (on_device) TUTTI_TRY(device_transport_of(comm, text));
  TUTTI_TRY(comm.call_driver().wait_until_quiet());  // the running operation uses the plans
  DeviceSide* const side = comm.device_calls().side();
  PlanCache& plans = on_device && side->executor() != nullptr ? side->plans() : comm.call_driver().binder().plans();
  if (on_device) *text = side->describe_levels(collective, bytes);
  if (on_device && !text->empty()) return {};
  const Plan plan = plans.find(collective, bytes, is_rooted(collective) ? 0 : -1);
  *text = plan.schedule->algorithm->name;
  return {};
}

std::string algorithms_of(Communicator& comm, Collective collective) {
  std::string text;
  const PlanCache& plans = comm.call_driver().binder().plans();
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.collective == scheduled_as(collective) && plans.offers(collective, algorithm.name))
      text += (text.empty() ? "" : ",") + std::string(algorithm.name);
  return text;
}

std::uint64_t shared_bytes_of(const Communicator& comm) {
  const Segment* const own = comm.segment();
  if (own == nullptr) return 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(div_up(own->size().value, page));
  if (mincore(own->data(), own->size().value, resident.data()) != 0) return own->size().value;
  std::uint64_t pages = own->front() == own->data() ? 0 : 1;
  for (const unsigned char flags : resident) pages += flags & 1;
  return pages * page;
}

Status host_bytes_of(Communicator& comm, std::uint64_t* bytes) {
  CallDriver& driver = comm.call_driver();
  TUTTI_TRY(driver.wait_until_quiet());
  const DeviceSide* const side = comm.device_calls().side();
  const std::size_t staged = side == nullptr ? 0 : side->staging_memory().value;
  *bytes = driver.memory_bytes() + staged;
  return {};
}

Status device_bytes_of(Communicator& comm, std::uint64_t* bytes) {
  TUTTI_TRY(comm.call_driver().wait_until_quiet());
  const DeviceSide* const side = comm.device_calls().side();
  *bytes = side == nullptr ? 0 : side->device_memory().value;
  return {};
}

}  // namespace tutti
