#include "window.h"

#ifdef C10D_BACKEND_HAS_WINDOW
#include <ATen/core/LegacyTypeDispatch.h>

#include "calls.h"

namespace tutti_torch {
namespace {

constexpr Tag kFirstTag = Tag{1} << 32;

/// What has not been asked for is waited for here, so that its error is raised.
c10::intrusive_ptr<c10d::Work> finish(const WorkPointer& work, bool async) {
  if (!async) work->wait();
  return work;
}

}  // namespace

TuttiWindow::TuttiWindow(c10::intrusive_ptr<ProcessGroupTutti> group, std::shared_ptr<Connections> connections,
                         std::int64_t number)
    : group_(std::move(group)), connections_(std::move(connections)), tag_(kFirstTag + 2 * number) {}

// The memory of an owning window stays until the group ends, since others may still put into it.
TuttiWindow::~TuttiWindow() {
  if (is_registered_ && !is_owning_) connections_->post->close_window(tag_);
}

void TuttiWindow::check_registered(const char* operation) const {
  if (!is_registered_)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": the window has no registered tensor"));
}

void TuttiWindow::tensor_register(const at::Tensor& tensor, bool owning) {
  if (is_registered_) C10_THROW_ERROR(ValueError, "tutti: tensor_register: the window has a tensor already");
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided || !tensor.is_contiguous())
    C10_THROW_ERROR(ValueError, "tutti: tensor_register: takes a contiguous tensor in host memory");
  OpenMemory memory{static_cast<char*>(tensor.data_ptr()), tensor.nbytes(), nullptr};
  if (owning) memory.owner = std::make_shared<at::Tensor>(tensor);
  connections_->post->open_window(tag_, std::move(memory));
  const std::int64_t mine[2] = {tensor.numel(), static_cast<std::int64_t>(tensor.scalar_type())};
  const at::Tensor all = at::empty({group_->getSize(), 2}, at::kLong);
  const ProcessGroupTutti::Launch kind{OpType::UNKNOWN, "tutti:tensor_register", c10d::kUnsetTimeout, true};
  group_
      ->launch(kind, {}, {},
               [&](Endpoint& endpoint) {
                 endpoint.run("tensor_register", [&](tuttiComm_t comm) {
                   return tuttiAllGather(mine, all.mutable_data_ptr(), 2, tuttiInt64, comm, nullptr);
                 });
               })
      ->wait();
  const auto numbers = all.accessor<std::int64_t, 2>();
  extents_.clear();
  for (int rank = 0; rank < group_->getSize(); ++rank) extents_.push_back({numbers[rank][0], numbers[rank][1]});
  if (owning) tensor_ = tensor;
  is_owning_ = owning;
  is_registered_ = true;
}

