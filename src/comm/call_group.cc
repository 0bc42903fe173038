#include "comm/call_group.h"

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
  calls_.push_back(Collected{std::move(comm), arguments, std::move(stream)});
}

void CallGroup::add(std::function<Status()> blocking) { blocking_.push_back(std::move(blocking)); }

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
  TUTTI_TRY(run_blocking());
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

Status CallGroup::run_blocking() {
  std::vector<Status> results(blocking_.size());
  std::vector<std::thread> threads;
  threads.reserve(blocking_.size());
  for (std::size_t i = 0; i < blocking_.size(); ++i)
    threads.emplace_back([this, &results, i] { results[i] = blocking_[i](); });
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) TUTTI_TRY(result);
  return {};
}

}  // namespace tutti
