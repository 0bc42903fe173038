#include "process_group.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/ScopeExit.h>

#include "host_bridge.h"
#include "joint_work.h"

namespace tutti_torch {
ProcessGroupTutti::ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     const c10::intrusive_ptr<Options>& options)
    : c10d::Backend(rank, size),
      store_(store),
      options_(c10::make_intrusive<Options>(*options)),
      handle_(make_handle(rank)),
      hooks_(std::make_shared<AbortHooks>()),
      why_none_("the process group has no members before its first reconfigure()") {
  bool joins = true;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  joins = !options->enable_reconfigure;
#endif
  if (joins) connections_ = std::make_shared<Connections>(join(*store, join_request()), rank, size, hooks_);
  init();
}

ProcessGroupTutti::~ProcessGroupTutti() = default;

JoinRequest ProcessGroupTutti::join_request() const {
  JoinRequest request;
  request.rank = rank_;
  request.size = size_;
  request.timeout = request.join_timeout = options_->timeout;
  request.name = options_->label;
  request.wire_type = options_->wire_type;
  request.deterministic = options_->deterministic;
  request.may_meet_gloo = options_->stands_for == "gloo";
  return request;
}

std::shared_ptr<Connections> ProcessGroupTutti::connections_or_none() {
  const std::lock_guard<std::mutex> lock(connections_mutex_);
  return connections_;
}

std::shared_ptr<Connections> ProcessGroupTutti::connections() {
  const std::lock_guard<std::mutex> lock(connections_mutex_);
  if (!connections_) C10_THROW_ERROR(DistBackendError, std::string("tutti: ") + why_none_);
  return connections_;
}

void ProcessGroupTutti::abort() {
  const std::shared_ptr<Connections> here = connections_or_none();
  if (!here) return;
  hooks_->run();
  here->abort("the process group was aborted");
}

void ProcessGroupTutti::shutdown() {
  constexpr const char* kReason = "the process group was shut down";
  const std::shared_ptr<Connections> here = connections_or_none();
  if (here) here->shutdown(kReason, options_->timeout);
  const std::lock_guard<std::mutex> lock(connections_mutex_);
  connections_.reset();
  why_none_ = kReason;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
ProcessGroupTutti::WorkResult ProcessGroupTutti::reconfigure(const c10d::ReconfigureOptions& options) {
  const Attempt attempt = make_attempt(options.uuid, options.handles, handle_);
  JoinRequest request = join_request();
  request.join_timeout = options.timeout.value_or(options_->timeout);
  if (request.join_timeout.count() <= 0) C10_THROW_ERROR(ValueError, "tutti: reconfigure: a timeout is above 0");
  bool has_changed = false;
  hooks_->begin_change();
  const auto ended = c10::make_scope_exit([&] { hooks_->end_change(has_changed); });
  const Joined joined = carry_out(attempt, store_, request);
  const int size = static_cast<int>(attempt.members.size());
  auto made = std::make_shared<Connections>(joined, attempt.rank, size, hooks_);
  {
    const std::lock_guard<std::mutex> lock(connections_mutex_);
    made.swap(connections_);  // now they are the old ones
  }
  if (made) made->replace("the process group was reconfigured", attempt.includes(members_));
  has_changed = true;
  members_ = attempt.members;
  rank_ = attempt.rank;
  size_ = size;
  sequence_ = 0;
  return join_works(rank_, {});  // over
}
#endif

#ifdef C10D_BACKEND_HAS_HOOKS
/// Returns the options of a group that a split or merge makes from this one.
c10::intrusive_ptr<ProcessGroupTutti::Options> ProcessGroupTutti::options_for(
    const c10::intrusive_ptr<c10d::Backend::Options>& asked) const {
  const auto* const own = dynamic_cast<const Options*>(asked.get());
  auto options = c10::make_intrusive<Options>(own != nullptr ? *own : *options_);
  if (asked) options->timeout = asked->timeout;
  if (asked && !asked->group_name.empty()) options->label = asked->group_name;
  options->stands_for = options_->stands_for;
  options->enable_reconfigure = false;
  return options;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                           const std::vector<int>& ranks,
                                                           const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  return c10::make_intrusive<ProcessGroupTutti>(store->clone(), static_cast<int>(place - ranks.begin()),
                                                static_cast<int>(ranks.size()), options_for(options));
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                           const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                                           const int& rank, const int& size) {
  return c10::make_intrusive<ProcessGroupTutti>(store->clone(), rank, size, options_for(options));
}
#endif

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupTutti::getBackendOptions() { return options_; }
void ProcessGroupTutti::setTimeout(std::chrono::milliseconds timeout) { options_->timeout = timeout; }

void ProcessGroupTutti::waitForPendingWorks() {
  const std::shared_ptr<Connections> here = connections();
  here->lane->drain(options_->timeout);
  for (const auto& comm : here->devices->all()) comm->drain();
}

bool ProcessGroupTutti::supportsAbortHooks() const { return true; }

#if TUTTI_TORCH >= 208
c10d::ErrorType ProcessGroupTutti::getError() {
  const std::shared_ptr<Connections> here = connections_or_none();
  switch (here ? here->error() : tuttiAborted) {
    case tuttiSuccess:
      return c10d::ErrorType::SUCCESS;
    case tuttiTimeout:
      return c10d::ErrorType::TIMEOUT;
    case tuttiRemoteError:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}
#endif

std::string ProcessGroupTutti::info(const std::string& key) {
  char value[256] = {};
  const auto ask = [&](tuttiComm_t comm) { return tuttiCommGetInfo(comm, key.c_str(), value, sizeof value); };
  const std::shared_ptr<Connections> here = connections();
  here->lane->drain(options_->timeout);
  const auto devices = here->devices->all();
  const bool of_device = key.rfind("device_", 0) == 0 && !devices.empty();
  (of_device ? devices.front()->endpoint() : *here->collectives).run("info", ask);
  return value;
}

std::chrono::milliseconds ProcessGroupTutti::limit(std::chrono::milliseconds asked) const {
  return asked == c10d::kUnsetTimeout ? options_->timeout : asked;
}

const at::Tensor& ProcessGroupTutti::only(const Tensors& tensors, const char* operation) const {
  if (tensors.size() != 1)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": takes one tensor, not ", tensors.size()));
  return tensors.front();
}

