#include "window.h"

#ifdef C10D_BACKEND_HAS_WINDOW
#include <ATen/core/LegacyTypeDispatch.h>

#include <cstring>

#include "calls.h"

namespace tutti_torch {
namespace {

/// "put" of "tutti:put".
const char* operation_of(const char* title) { return std::strchr(title, ':') + 1; }

bool is_fit(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg();
}

/// Waits for the work and raises its error, unless the caller has asked for an asynchronous one.
c10::intrusive_ptr<c10d::Work> finish(const WorkPointer& work, bool async) {
  if (!async) work->wait();
  return work;
}

}  // namespace

TuttiWindow::TuttiWindow(c10::intrusive_ptr<ProcessGroupTutti> group, std::shared_ptr<Connections> connections)
    : group_(std::move(group)),
      connections_(std::move(connections)),
      number_(connections_->windows++),
      rank_(group_->getRank()),
      size_(group_->getSize()) {}

void TuttiWindow::check_members(const char* operation) const {
  if (group_->connections_or_none() != connections_) {
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: ", operation,
                                               ": the group of the window was shut down, or its "
                                               "members have changed"));
  }
}

void TuttiWindow::check_rank(std::int64_t rank, const char* operation) const {
  if (rank < 0 || rank >= size_)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": rank ", rank, " in a group of ", size_, " ranks"));
}

/// Raises an error if there is no registration. The caller holds the lock.
const TuttiWindow::Registration& TuttiWindow::registration(const char* operation) const {
  check_members(operation);
  if (!registration_)
    C10_THROW_ERROR(ValueError, c10::str("tutti: ", operation, ": the window has no registered tensor"));
  return *registration_;
}

/// Gathers what each rank registers. This is a collective call of the group.
std::vector<TuttiWindow::Offer> TuttiWindow::gather(const Offer& mine) {
  std::vector<Offer> all(static_cast<std::size_t>(size_));
  const ProcessGroupTutti::Launch kind{OpType::UNKNOWN, "tutti:tensor_register", c10d::kUnsetTimeout, true};
  group_
      ->launch(kind, {}, {},
               [&](Endpoint& endpoint) {
                 if (&endpoint != connections_->collectives.get()) check_members("tensor_register");
                 endpoint.run("tensor_register", [&](tuttiComm_t comm) {
                   return tuttiAllGather(&mine, all.data(), sizeof mine, tuttiUint8, comm, nullptr);
                 });
               })
      ->wait();
  return all;
}

/// Raises an error if the ranks mean different windows, or if one of them cannot register. All raise the same one.
void TuttiWindow::check_offers(const std::vector<Offer>& offers) const {
  constexpr const char* kWhere = "tutti: tensor_register: ";
  const Offer& first = offers.front();
  for (int rank = 0; rank < size_; ++rank) {
    const Offer& other = offers[static_cast<std::size_t>(rank)];
    if (other.window == first.window && other.number == first.number) continue;
    C10_THROW_ERROR(ValueError, c10::str(kWhere, "ranks make and register windows in one order, but this is number ",
                                         first.number, ", of window ", first.window, " on rank 0, and number ",
                                         other.number, ", of window ", other.window, " on rank ", rank));
  }
  for (int rank = 0; rank < size_; ++rank) {
    const std::int64_t fault = offers[static_cast<std::size_t>(rank)].fault;
    if (fault == kOccupied)
      C10_THROW_ERROR(ValueError, c10::str(kWhere, "the window of rank ", rank, " has a tensor already"));
    if (fault == kUnfit) {
      C10_THROW_ERROR(ValueError, c10::str(kWhere, "the tensor of rank ", rank,
                                           " is not a contiguous one in host memory, as a window takes it"));
    }
  }
}

// The memory is open before the others know that it is. A rank that cannot register comes, too, so that nobody waits
// for it.
void TuttiWindow::tensor_register(const at::Tensor& tensor, bool /*owning*/) {
  const std::lock_guard<std::mutex> lock(mutex_);
  check_members("tensor_register");
  const std::lock_guard<std::mutex> in_order(connections_->registers);
  Offer mine{number_, connections_->registrations++, 0, 0, registration_ ? kOccupied : is_fit(tensor) ? kNone : kUnfit};
  Registration made{kFirstWindow + 2 * mine.number, {}, {}};
  if (mine.fault == kNone) {
    mine.elements = tensor.numel();
    mine.dtype = static_cast<std::int64_t>(tensor.scalar_type());
    made.tensor = tensor.detach();
    connections_->post->open_window(made.tag,
                                    {static_cast<char*>(tensor.data_ptr()), tensor.nbytes(), tensor.storage()});
  }
  try {
    const std::vector<Offer> offers = gather(mine);
    check_offers(offers);
    for (const Offer& offer : offers)
      made.extents.push_back({offer.elements, static_cast<at::ScalarType>(offer.dtype)});
  } catch (...) {
    connections_->post->close_window(made.tag);
    throw;
  }
  registration_ = std::move(made);
}

void TuttiWindow::tensor_deregister() {
  std::optional<Registration> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    (void)registration("tensor_deregister");
    ended.swap(registration_);  // nothing more is put by this rank
  }
  try {
    pass_fences(ended->tag + 1);
  } catch (...) {
    connections_->post->close_window(ended->tag);
    throw;
  }
  connections_->post->close_window(ended->tag);
}

