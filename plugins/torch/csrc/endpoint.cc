#include "endpoint.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

namespace tutti_torch {
namespace {

/// Goodbyes wait for the peers, who may be busy for long: threads of their own say them.
class Goodbyes {
 public:
  static Goodbyes& all() {
    static auto* goodbyes = new Goodbyes;  // never freed: the threads may outlive main
    return *goodbyes;
  }
  std::shared_ptr<void> owe() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++open_;
    }
    return {this, [](Goodbyes* goodbyes) {
              const std::lock_guard<std::mutex> lock(goodbyes->mutex_);
              --goodbyes->open_;
              goodbyes->said_.notify_all();
            }};
  }
  /// `goodbye` is of a group that is no longer wanted: its errors concern nobody.
  template <class Goodbye>
  void say(Goodbye goodbye) {
    std::thread([goodbye = std::move(goodbye), owed = owe()] { static_cast<void>(goodbye()); }).detach();
  }
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return said_.wait_for(lock, limit, [this] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable said_;
  int open_ = 0;
};

/// The text with each "rank 5" of a communicator of 2 * group_ranks ranks as the group numbers it.
std::string in_ranks_of_group(const std::string& text, int group_ranks) {
  static const std::string kWord = "rank ";
  if (group_ranks == 0) return text;
  std::string named;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(kWord, at)) != std::string::npos;) {
    const std::size_t first = found + kWord.size();
    std::size_t end = first;
    while (end < text.size() && end < first + 9 && text[end] >= '0' && text[end] <= '9') ++end;
    named += text.substr(at, first - at);
    if (end != first) named += std::to_string(std::stoi(text.substr(first, end - first)) % group_ranks);
    at = end;
  }
  return named + text.substr(at);
}

}  // namespace

void raise(tuttiResult_t result, tuttiComm_t comm, const char* operation, int group_ranks) {
  const std::string text =
      std::string("tutti: ") + operation + (result == tuttiTimeout ? ": Timed out waiting: " : ": ") +
      in_ranks_of_group(tuttiGetLastError(comm), group_ranks) + " (" + tuttiGetErrorString(result) + ")";
  switch (result) {
    case tuttiInvalidArgument:
      C10_THROW_ERROR(ValueError, text);
    case tuttiUnsupported:
      C10_THROW_ERROR(NotImplementedError, text);
    default:
      C10_THROW_ERROR(DistBackendError, text);
  }
}

void Endpoint::refuse(const char* operation) {
  C10_THROW_ERROR(DistBackendError,
                  std::string("tutti: ") + operation + ": the process group was aborted or shut down");
}

Endpoint::~Endpoint() { leave(); }

void Endpoint::leave() {
  if (aborted_.exchange(true, std::memory_order_acq_rel)) return;
  Goodbyes::all().say([comm = comm_] { return tuttiCommDestroy(comm); });
}

void Endpoint::set_timeout(std::chrono::milliseconds timeout) {
  if (timeout == timeout_) return;
  run("timeout",
      [&](tuttiComm_t comm) { return tuttiCommSetTimeout(comm, std::chrono::duration<double>(timeout).count()); });
  timeout_ = timeout;
}

void Endpoint::abort() {
  if (!aborted_.exchange(true, std::memory_order_acq_rel)) static_cast<void>(tuttiCommAbort(comm_));
}

tuttiResult_t Endpoint::error() const {
  if (aborted()) return tuttiAborted;
  tuttiResult_t state = tuttiSuccess;
  const tuttiResult_t asked = tuttiCommGetAsyncError(comm_, &state);
  return asked != tuttiSuccess ? asked : state;
}

void say_goodbye(tuttiStream_t stream) {
  Goodbyes::all().say([stream] { return tuttiStreamDestroy(stream); });
}

std::shared_ptr<void> owe_goodbye() { return Goodbyes::all().owe(); }

bool wait_for_goodbyes(std::chrono::milliseconds limit) { return Goodbyes::all().wait(limit); }

}  // namespace tutti_torch