void ProcessGroupTutti::check_list(const Tensors& list, const char* operation) const {
  if (list.size() != static_cast<std::size_t>(size_)) {
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": a list of ", list.size(), " tensors in a group of ",
                                         size_, " ranks"));
  }
}

void ProcessGroupTutti::check_root(std::int64_t root, const char* operation) const {
  if (root < 0 || root >= size_)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": rank ", root, " in a group of ", size_, " ranks"));
}

WorkPointer ProcessGroupTutti::make_work(const Launch& launch, Tensors inputs, Tensors outputs,
                                         std::shared_ptr<Carrier> carrier) {
  TuttiWork::Description description;
  description.rank = rank_;
  description.type = launch.type;
  description.title = options_->stands_for + std::strchr(launch.title, ':');  // by this name programs know the group
  description.inputs = std::move(inputs);
  description.outputs = std::move(outputs);
  description.timeout = limit(launch.timeout);
  description.sequence = c10d::isP2POp(launch.type) ? 0 : ++sequence_;
  return c10::make_intrusive<TuttiWork>(std::move(description), std::move(carrier));
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::track(const WorkPointer& work) {
  const std::lock_guard<std::mutex> lock(coalescing_mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::launch(const Launch& launch, Tensors inputs, Tensors outputs,
                                                        std::function<void(Endpoint&)> body) {
  const std::shared_ptr<Connections> here = connections();
  const WorkPointer work = make_work(launch, std::move(inputs), std::move(outputs), here->lane);
  work->body = [endpoint = here->collectives, hooks = hooks_, body = std::move(body), timeout = work->timeout()] {
    const at::AutoDispatchBelowADInplaceOrView below;  // tensors are memory here: no gradients, no versions
    hooks->watch(*endpoint, [&] {
      endpoint->set_timeout(timeout);
      body(*endpoint);
    });
  };
  here->lane->submit(work, launch.blocking && !coalescing_);
  return track(work);
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::launch(const Launch& kind, std::vector<Operand> operands, Call call) {
  for (std::size_t i = 0; i < operands.size(); ++i) {  // counts are compared in elements, so these must be alike
    const Operand& first = operands[kind.pairs ? i / 2 * 2 : 0];
    if (first.size() == 0 || operands[i].size() == 0 || first.dtype() == operands[i].dtype()) continue;
    C10_THROW_ERROR(ValueError, c10::str(kind.title, ": tensors of ", first.dtype(), " and of ", operands[i].dtype(),
                                         " in one call"));
  }
  Tensors inputs;
  Tensors outputs;
  for (const Operand& operand : operands) {
    Tensors& list = operand.written() ? outputs : inputs;
    list.insert(list.end(), operand.parts().begin(), operand.parts().end());
    if (operand.read() && operand.written())
      inputs.insert(inputs.end(), operand.parts().begin(), operand.parts().end());
  }
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  const c10::Device device = device_of(kind.title, all);
  if (!device.is_cpu() && why_no_streams().empty())
    return put_on_stream(kind, device, std::move(inputs), std::move(outputs), std::move(operands), std::move(call));
  auto body = [order = DeviceOrder({device}), device, operands = std::move(operands),
               call = std::move(call)](Endpoint& endpoint) mutable {
    order.enter();
    const SideStreamScope side(device);
    for (Operand& operand : operands) operand.open();
    side.drain();
    call(endpoint, operands);
    for (Operand& operand : operands) operand.close();
    side.drain();  // a work that is over has its results where they belong
  };
  return launch(kind, std::move(inputs), std::move(outputs), std::move(body));
}

// The call takes its place among those that the lane carries out; then it is on a stream, and nobody waits for it.
ProcessGroupTutti::WorkResult ProcessGroupTutti::put_on_stream(const Launch& kind, const c10::Device& device,
                                                               Tensors inputs, Tensors outputs,
                                                               std::vector<Operand> operands, Call call) {
  const std::shared_ptr<Connections> here = connections();
  Tensors kept = inputs;
  kept.insert(kept.end(), outputs.begin(), outputs.end());
  const WorkPointer work = make_work(kind, std::move(inputs), std::move(outputs), here->lane);
  const DeviceComm::Place place{current_stream(device), /*aside=*/!kind.blocking || coalescing_};
  work->body = [work = work.get(), devices = here->devices, hooks = hooks_, place, device, kept = std::move(kept),
                operands = std::move(operands), call = std::move(call)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::shared_ptr<DeviceComm> comm;
    hooks->watch(devices->collectives(), [&] { comm = devices->of(device, work->timeout()); });
    hooks->watch(comm->endpoint(), [&] {
      comm->endpoint().set_timeout(work->timeout());
      // A hook may be Python's and may take long: it is neither run nor freed on a thread of Tutti's.
      const auto failed = [group = std::weak_ptr<AbortHooks>(hooks), comm] {
        std::thread([group, comm] {
          if (const auto hooks = group.lock()) hooks->run_for_failure(comm->endpoint());
        }).detach();
      };
      work->add_ends({comm->run(place, operands, call, std::move(kept), failed)});
    });
  };
  here->lane->submit(work, /*blocking=*/true);
  return track(work);
}

void ProcessGroupTutti::eagerConnectSingleDevice(at::Device device) {
  if (device.is_cpu() || !reaches(device.type()) || !why_no_streams().empty()) return;
  const std::shared_ptr<Connections> here = connections();
  const Launch kind{c10d::OpType::UNKNOWN, "tutti:connect", c10d::kUnsetTimeout, true};
  const auto join = [devices = here->devices, device, timeout = options_->timeout](Endpoint&) {
    static_cast<void>(devices->of(device, timeout));
  };
  launch(kind, {}, {}, join)->wait();
}

void ProcessGroupTutti::startCoalescing() {
  const std::lock_guard<std::mutex> lock(coalescing_mutex_);
  coalescing_ = true;
}

// One work that is over when all since startCoalescing are. It helps them along in their order.
ProcessGroupTutti::WorkResult ProcessGroupTutti::endCoalescing() {
  std::vector<WorkPointer> works;
  {
    const std::lock_guard<std::mutex> lock(coalescing_mutex_);
    coalescing_ = false;
    works.swap(coalesced_);
  }
  return join_works(rank_, std::move(works));
}

}  // namespace tutti_torch