/// A fence arrives after all that its sender has put.
void TuttiWindow::pass_fences(Tag tag) {
  constexpr const char* kTitle = "tutti:tensor_deregister";
  std::vector<WorkPointer> works;
  for (int rank = 0; rank < size_; ++rank) works.push_back(receive_empty(rank, tag, kTitle, c10d::kUnsetTimeout));
  for (int rank = 0; rank < size_; ++rank) {
    works.push_back(submit(rank, kTitle, c10d::kUnsetTimeout, {}, [rank, tag](PostOffice& post, TuttiWork& work) {
      post.send(nullptr, 0, rank, tag, work.timeout(), operation_of(kTitle));
    }));
  }
  for (const WorkPointer& work : works) work->wait();
}

WorkPointer TuttiWindow::submit(std::int64_t rank, const char* title, std::chrono::milliseconds timeout,
                                std::vector<at::Tensor> inputs, std::function<void(PostOffice&, TuttiWork&)> body) {
  check_rank(rank, operation_of(title));
  const ProcessGroupTutti::Launch kind{OpType::SEND, title, timeout, false};
  const WorkPointer work = group_->make_work(kind, std::move(inputs), {}, connections_->sends);
  work->body = [post = connections_->post, hooks = group_->hooks_, body = std::move(body), raw = work.get()] {
    const at::AutoDispatchBelowADInplaceOrView below;
    hooks->watch(post->sender(), [&] { body(*post, *raw); });
  };
  connections_->sends->submit(work, false);
  return work;
}

WorkPointer TuttiWindow::receive_empty(std::int64_t rank, Tag tag, const char* title,
                                       std::chrono::milliseconds timeout) {
  check_rank(rank, operation_of(title));
  const ProcessGroupTutti::Launch kind{OpType::RECV, title, timeout, false};
  const WorkPointer work = group_->make_work(kind, {}, {}, connections_->post);
  work->callbacks_aside = true;  // they may wait for what the thread has yet to take
  connections_->post->receive(work, nullptr, 0, static_cast<int>(rank), tag, operation_of(title));
  return work;
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::put(const at::Tensor& tensor, std::int64_t rank, std::int64_t offset,
                                                bool async, const c10d::PutOptions& options) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Registration& here = registration("put");
  check_rank(rank, "put");
  const Registration::Extent& target = here.extents[static_cast<std::size_t>(rank)];
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided)
    C10_THROW_ERROR(ValueError, "tutti: put: takes a dense tensor in host memory");
  if (tensor.scalar_type() != target.dtype) {
    C10_THROW_ERROR(ValueError,
                    c10::str("tutti: put: a tensor of ", tensor.scalar_type(), " into a window of ", target.dtype));
  }
  if (offset < 0 || offset > target.elements || tensor.numel() > target.elements - offset) {
    C10_THROW_ERROR(ValueError, c10::str("tutti: put: ", tensor.numel(), " elements at element ", offset,
                                         " of a window of rank ", rank, " that has ", target.elements));
  }
  const auto at = static_cast<std::size_t>(offset) * tensor.element_size();
  const WorkPointer work = submit(rank, "tutti:put", options.timeout, {tensor},
                                  [operand = Operand(tensor, Use::kRead), peer = static_cast<int>(rank),
                                   window = here.tag, at](PostOffice& post, TuttiWork& own) mutable {
                                    operand.open();
                                    post.put(operand.data(), operand.bytes(), peer, window, at, own.timeout());
                                  });
  lock.unlock();
  return finish(work, async);
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::signal(std::int64_t rank, bool async, const c10d::SignalOptions& options) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Tag tag = registration("signal").tag;
  const WorkPointer work =
      submit(rank, "tutti:signal", options.timeout, {}, [rank, tag](PostOffice& post, TuttiWork& own) {
        post.send(nullptr, 0, static_cast<int>(rank), tag, own.timeout(), "signal");
      });
  lock.unlock();
  return finish(work, async);
}

c10::intrusive_ptr<c10d::Work> TuttiWindow::wait_signal(std::int64_t rank, bool async,
                                                        const c10d::WaitSignalOptions& options) {
  std::unique_lock<std::mutex> lock(mutex_);
  const WorkPointer work = receive_empty(rank, registration("wait_signal").tag, "tutti:wait_signal", options.timeout);
  lock.unlock();
  return finish(work, async);
}

at::Tensor TuttiWindow::map_remote_tensor(std::int64_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Registration& here = registration("map_remote_tensor");
  check_rank(rank, "map_remote_tensor");
  if (rank == rank_) return here.tensor;
  C10_THROW_ERROR(NotImplementedError, c10::str("tutti: map_remote_tensor: the window of rank ", rank,
                                                " is memory of another process, which is not mapped here"));
}

c10d::WindowAttr TuttiWindow::get_attr(std::int64_t rank) {
  check_rank(rank, "get_attr");
  return {c10d::WindowAccessType::UNIFIED};
}

c10::intrusive_ptr<c10d::Window> ProcessGroupTutti::new_window(const std::optional<at::Tensor>& tensor) {
  auto window = c10::make_intrusive<TuttiWindow>(
      c10::intrusive_ptr<ProcessGroupTutti>::unsafe_reclaim_from_nonowning(this), connections());
  if (tensor.has_value() && tensor->defined()) window->tensor_register(*tensor, true);
  return window;
}

}  // namespace tutti_torch
#endif
