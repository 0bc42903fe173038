#include "post_office.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

namespace tutti_torch {
namespace {

constexpr int kLetterTag = 0;
constexpr int kDataTag = 1;
constexpr std::size_t kInside = 224;

enum class Kind : std::int32_t { kMessage = 1, kClose = 2, kPut = 3 };

std::exception_ptr error_of(const std::string& text) {
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, "tutti: " + text));
}

/// The data is there: the body brings it to where it belongs.
void finish(const WorkPointer& work) {
  std::exception_ptr error;
  try {
    if (work->body) work->body();
  } catch (...) {
    error = std::current_exception();
  }
  work->complete(std::move(error));
}

}  // namespace

struct PostOffice::Letter {
  std::uint64_t bytes;
  Tag tag;  // of a put: the window
  std::uint64_t offset;
  Kind kind;
  std::int32_t reserved;
  char data[kInside];
};

PostOffice::PostOffice(std::shared_ptr<Endpoint> receiver, std::shared_ptr<Endpoint> sender, int rank, int size,
                       std::shared_ptr<AbortHooks> hooks)
    : receiver_(std::move(receiver)), sender_(std::move(sender)), rank_(rank), size_(size), hooks_(std::move(hooks)) {}

void PostOffice::start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (serving_ || closed_) return;
  serving_ = true;
  std::thread([self = shared_from_this()] {
    self->serve();
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->farewell_.reset();
  }).detach();
}

void PostOffice::send(const void* data, std::size_t bytes, int peer, Tag tag, std::chrono::milliseconds timeout,
                      const char* operation) {
  Letter letter{bytes, tag, 0, Kind::kMessage, 0, {}};
  post(letter, data, peer, operation, timeout);
}

void PostOffice::put(const void* data, std::size_t bytes, int peer, Tag window, std::size_t offset,
                     std::chrono::milliseconds timeout) {
  Letter letter{bytes, window, offset, Kind::kPut, 0, {}};
  post(letter, data, peer, "put", timeout);
}

void PostOffice::post(Letter& letter, const void* data, int peer, const char* operation,
                      std::chrono::milliseconds timeout) {
  start();
  sender_->set_timeout(timeout);
  const bool inside = letter.bytes <= kInside;
  if (inside && letter.bytes > 0) std::memcpy(letter.data, data, letter.bytes);
  sender_->run(operation, [&](tuttiComm_t comm) {
    return tuttiSendTag(&letter, sizeof letter, tuttiUint8, peer, kLetterTag, comm, nullptr);
  });
  if (inside) return;
  sender_->run(operation, [&](tuttiComm_t comm) {
    return tuttiSendTag(data, letter.bytes, tuttiUint8, peer, kDataTag, comm, nullptr);
  });
}

/// Returns why no messages are taken any more; null if they are. The caller holds the lock.
std::exception_ptr PostOffice::refusal(const char* operation) const {
  if (error_) return error_;
  return closed_ ? error_of(c10::str(operation, ": the process group was shut down")) : nullptr;
}

void PostOffice::open_window(Tag window, OpenMemory memory) {
  start();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const std::exception_ptr error = refusal("tensor_register")) std::rethrow_exception(error);
  windows_.emplace(window, std::move(memory));
}

void PostOffice::close_window(Tag window) {
  OpenMemory closed;  // freed without the lock
  std::vector<Open> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_of_window = [window](const auto& item) { return item.tag == window || item.tag == window + 1; };
    early_.erase(std::remove_if(early_.begin(), early_.end(), is_of_window), early_.end());
    const auto first = std::stable_partition(open_.begin(), open_.end(), std::not_fn(is_of_window));
    waiting.assign(first, open_.end());
    open_.erase(first, open_.end());
    if (const auto found = windows_.find(window); found != windows_.end()) {
      closed = std::move(found->second);
      windows_.erase(found);
    }
  }
  for (const Open& open : waiting)
    open.work->complete(error_of(c10::str(open.operation, ": the window's tensor was deregistered")));
}

