#include "comm/call_group.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace tutti {

thread_local int CallGroup::depth_ = 0;

CallGroup& CallGroup::current() {
  static thread_local CallGroup group;
  return group;
}

namespace {
/// Packing pays while a call costs more than copying its data twice.
constexpr Bytes kPackedPart{32 * 1024};
constexpr Bytes kPacked{256 * 1024};
/// With more ranks an average of float8 could lose a single objection (QueuedCall).
constexpr int kPackedRanks = 64;
}  // namespace

void CallGroup::add(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream) {
  calls_.push_back(Collected{std::move(comm), std::move(call), std::move(stream), {}, {}});
}

void CallGroup::add(std::shared_ptr<Communicator> parent, std::function<Status()> blocking) {
  calls_.push_back(Collected{std::move(parent), QueuedCall(), nullptr, std::move(blocking), {}});
}

void CallGroup::refuse(const Status& status) {
  if (refused_.ok()) refused_ = status;
}

Status CallGroup::end() {
  if (depth_ == 0) return fail(Code::kInvalidUsage, "tuttiGroupEnd without tuttiGroupStart");
  if (--depth_ != 0) return {};
  CallGroup collected = std::exchange(current(), CallGroup{});
  return collected.run();
}

Status CallGroup::run() {
  TUTTI_TRY(refused_);
  merge_transfers();
  pack_reductions();
  const bool blocks =
      std::any_of(calls_.begin(), calls_.end(), [](const Collected& call) { return bool{call.blocking}; });
  if (!blocks) return run_together();
  run_on_threads();
  for (const Collected& call : calls_) TUTTI_TRY(call.status);
  return {};
}

// All sends and receives of a communicator proceed together, whatever their order, and before its collectives: ranks
// that send and receive different things between equal collectives then agree on the order of what they have in common.
// Where they were on several streams, the others wait for the one that has them all.
void CallGroup::merge_transfers() {
  std::vector<Collected> merged;
  std::vector<Collected> others;
  std::map<Communicator*, std::size_t> batches;
  for (Collected& call : calls_) {
    if (call.blocking || call.call.collective()) {
      others.push_back(std::move(call));
      continue;
    }
    const auto [place, is_new] = batches.emplace(call.comm.get(), merged.size());
    if (is_new) {
      merged.push_back(std::move(call));
      continue;
    }
    for (const Transfer& transfer : call.call.transfers()) merged[place->second].call.add(transfer);
    if (merged[place->second].stream != call.stream)
      merged.push_back(Collected{std::move(call.comm), QueuedCall(), std::move(call.stream), {}, {}});
  }
  for (Collected& call : others) merged.push_back(std::move(call));
  calls_ = std::move(merged);
}

// Small all-reduces that follow each other become one. Every rank decides alike: by what the calls have in common. Only
// where an element's operands are added at once in rank order does packing leave the bits of the results as they are.
void CallGroup::pack_reductions() {
  std::vector<Collected> packed;
  for (Collected& call : calls_) {
    const bool small = !call.blocking && call.call.collective() && call.call.bytes() <= kPackedPart;
    Collected* const before = packed.empty() ? nullptr : &packed.back();
    const bool follows = small && before != nullptr && !before->blocking && before->comm == call.comm &&
                         before->stream == call.stream && before->call.combines_with(call.call) &&
                         before->call.bytes() + call.call.bytes() <= kPacked;
    const auto in_rank_order = [&](const QueuedCall& one) {
      return call.comm->ranks() <= kPackedRanks && call.comm->adds_in_rank_order(one.bytes());
    };
    if (follows && in_rank_order(call.call) && in_rank_order(before->call)) {
      before->call.combine(std::move(call.call));
    } else {
      packed.push_back(std::move(call));
    }
  }
  calls_ = std::move(packed);
}

Status CallGroup::run_together() {
  std::vector<std::unique_ptr<Operation>> operations;
  for (Collected& call : calls_) {
    auto operation = std::make_unique<Operation>(std::move(call.comm), std::move(call.call));
    if (call.stream != nullptr) {
      call.stream->enqueue(std::move(operation));
    } else {
      operations.push_back(std::move(operation));
    }
  }
  return run_all(operations);
}

void CallGroup::run_on_threads() {
  std::map<Communicator*, std::vector<Collected*>> by_communicator;
  std::vector<std::thread> threads;
  for (Collected& call : calls_) {
    if (call.comm != nullptr) {
      by_communicator[call.comm.get()].push_back(&call);
    } else {
      threads.emplace_back([&call] { call.status = run_one(&call); });
    }
  }
  for (const auto& entry : by_communicator) {
    threads.emplace_back([&calls = entry.second] {
      for (Collected* call : calls) call->status = run_one(call);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Status CallGroup::run_one(Collected* call) {
  if (call->blocking) return call->blocking();
  auto operation = std::make_unique<Operation>(call->comm, std::move(call->call));
  if (call->stream == nullptr) return run_all({&operation, 1});
  call->stream->enqueue(std::move(operation));
  return {};
}

}  // namespace tutti
