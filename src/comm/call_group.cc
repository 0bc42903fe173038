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

void CallGroup::add(std::shared_ptr<Communicator> comm, const CallArguments& arguments,
                    std::shared_ptr<Stream> stream) {
  calls_.push_back(Collected{std::move(comm), arguments, std::move(stream), {}, {}});
}

void CallGroup::add(std::shared_ptr<Communicator> parent, std::function<Status()> blocking) {
  calls_.push_back(Collected{std::move(parent), {}, nullptr, std::move(blocking), {}});
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
  const bool blocks =
      std::any_of(calls_.begin(), calls_.end(), [](const Collected& call) { return bool{call.blocking}; });
  if (!blocks) return run_together();
  run_on_threads();
  for (const Collected& call : calls_) TUTTI_TRY(call.status);
  return {};
}

Status CallGroup::run_together() {
  std::vector<std::unique_ptr<Operation>> operations;
  for (Collected& call : calls_) {
    auto operation = std::make_unique<Operation>(std::move(call.comm), call.arguments);
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
  if (call->stream == nullptr) return call->comm->run(call->arguments);
  call->stream->enqueue(std::make_unique<Operation>(call->comm, call->arguments));
  return {};
}

}  // namespace tutti
