#include "process_group.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "cuda_bridge.h"
#include "joint_work.h"

namespace tutti_torch {
namespace {

// How long an isend is left to the thread that may be about to wait for it: a wake-up costs more.
constexpr std::chrono::microseconds kPatience{50};
constexpr std::chrono::seconds kLinger{5};

}  // namespace

ProcessGroupTutti::ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     const c10::intrusive_ptr<Options>& options)
    : c10d::Backend(rank, size),
      store_(store),
      options_(c10::make_intrusive<Options>(*options)),
      lane_(std::make_shared<Lane>(std::chrono::microseconds(0))),
      sends_(std::make_shared<Lane>(kPatience)) {
  JoinRequest request;
  request.rank = rank;
  request.size = size;
  request.timeout = options->timeout;
  request.name = options->label;
  request.wire_type = options->wire_type;
  request.deterministic = options->deterministic;
  const Joined joined = join(*store, request);
  collectives_ = joined.collectives;
  token_ = joined.token;
  post_ = std::make_shared<PostOffice>(joined.receiver, joined.sender, rank, size);
  if (size > 1) post_->start();  // a peer may send before this rank thinks of it
  init();
}

// Python may drop the last reference while it holds its lock: nothing here waits.
ProcessGroupTutti::~ProcessGroupTutti() {
  const std::string reason = "the process group is gone";
  lane_->close(reason);
  sends_->close(reason);
  if (post_) post_->close(reason, sends_, kLinger);
  if (collectives_ && lane_->idle()) collectives_->leave();
}

std::pair<std::shared_ptr<Endpoint>, std::shared_ptr<PostOffice>> ProcessGroupTutti::connections() {
  const std::lock_guard<std::mutex> lock(endpoint_mutex_);
  return {collectives_, post_};
}

std::shared_ptr<Endpoint> ProcessGroupTutti::collectives() { return connections().first; }

std::shared_ptr<PostOffice> ProcessGroupTutti::post() {
  const std::shared_ptr<PostOffice> post = connections().second;
  if (!post) C10_THROW_ERROR(DistBackendError, "tutti: the process group was shut down");
  return post;
}

void ProcessGroupTutti::abort() {
  const std::string reason = "the process group was aborted";
  lane_->close(reason);
  sends_->close(reason);
  const auto [endpoint, post] = connections();
  if (!endpoint) return;  // shut down
  endpoint->abort();
  post->abort();
}

void ProcessGroupTutti::shutdown() {
  const std::string reason = "the process group was shut down";
  const auto [endpoint, post] = connections();
  if (!endpoint) return;
  if (!endpoint->aborted()) {
    lane_->drain(options_->timeout);
    if (!sends_->drain(kLinger)) post->abort();  // nobody takes them
  }
  lane_->close(reason);
  sends_->close(reason);
  post->close(reason, sends_, kLinger);
  if (lane_->idle()) endpoint->leave();
  const std::lock_guard<std::mutex> lock(endpoint_mutex_);
  collectives_.reset();  // works under way hold their own
  post_.reset();
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupTutti::getBackendOptions() { return options_; }
void ProcessGroupTutti::setTimeout(std::chrono::milliseconds timeout) { options_->timeout = timeout; }
void ProcessGroupTutti::waitForPendingWorks() { lane_->drain(options_->timeout); }

#if TUTTI_TORCH >= 208
c10d::ErrorType ProcessGroupTutti::getError() {
  const std::shared_ptr<Endpoint> endpoint = collectives();
  switch (endpoint ? endpoint->error() : tuttiAborted) {
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
  const std::shared_ptr<Endpoint> endpoint = collectives();
  TORCH_CHECK(endpoint, "tutti: info: the process group was shut down");
  lane_->drain(options_->timeout);
  endpoint->run("info", ask);
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
  description.title = launch.title;
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
  const std::shared_ptr<Endpoint> endpoint = collectives();
  if (!endpoint) C10_THROW_ERROR(DistBackendError, "tutti: the process group was shut down");
  const WorkPointer work = make_work(launch, std::move(inputs), std::move(outputs), lane_);
  work->body = [endpoint, body = std::move(body), timeout = work->timeout()] {
    const at::AutoDispatchBelowADInplaceOrView below;  // tensors are memory here: no gradients, no versions
    endpoint->set_timeout(timeout);
    body(*endpoint);
  };
  lane_->submit(work, launch.blocking && !coalescing_);
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
  DeviceOrder order(all);
  auto body = [order = std::move(order), all = std::move(all), operands = std::move(operands),
               call = std::move(call)](Endpoint& endpoint) mutable {
    order.enter();
    const StreamScope scope(all);
    for (Operand& operand : operands) operand.open();
    drain_side_streams(all);
    call(endpoint, operands);
    for (Operand& operand : operands) operand.close();
    drain_side_streams(all);  // a work that is over has its results where they belong
  };
  return launch(kind, std::move(inputs), std::move(outputs), std::move(body));
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
