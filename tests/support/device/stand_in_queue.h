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
#include <utility>
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

/// What the streams of a queue keep apart: the kernel that the stream has begun and that may still run. For the queue's
/// thread.
struct StreamTail {
  Marked kernel;
};

/// Work in order, by a thread of its own. Streams that share a queue wait for each other's work, as they may do on a
/// device. Only kernels of different streams run beside each other.
class HardwareQueue {
 public:
  using Work = std::function<void()>;
  /// How much a queue of a strict driver holds. Who puts more there waits.
  static constexpr std::size_t kRoom = 1000;

  HardwareQueue() : thread_([this] { run(); }) {}
  ~HardwareQueue() {
    add(Item{});
    thread_.join();
  }
  void put(Work work) { add(Item{std::move(work), nullptr, false}); }
  /// Comes after the stream's earlier kernel, and what is put here later comes after it.
  void put(Work work, std::shared_ptr<StreamTail> stream) { add(Item{std::move(work), std::move(stream), false}); }
  /// Comes after the stream's earlier kernel. Later work of other streams need not wait for it.
  void put_kernel(Work work, std::shared_ptr<StreamTail> stream) {
    add(Item{std::move(work), std::move(stream), true});
  }
  void wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.size() < kRoom; });
  }
  /// Blocks until what has been put so far has ended; the stream's kernels, too.
  void drain(const std::shared_ptr<StreamTail>& stream) {
    const auto mark = std::make_shared<Mark>();
    put([mark] { mark->reach(); }, stream);
    mark->wait();
  }

 private:
  struct Item {
    Work work;
    std::shared_ptr<StreamTail> stream;
    bool is_kernel = false;
  };
  void add(Item item) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(item));
    changed_.notify_all();
  }
  void run() {
    std::vector<Marked> kernels;  // that run beside the queue
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !work_.empty(); });
      const Item item = std::move(work_.front());
      work_.pop_front();
      changed_.notify_all();
      lock.unlock();
      if (!item.work) break;
      if (item.stream != nullptr && item.stream->kernel != nullptr) item.stream->kernel->wait();
      if (item.is_kernel) {
        std::erase_if(kernels, [](const Marked& end) { return end->reached(); });
        kernels.push_back(item.stream->kernel = std::make_shared<Mark>());
        std::thread([work = item.work, end = kernels.back()] {
          work();
          end->reach();
        }).detach();
      } else {
        item.work();
      }
      lock.lock();
    }
    for (const Marked& end : kernels) end->wait();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> work_;
  std::thread thread_;
};

/// The kernels that have been put on streams and have not ended.
class RunningKernels {
 public:
  /// Returns what the kernel has to reach when it ends. Device -1: it may be any.
  Marked begin(int device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kernels_, [](const auto& kernel) { return kernel.second->reached(); });
    kernels_.emplace_back(device, std::make_shared<Mark>());
    return kernels_.back().second;
  }
  /// The ends of those that are there now on the device; -1: on any.
  std::vector<Marked> of(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<Marked> ends;
    for (const auto& [of, end] : kernels_)
      if ((device < 0 || of < 0 || of == device) && !end->reached()) ends.push_back(end);
    return ends;
  }
  void wait(int device) {
    for (const Marked& end : of(device)) end->wait();
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<int, Marked>> kernels_;
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
  explicit StandInStream(std::shared_ptr<HardwareQueue> own, int of = -1) : queue(std::move(own)), device(of) {}
  void put(HardwareQueue::Work work) const { queue->put(std::move(work), tail); }

  std::shared_ptr<HardwareQueue> queue;
  std::shared_ptr<StreamTail> tail = std::make_shared<StreamTail>();
  std::shared_ptr<Capture> capture;  ///< nullptr: what is put here runs
  std::size_t lane = 0;
  int device;  ///< -1: any
  bool has_priority = false;
};

struct StandInEvent {
  Marked mark;                       ///< of work that runs; nullptr: never recorded, or captured
  std::shared_ptr<Capture> capture;  ///< where it was recorded, if that was captured
  std::size_t lane = 0;
  std::size_t at = 0;     ///< work that the lane had then
  std::size_t index = 0;  ///< of the replay's mark
};

}  // namespace tutti::test