void PostOffice::receive(const WorkPointer& work, void* data, std::size_t bytes, int peer_or_any, Tag tag,
                         const char* operation) {
  start();
  Open open{work, data, bytes, peer_or_any, tag, operation};
  std::unique_lock<std::mutex> lock(mutex_);
  patience_ = work->timeout();
  if (std::exception_ptr error = refusal(operation)) {
    lock.unlock();
    return work->complete(std::move(error));
  }
  for (auto early = early_.begin(); early != early_.end(); ++early) {
    if (early->tag != tag || (peer_or_any != kAnySource && early->source != peer_or_any)) continue;
    const Early taken = std::move(*early);
    early_.erase(early);
    lock.unlock();
    return hand_over(open, taken.source, taken.data.size(), taken.data.data());
  }
  open_.push_back(std::move(open));
}

void PostOffice::hand_over(const Open& open, int source, std::size_t bytes, const void* data) {
  open.work->source = source;
  if (bytes != open.bytes) {
    return open.work->complete(error_of(c10::str("recv: rank ", source, " sent ", bytes, " bytes with tag ", open.tag,
                                                 " to rank ", rank_, ", whose receive takes ", open.bytes, " bytes")));
  }
  if (bytes > 0) std::memcpy(open.data, data, bytes);
  finish(open.work);
}

bool PostOffice::find_open(int source, Tag tag, Open* open) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto candidate = open_.begin(); candidate != open_.end(); ++candidate) {
    if (candidate->tag != tag || (candidate->peer != kAnySource && candidate->peer != source)) continue;
    *open = std::move(*candidate);
    open_.erase(candidate);
    return true;
  }
  return false;
}

// All other senders wait until this message has come, so a sender that stops in the middle of one ends the group.
void PostOffice::fetch(void* data, std::size_t bytes, int source) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    fetches_from_ = source;
    receiver_->set_timeout(patience_);
  }
  receiver_->run("recv", [&](tuttiComm_t comm) {
    return tuttiRecvTag(data, bytes, tuttiUint8, size_ + source, kDataTag, nullptr, comm, nullptr);
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  fetches_from_ = kAnySource;
  receiver_->set_timeout(std::chrono::milliseconds(0));
}

bool PostOffice::is_for_closed_window(const Letter& letter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return letter.tag >= kFirstWindow && windows_.find(letter.tag & ~Tag{1}) == windows_.end();
}

// The memory is held while the data arrives. A window that is not here was closed, dropped with its group, or
// deregistered by a call that failed, and nobody reads what comes for it.
void PostOffice::take_put(const Letter& letter, int source) {
  OpenMemory memory;
  bool is_open = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = windows_.find(letter.tag);
    is_open = found != windows_.end();
    if (is_open) memory = found->second;
  }
  const bool fits = letter.offset <= memory.bytes && letter.bytes <= memory.bytes - letter.offset;
  if (is_open && !fits) {
    std::rethrow_exception(
        error_of(c10::str("put: rank ", source, " put ", letter.bytes, " bytes at byte ", letter.offset,
                          " of a window of rank ", rank_, " that has ", memory.bytes)));
  }
  std::vector<char> scratch(is_open || letter.bytes <= kInside ? 0 : letter.bytes);
  char* const target = is_open ? memory.data + letter.offset : scratch.data();
  if (letter.bytes > kInside)
    fetch(target, letter.bytes, source);
  else if (is_open && letter.bytes > 0)
    std::memcpy(target, letter.data, letter.bytes);
}

