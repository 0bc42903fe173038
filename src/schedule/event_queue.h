// Events of the simulator in order of time, and of their making where times are equal: that makes it deterministic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/costs.h"

namespace tutti {

struct Event {
  enum class Kind : std::uint8_t {
    kLook,  ///< a rank looks whether it can go on
    kDone,  ///< a rank's step has ended
    kWire,  ///< a message begins or ends to use the wires
  };
  Time time = 0;
  std::uint64_t number = 0;   ///< of its making
  std::uint32_t subject = 0;  ///< a rank, or a message under way
  Kind kind = Kind::kLook;
};

/// A binary heap. Keeps its memory.
class EventQueue {
 public:
  void clear() {
    heap_.clear();
    made_ = 0;
  }
  bool empty() const { return heap_.empty(); }
  std::uint64_t made() const { return made_; }

  void push(Time time, Event::Kind kind, std::uint32_t subject) {
    heap_.push_back(Event{time, made_++, subject, kind});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }
  Time next_time() const { return heap_.front().time; }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool is_later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  std::vector<Event> heap_;
  std::uint64_t made_ = 0;
};

}  // namespace tutti
