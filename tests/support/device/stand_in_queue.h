// What the stand-in for a GPU runs work on: hardware queues with a thread each, streams that share them, events, and
// graphs of captured work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::test {

/// A place in a queue that has been reached or not.
class Mark {
 public:
  void reach() {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  bool reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};
using Marked = std::shared_ptr<Mark>;

/// Work in order, by a thread of its own. Streams that share one wait for each other's work, as they do on a device.
class HardwareQueue {
 public:
  using Work = std::function<void()>;
  HardwareQueue() : thread_([this] { run(); }) {}
  ~HardwareQueue() {
    put({});
    thread_.join();
  }
  void put(Work work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  /// What has been put so far has ended.
  void drain() {
    const auto mark = std::make_shared<Mark>();
    put([mark] { mark->reach(); });
    mark->wait();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !work_.empty(); });
      const Work work = std::move(work_.front());
      work_.pop_front();
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  std::thread thread_;
};

/// A device's multiprocessors: a kernel begins when there is one for each of its blocks, and keeps them to its end.
class Processors {
 public:
  explicit Processors(std::uint32_t count) : count_(count), free_(count) {}
  template <class Kernel>
  void run(std::uint32_t blocks, const Kernel& kernel) {
    const std::uint32_t taken = blocks < count_ ? blocks : count_;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return free_ >= taken; });
      free_ -= taken;
    }
    kernel();
    const std::lock_guard lock(mutex_);
    free_ += taken;
    changed_.notify_all();
  }

 private:
  const std::uint32_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t free_;
};

/// Captured work, by stream; a replay has marks of its own where one stream waits for another.
struct Graph {
  using Marks = std::vector<Marked>;
  using Work = std::function<void(const Marks&)>;
  std::vector<std::vector<Work>> lanes;
  std::size_t marks = 0;

  void replay() const {
    Marks fresh(marks);
    for (Marked& mark : fresh) mark = std::make_shared<Mark>();
    std::vector<std::thread> branches;
    for (std::size_t lane = 1; lane < lanes.size(); ++lane)
      branches.emplace_back([this, lane, &fresh] { run(lane, fresh); });
    run(0, fresh);
    for (std::thread& branch : branches) branch.join();
  }

 private:
  void run(std::size_t lane, const Marks& fresh) const {
    for (const Work& work : lanes[lane]) work(fresh);
  }
};

/// A capture under way.
struct Capture {
  std::uint64_t number = 0;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<bool> unjoined;  ///< by lane: what nobody waits for was put there last
  std::string fault;           ///< what it was ended by; empty: it goes on

  std::size_t add_lane() {
    graph->lanes.emplace_back();
    unjoined.push_back(false);
    return graph->lanes.size() - 1;
  }
  void put(std::size_t lane, Graph::Work work) {
    graph->lanes[lane].push_back(std::move(work));
    unjoined[lane] = lane != 0;
  }
};

struct StandInStream {
  std::shared_ptr<HardwareQueue> queue;
  std::shared_ptr<Capture> capture;  ///< nullptr: what is put here runs
  std::size_t lane = 0;
  int device = -1;  ///< -1: any
};

struct StandInEvent {
  Marked mark;                       ///< of work that runs; nullptr: never recorded, or captured
  std::shared_ptr<Capture> capture;  ///< where it was recorded, if that was captured
  std::size_t lane = 0;
  std::size_t at = 0;     ///< work that the lane had then
  std::size_t index = 0;  ///< of the replay's mark
};

}  // namespace tutti::test
