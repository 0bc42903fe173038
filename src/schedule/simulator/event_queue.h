// Events of the simulator in order of time, and of their making where times are equal: that makes it deterministic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/costs.h"

namespace tutti {

struct Event {
  enum class Kind : std::uint32_t {
    kLook,  ///< a rank looks whether it can go on
    kDone,  ///< a rank's step has ended
    kWire,  ///< a message begins or ends to use the wires
  };
  Time time = 0;
  std::uint32_t subject = 0;  ///< a rank, or a message under way
  Kind kind = Kind::kLook;
};

/// A binary heap of moments, each with its events in the order of their making: where ranks do the same at the same
/// time, most events are of few moments. Keeps its memory.
class EventQueue {
 public:
  void clear() {
    heap_.clear();
    moments_.clear();
    over_.clear();
    made_ = 0;
    recent_.fill(Recent{});
    chains_.clear();
    free_ = kNone;
  }
  bool empty() const { return heap_.empty(); }
  Time next_time() const { return heap_.front().time; }

  void push(Time time, Event::Kind kind, std::uint32_t subject) {
    const std::uint32_t link = make_link(subject, kind);
    Recent& recent = recent_[static_cast<std::size_t>((static_cast<std::uint64_t>(time) * 0x9E3779B97F4A7C15u) >> 58)];
    if (is_alive(recent, time)) {
      Moment& moment = moments_[recent.moment];
      chains_[moment.last].next = link;
      moment.last = link;
      return;
    }
    auto number = static_cast<std::uint32_t>(moments_.size());
    if (over_.empty()) {
      moments_.emplace_back();
    } else {
      number = over_.back();
      over_.pop_back();
    }
    moments_[number] = Moment{time, link, link};
    recent = Recent{time, number};
    heap_.push_back(Place{time, made_++, number});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }
  Event pop() {
    Moment& moment = moments_[heap_.front().moment];
    const std::uint32_t link = moment.first;
    const Link found = chains_[link];
    const Event event{moment.time, found.subject, found.kind};
    moment.first = found.next;
    if (found.next == kNone) {
      std::pop_heap(heap_.begin(), heap_.end(), is_later);
      heap_.pop_back();
      over_.push_back(static_cast<std::uint32_t>(&moment - moments_.data()));
    }
    chains_[link].next = free_;
    free_ = link;
    return event;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Link {
    std::uint32_t subject;
    Event::Kind kind;
    std::uint32_t next;
  };
  struct Moment {
    Time time = 0;
    std::uint32_t first = kNone;  ///< kNone: over
    std::uint32_t last = kNone;
  };
  /// Moments made lately, found by their time. Where one is forgotten here, another of the same time follows it.
  struct Recent {
    Time time = -1;
    std::uint32_t moment = 0;
  };
  struct Place {
    Time time;
    std::uint64_t number;  ///< of the moment's making
    std::uint32_t moment;
  };

  static bool is_later(const Place& a, const Place& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }
  bool is_alive(const Recent& recent, Time time) const {
    if (recent.time != time) return false;
    const Moment& moment = moments_[recent.moment];
    return moment.time == time && moment.first != kNone;
  }
  std::uint32_t make_link(std::uint32_t subject, Event::Kind kind) {
    if (free_ == kNone) {
      chains_.push_back(Link{subject, kind, kNone});
      return static_cast<std::uint32_t>(chains_.size() - 1);
    }
    const std::uint32_t link = free_;
    free_ = chains_[link].next;
    chains_[link] = Link{subject, kind, kNone};
    return link;
  }

  std::vector<Place> heap_;
  std::vector<Moment> moments_;
  std::vector<std::uint32_t> over_;  ///< places in moments_ that may be used again
  std::uint64_t made_ = 0;
  std::array<Recent, 64> recent_{};
  std::vector<Link> chains_;
  std::uint32_t free_ = kNone;
};

}  // namespace tutti
