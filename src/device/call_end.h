// When a call on a device has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "device/device_event.h"
#include "device/device_word.h"

namespace tutti {

/// Words that a kernel's thread blocks store at their ends. The call has ended when each of them is `number` or more.
struct EndWords {
  std::uint64_t* words = nullptr;  ///< nullptr if what comes after the kernel is a part of the call
  std::uint32_t count = 0;
  std::uint64_t number = 0;
};

/// The host looks at words where there are any, because that costs no call of the driver. Any thread.
class CallEnd {
 public:
  /// `event` is what streams can wait for. It may be nullptr if there are words.
  CallEnd(EndWords words, std::shared_ptr<DeviceEvent> event) : words_(words), event_(std::move(event)) {}

  Status query(bool* done) const {
    if (!has_words()) return event_->query(done);
    *done = true;
    for (std::uint32_t i = 0; i < words_.count && *done; ++i) *done = is_there(i);
    return {};
  }
  /// Whether query() looks at words, which costs next to nothing.
  bool has_words() const { return words_.words != nullptr; }
  /// False also if that is not known any more because the device has failed.
  bool has_ended() const {
    bool done = false;
    return query(&done).ok() && done;
  }

  /// nullptr if none was recorded.
  const DeviceEvent* event() const { return event_.get(); }
  /// Makes the stream wait for the words that are not there yet.
  Status hold(DeviceDriver& driver, int device, DeviceDriver::Stream stream) const {
    for (std::uint32_t i = 0; i < words_.count; ++i)
      if (!is_there(i)) TUTTI_TRY(driver.wait_for_word(device, stream, words_.words + i, words_.number));
    return {};
  }

 private:
  bool is_there(std::uint32_t i) const {
    return load_acquire(words_.words + i, true) >= words_.number;  // pairs with DevicePort::say_end()
  }

  const EndWords words_;
  const std::shared_ptr<DeviceEvent> event_;
};

}  // namespace tutti