void PostOffice::take(const Letter& letter, int source) {
  Open open{};
  const bool inside = letter.bytes <= kInside;
  const bool found = find_open(source, letter.tag, &open);
  if (found && inside) return hand_over(open, source, letter.bytes, letter.data);
  try {
    if (found && open.bytes == letter.bytes) {
      fetch(open.data, letter.bytes, source);
      open.work->source = source;
      return finish(open.work);
    }
    Early early{source, letter.tag, std::vector<char>(letter.bytes)};
    if (inside)
      std::memcpy(early.data.data(), letter.data, letter.bytes);
    else
      fetch(early.data.data(), letter.bytes, source);
    if (found) return hand_over(open, source, letter.bytes, early.data.data());
    // Its receive may have come while the data did.
    std::unique_lock<std::mutex> lock(mutex_);
    for (auto late = open_.begin(); late != open_.end(); ++late) {
      if (late->tag != early.tag || (late->peer != kAnySource && late->peer != source)) continue;
      open = std::move(*late);
      open_.erase(late);
      lock.unlock();
      return hand_over(open, source, early.data.size(), early.data.data());
    }
    early_.push_back(std::move(early));
  } catch (...) {
    if (found) open.work->complete(std::current_exception());
    throw;
  }
}

void PostOffice::serve() {
  try {
    receiver_->set_timeout(std::chrono::milliseconds(0));  // nobody need ever send; receives have limits of their own
    for (;;) {
      Letter letter;
      int source = 0;
      receiver_->run("recv", [&](tuttiComm_t comm) {
        return tuttiRecvTag(&letter, sizeof letter, tuttiUint8, TUTTI_ANY_SOURCE, kLetterTag, &source, comm, nullptr);
      });
      if (letter.kind == Kind::kClose) return receiver_->leave();
      if (letter.kind == Kind::kPut)
        take_put(letter, source - size_);
      else if (!is_for_closed_window(letter))
        take(letter, source - size_);
    }
  } catch (...) {
    hooks_->run_for_failure(*sender_);
    fail(std::current_exception());
    if (receiver_->error() == tuttiSuccess) abort();  // the peers must not wait for this thread
  }
}

void PostOffice::fail(const std::exception_ptr& error) {
  std::deque<Open> open;
  std::map<Tag, OpenMemory> windows;  // freed without the lock
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = error;
    open.swap(open_);
    windows.swap(windows_);
  }
  for (const Open& receive : open) receive.work->complete(error);
}

void PostOffice::help(TuttiWork& work) {
  if (!work.wait_idle(work.timeout())) give_up(work);
  work.wait_idle(std::chrono::milliseconds(0));  // its data may be arriving
}

void PostOffice::give_up(TuttiWork& work) {
  WorkPointer mine;
  int peer = 0;
  int held_up_by = kAnySource;
  const char* operation = "recv";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto open = open_.begin(); open != open_.end(); ++open) {
      if (open->work.get() != &work) continue;
      mine = std::move(open->work);
      peer = open->peer;
      operation = open->operation;
      held_up_by = fetches_from_;
      open_.erase(open);
      break;
    }
  }
  if (!mine) return;
  const std::string from = peer == kAnySource ? std::string("any rank") : c10::str("rank ", peer);
  const std::string why =
      held_up_by == kAnySource ? "" : c10::str("; rank ", held_up_by, " has sent a part of a message and not the rest");
  mine->complete(error_of(c10::str(operation, ": rank ", rank_, " timed out: nothing came from ", from, why)));
}

void PostOffice::close(const std::string& reason, const std::shared_ptr<Lane>& sends,
                       std::chrono::milliseconds patience) {
  bool serving = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(closed_, true)) return;
    serving = serving_ && !error_ && !sender_->aborted();
    if (serving) farewell_ = owe_goodbye();
  }
  fail(error_of(reason));
  if (!serving) return;
  std::thread([self = shared_from_this(), sends, patience, farewell = owe_goodbye()] {
    if (sends->drain(patience))
      self->dismiss();
    else
      self->abort();  // nobody takes what is under way
  }).detach();
}

// The thread waits for letters: one from this process's own sender ends it.
void PostOffice::dismiss() {
  const Letter letter{0, 0, 0, Kind::kClose, 0, {}};
  try {
    sender_->run("close", [&](tuttiComm_t comm) {
      return tuttiSendTag(&letter, sizeof letter, tuttiUint8, rank_, kLetterTag, comm, nullptr);
    });
    sender_->leave();
  } catch (const c10::Error&) {
    abort();
  }
}

void PostOffice::abort() {
  sender_->abort();  // first, see serve()
  receiver_->abort();
}

}  // namespace tutti_torch
