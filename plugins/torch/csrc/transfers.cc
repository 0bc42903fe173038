// Sends, receives, barriers; sums of sparse tensors.
#include "calls.h"
#include "host_bridge.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace tutti_torch {
namespace {

/// One list of `count` numbers of each rank.
at::Tensor gather_numbers(Endpoint& endpoint, const std::vector<std::int64_t>& mine, int ranks) {
  const at::Tensor all = at::empty({ranks, static_cast<std::int64_t>(mine.size())}, at::kLong);
  endpoint.run("all_reduce of a sparse tensor", [&](tuttiComm_t comm) {
    return tuttiAllGather(mine.data(), all.mutable_data_ptr(), mine.size(), tuttiInt64, comm, nullptr);
  });
  return all;
}

/// The ranks' blocks of rows, one after the other; rank i has rows[i] of them.
at::Tensor gather_rows(Endpoint& endpoint, const at::Tensor& mine, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes[0] = 0;
  for (const std::int64_t count : rows) sizes[0] += count;
  const at::Tensor all = at::empty(sizes, mine.options());
  const Element element = moved(mine.scalar_type());
  std::int64_t row = 1;
  for (std::size_t i = 1; i < sizes.size(); ++i) row *= sizes[i];
  const Blocks blocks(rows, static_cast<std::size_t>(row) * element.per, 0, 0);
  endpoint.run("all_reduce of a sparse tensor", [&](tuttiComm_t comm) {
    return tuttiAllGatherV(mine.const_data_ptr(), all.mutable_data_ptr(), mine.numel() * element.per,
                           blocks.counts.data(), blocks.starts.data(), element.type, comm, nullptr);
  });
  return all;
}

}  // namespace

// The entries of all ranks as one uncoalesced tensor; coalescing adds them.
ProcessGroupTutti::WorkResult ProcessGroupTutti::allreduce_sparse(Tensors& tensors,
                                                                  const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only(tensors, "all_reduce");
  if (!tensor.is_sparse() || !tensor.is_cpu() || options.reduceOp.op_ != c10d::ReduceOp::SUM)
    C10_THROW_ERROR(ValueError, "tutti: all_reduce: of sparse tensors there are sums of COO tensors in host memory");
  const Launch kind{OpType::_ALLREDUCE_SPARSE, "tutti:sparse_all_reduce", options.timeout, TUTTI_BLOCKING(options)};
  return launch(kind, {tensor}, {tensor}, [tensor, ranks = size_](Endpoint& endpoint) {
    const at::Tensor mine = tensor.coalesce();
    const at::Tensor indices = mine._indices().t().contiguous();
    const at::Tensor values = mine._values().contiguous();
    std::vector<std::int64_t> shape = tensor.sizes().vec();
    shape.push_back(tensor.sparse_dim());
    const at::Tensor shapes = gather_numbers(endpoint, shape, ranks);
    if (!at::equal(shapes, shapes[0].expand_as(shapes)))
      C10_THROW_ERROR(ValueError, "tutti: all_reduce: the ranks' sparse tensors have different shapes");
    const at::Tensor counts = gather_numbers(endpoint, {values.size(0)}, ranks);
    const std::vector<std::int64_t> rows(counts.const_data_ptr<std::int64_t>(),
                                         counts.const_data_ptr<std::int64_t>() + ranks);
    const at::Tensor all_indices = gather_rows(endpoint, indices, rows);
    const at::Tensor all_values = gather_rows(endpoint, values, rows);
    tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce());
  });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  check_root(peer, "send");
  const Launch kind{OpType::SEND, "tutti:send", c10d::kUnsetTimeout, false};
  const c10::Device device = device_of(kind.title, tensors);
  const std::shared_ptr<Connections> here = connections();
  const WorkPointer work = make_work(kind, {tensor}, {}, here->sends);
  work->body = [post = here->post, hooks = hooks_, operand = Operand(tensor, Use::kRead), order = DeviceOrder({device}),
                device, peer, tag, timeout = work->timeout()]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below;
    order.enter();
    const SideStreamScope side(device);
    operand.open();
    side.drain();
    hooks->watch(post->sender(), [&] { post->send(operand.data(), operand.bytes(), peer, tag, timeout); });
  };
  here->sends->submit(work, false);
  return track(work);
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::recv(Tensors& tensors, int peer, int tag) {
  check_root(peer, "recv");
  return receive(tensors, peer, tag);
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, kAnySource, tag);
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::receive(Tensors& tensors, int peer_or_any, int tag) {
  const at::Tensor& tensor = only(tensors, "recv");
  const bool any = peer_or_any == kAnySource;
  const Launch kind{any ? OpType::RECVANYSOURCE : OpType::RECV, any ? "tutti:recvAnySource" : "tutti:recv",
                    c10d::kUnsetTimeout, false};
  const c10::Device device = device_of(kind.title, tensors);
  const std::shared_ptr<PostOffice> post = connections()->post;
  const WorkPointer work = make_work(kind, {tensor}, {tensor}, post);  // a profile names its shape
  work->callbacks_aside = true;  // they may wait for what the thread has yet to take
  auto operand = std::make_shared<Operand>(tensor, Use::kWrite);
  operand->open();
  work->body = [operand, order = DeviceOrder({device}), device] {
    const at::AutoDispatchBelowADInplaceOrView below;
    order.enter();
    const SideStreamScope side(device);
    operand->close();
    side.drain();
  };
  post->receive(work, operand->data(), operand->bytes(), peer_or_any, tag);
  return track(work);
}

