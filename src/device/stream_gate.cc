#include "device/stream_gate.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/mutex.h"
#include "device/device_word.h"
#include "device/quiet_moment.h"

namespace tutti {

namespace {
/// A stream whose word was stored looks at it soon, unless work of the caller's stands before its wait.
constexpr std::chrono::milliseconds kLookTimeout{50};
constexpr std::chrono::microseconds kOrderNap{100};

using Looks = std::vector<std::unique_ptr<StreamPoint>>;

/// Forgets the waits that streams have passed, and those on a device that failed, where no stream looks any more.
bool all_passed(Looks* looks) {
  std::erase_if(*looks, [](const std::unique_ptr<StreamPoint>& point) {
    bool passed = false;
    return !point->query(&passed).ok() || passed;
  });
  return looks->empty();
}

/// Words whose communicator is gone, though a stream has not come to its wait on them yet.
class LateWords {
 public:
  void add(DeviceDriver& driver, void* words, Looks looks) {
    const MutexLock lock(mutex_);
    items_.push_back(Item{&driver, words, std::move(looks)});
  }
  void sweep() {
    const QuietMoment now;
    if (!now.is_quiet()) return;
    const MutexLock lock(mutex_);
    std::erase_if(items_, [](Item& item) {
      const bool free = all_passed(&item.looks);
      if (free) (void)item.driver->release_pinned(item.words);
      return free;
    });
  }

 private:
  struct Item {
    DeviceDriver* driver;
    void* words;
    Looks looks;
  };
  Mutex mutex_;
  std::vector<Item> items_ TUTTI_GUARDED_BY(mutex_);
};

LateWords& late_words() {
  static LateWords* const all = new LateWords;  // never destroyed: the process's end frees what is in it
  return *all;
}
}  // namespace

GateWords::~GateWords() {
  if (words_ == nullptr) return;
  const auto end = Clock::now() + kLookTimeout;
  while (!all_passed(&looks_) && Clock::now() < end) std::this_thread::sleep_for(kOrderNap);
  late_words().add(driver_, words_, std::move(looks_));
  late_words().sweep();
}

Status GateWords::open() {
  late_words().sweep();
  void* memory = nullptr;
  TUTTI_TRY(driver_.allocate_pinned(Bytes{kWords * sizeof(std::uint64_t)}, &memory));
  words_ = static_cast<std::uint64_t*>(memory);
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < kWords; ++i) free_.push_back(i);
  return {};
}

std::size_t GateWords::take() {
  MutexLock lock(mutex_);
  while (free_.empty()) given_back_.wait(lock);
  const std::size_t index = free_.back();
  free_.pop_back();
  return index;
}

void GateWords::give_back(std::size_t index, std::unique_ptr<StreamPoint> after) {
  const MutexLock lock(mutex_);
  if (after != nullptr) looks_.push_back(std::move(after));
  (void)all_passed(&looks_);
  free_.push_back(index);
  given_back_.notify_one();
}

StreamGate::StreamGate(std::shared_ptr<GateWords> words, DeviceDriver& driver, std::size_t index)
    : words_(std::move(words)),
      driver_(driver),
      index_(index),
      word_(words_->words_ + index),
      value_(load_relaxed(word_) + 1) {}

Status StreamGate::hold(std::shared_ptr<GateWords> words, DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                        std::shared_ptr<StreamGate>* gate) {
  const std::size_t index = words->take();
  std::shared_ptr<StreamGate> made(new StreamGate(std::move(words), driver, index));
  TUTTI_TRY(made->before_.record(driver, device, stream));
  TUTTI_TRY(driver.wait_for_word(device, stream, made->word_, made->value_));
  made->after_ = std::make_unique<StreamPoint>();
  TUTTI_TRY(made->after_->record(driver, device, stream));
  *gate = std::move(made);
  return {};
}

// The word is still lower only if the call failed: one that ended well waited until its stream had written the word.
StreamGate::~StreamGate() {
  if (load_relaxed(word_) < value_) store_release(word_, value_, true);
  words_->give_back(index_, std::move(after_));
}

Status StreamGate::release(int device, DeviceDriver::Stream stream) {
  return driver_.write_word(device, stream, word_, value_);
}

}  // namespace tutti