// A fence arrives after all that its sender has put.
void TuttiWindow::tensor_deregister() {
  check_registered("tensor_deregister");
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int rank = 0; rank < group_->getSize(); ++rank)
    works.push_back(receive_empty(rank, tag_ + 1, c10d::kUnsetTimeout));
  for (int rank = 0; rank < group_->getSize(); ++rank)
    works.push_back(send_empty(rank, true, tag_ + 1, "tutti:tensor_deregister", c10d::kUnsetTimeout));
  for (const auto& work : works) work->wait();
  connections_->post->close_window(tag_);
  is_registered_ = false;
  tensor_.reset();
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::put(const at::Tensor& tensor, std::int64_t rank, std::int64_t offset,
                                                bool async, const c10d::PutOptions& options) {
  check_registered("put");
  group_->check_root(rank, "put");
  const Extent& target = extents_[static_cast<std::size_t>(rank)];
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided)
    C10_THROW_ERROR(ValueError, "tutti: put: takes a dense tensor in host memory");
  if (static_cast<std::int64_t>(tensor.scalar_type()) != target.dtype) {
    C10_THROW_ERROR(ValueError, c10::str("tutti: put: a tensor of ", tensor.scalar_type(), " into a window of ",
                                         static_cast<at::ScalarType>(target.dtype)));
  }
  if (offset < 0 || offset > target.elements || tensor.numel() > target.elements - offset) {
    C10_THROW_ERROR(ValueError, c10::str("tutti: put: ", tensor.numel(), " elements at element ", offset,
                                         " of a window of rank ", rank, " that has ", target.elements));
  }
  const ProcessGroupTutti::Launch kind{OpType::SEND, "tutti:put", options.timeout, !async};
  const WorkPointer work = group_->make_work(kind, {tensor}, {}, connections_->sends);
  work->body = [post = connections_->post, hooks = group_->hooks_, operand = Operand(tensor, Use::kRead),
                peer = static_cast<int>(rank), window = tag_,
                at = static_cast<std::size_t>(offset) * tensor.element_size(), timeout = work->timeout()]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    operand.open();
    hooks->watch(post->sender(), [&] { post->put(operand.data(), operand.bytes(), peer, window, at, timeout); });
  };
  connections_->sends->submit(work, !async);
  return finish(work, async);
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::send_empty(std::int64_t rank, bool async, Tag tag, const char* operation,
                                                       std::chrono::milliseconds timeout) {
  const ProcessGroupTutti::Launch kind{OpType::SEND, operation, timeout, !async};
  const WorkPointer work = group_->make_work(kind, {}, {}, connections_->sends);
  work->body = [post = connections_->post, hooks = group_->hooks_, peer = static_cast<int>(rank), tag,
                timeout = work->timeout()] {
    hooks->watch(post->sender(), [&] { post->send(nullptr, 0, peer, tag, timeout); });
  };
  connections_->sends->submit(work, !async);
  return finish(work, async);
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::receive_empty(std::int64_t rank, Tag tag,
                                                          std::chrono::milliseconds timeout) {
  const ProcessGroupTutti::Launch kind{OpType::RECV, "tutti:wait_signal", timeout, false};
  const WorkPointer work = group_->make_work(kind, {}, {}, connections_->post);
  work->callbacks_aside = true;  // they may wait for what the thread has yet to take
  connections_->post->receive(work, nullptr, 0, static_cast<int>(rank), tag);
  return work;
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::signal(std::int64_t rank, bool async, const c10d::SignalOptions& options) {
  check_registered("signal");
  group_->check_root(rank, "signal");
  return send_empty(rank, async, tag_, "tutti:signal", options.timeout);
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::wait_signal(std::int64_t rank, bool async,
                                                        const c10d::WaitSignalOptions& options) {
  check_registered("wait_signal");
  group_->check_root(rank, "wait_signal");
  const auto work = receive_empty(rank, tag_, options.timeout);
  if (!async) work->wait();
  return work;
}

at::Tensor TuttiWindow::map_remote_tensor(std::int64_t rank) {
  check_registered("map_remote_tensor");
  group_->check_root(rank, "map_remote_tensor");
  if (rank == group_->getRank() && tensor_.defined()) return tensor_;
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("tutti: map_remote_tensor: the window of rank ", rank,
                           rank == group_->getRank() ? " was registered without its tensor"
                                                     : " is memory of another process, which is not mapped here"));
}

c10d::WindowAttr TuttiWindow::get_attr(std::int64_t rank) {
  group_->check_root(rank, "get_attr");
  return {c10d::WindowAccessType::UNIFIED};
}

c10::intrusive_ptr<c10d::Window> ProcessGroupTutti::new_window(const std::optional<at::Tensor>& tensor) {
  const std::shared_ptr<Connections> here = connections();
  auto window = c10::make_intrusive<TuttiWindow>(
      c10::intrusive_ptr<ProcessGroupTutti>::unsafe_reclaim_from_nonowning(this), here, here->windows++);
  if (tensor.has_value() && tensor->defined()) window->tensor_register(*tensor, true);
  return window;
}

}  // namespace tutti_torch
#endif