// Also of the work that is on the current streams of the group's devices, and of its calls beside these.
ProcessGroupTutti::WorkResult ProcessGroupTutti::barrier(const c10d::BarrierOptions& options) {
  const Launch kind{OpType::BARRIER, "tutti:barrier", options.timeout, TUTTI_BLOCKING(options)};
  const std::shared_ptr<DeviceComms> devices = connections()->devices;
  std::vector<c10::Device> drained = devices->devices();
  if (reaches(c10::DeviceType::CUDA)) {
    for (const std::int64_t index : options.device_ids)
      drained.emplace_back(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
  }
  return launch(kind, {}, {}, [devices, order = DeviceOrder(drained)](Endpoint& endpoint) {
    order.wait();
    for (const auto& comm : devices->all()) comm->drain();
    endpoint.run("barrier", [](tuttiComm_t comm) { return tuttiBarrier(comm, nullptr); });
  });
}

// Through the Store: who does not come must not cost the group its communicators, and all who are late can be named.
// The sentences are those of Gloo's monitored barrier, which programs look for.
void ProcessGroupTutti::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const std::chrono::milliseconds timeout = limit(options.timeout);
  const std::shared_ptr<Connections> here = connections();
  const auto nth_key = [&](std::uint64_t n) { return c10::str("tutti/monitored/", here->token, "/", n, "/"); };
  const std::string key = nth_key(++here->monitored);
  const std::string verdict = key + "verdict";
  if (rank_ != 0) {
    store_->set(key + std::to_string(rank_), std::vector<std::uint8_t>{1});
    store_->wait({verdict}, timeout + std::chrono::seconds(5));  // rank 0 may take all of its time
    const std::vector<std::uint8_t> text = store_->get(verdict);
    if (text.size() <= 1) return;
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: Rank ", rank_,
                                               " successfully reached monitoredBarrier, but received errors while "
                                               "waiting for send/recv from rank 0: ",
                                               std::string(text.begin() + 1, text.end())));
  }
  std::string late;
  std::string text;
  if (timeout.count() <= 0) text = c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (int rank = 1; rank < size_ && text.empty() && (late.empty() || wait_all_ranks); ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    try {
      store_->wait({key + std::to_string(rank)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      late += (late.empty() ? "" : ", ") + std::to_string(rank);
    }
  }
  if (!late.empty()) {
    text = c10::str(wait_all_ranks ? "Ranks " : "Rank ", late, " failed to pass monitoredBarrier in ", timeout.count(),
                    " ms");
  }
  const std::string value = "\1" + text;
  store_->set(verdict, std::vector<std::uint8_t>(value.begin(), value.end()));
  if (!text.empty()) C10_THROW_ERROR(DistBackendError, "tutti: " + text);
  try {  // whoever is here has read the verdict before this one
    for (int rank = 1; rank < size_; ++rank) store_->deleteKey(key + std::to_string(rank));
    if (here->monitored > 1) store_->deleteKey(nth_key(here->monitored - 1) + "verdict");
  } catch (const std::exception&) {  // a store that cannot delete
  }
}

}  // namespace tutti_torch
