#include "executor/stream_order.h"

#include "core/device_word.h"

namespace tutti {

OrderWords::~OrderWords() {
  if (words_ != nullptr) (void)driver_.release_shared(words_);
}

Status OrderWords::open() {
  void* memory = nullptr;
  TUTTI_TRY(driver_.allocate_shared(Bytes{kWords * sizeof(std::uint64_t)}, &memory));
  words_ = static_cast<std::uint64_t*>(memory);
  for (std::size_t i = 0; i < kWords; ++i) free_.push_back(i);
  return {};
}

std::size_t OrderWords::take() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return !free_.empty(); });
  const std::size_t index = free_.back();
  free_.pop_back();
  return index;
}

void OrderWords::give_back(std::size_t index) {
  const std::lock_guard lock(mutex_);
  free_.push_back(index);
  given_back_.notify_one();
}

StreamOrder::StreamOrder(std::shared_ptr<OrderWords> words, DeviceDriver& driver, int device, std::size_t index)
    : words_(std::move(words)),
      driver_(driver),
      device_(device),
      index_(index),
      word_(words_->words_ + index),
      value_(load_relaxed(word_) + 1) {}

Status StreamOrder::hold(std::shared_ptr<OrderWords> words, DeviceDriver& driver, int device,
                         DeviceDriver::Stream stream, std::shared_ptr<StreamOrder>* order) {
  const std::size_t index = words->take();
  std::shared_ptr<StreamOrder> made(new StreamOrder(std::move(words), driver, device, index));
  TUTTI_TRY(made->before_.record(driver, device, stream));
  TUTTI_TRY(driver.wait_for_word(device, stream, made->word_, made->value_));
  *order = std::move(made);
  return {};
}

// A call that ended well waited until its stream had written the word.
StreamOrder::~StreamOrder() {
  if (load_relaxed(word_) < value_) store_release(word_, value_, true);
  words_->give_back(index_);
}

Status StreamOrder::release(DeviceDriver::Stream stream) { return driver_.write_word(device_, stream, word_, value_); }

}  // namespace tutti
