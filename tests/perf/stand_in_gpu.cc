// tutti-perf's GPU in a test: two devices of the library's stand-in driver, for which host memory is device memory and
// a stream is a thread. PERF_STAND_IN says what large copies from a device do: lie turns a bit of what they bring,
// fault makes them fail, hang never returns, crash ends the program by a signal.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "perf/gpu.h"
#include "support/device/stand_in_driver.h"

namespace tutti::perf {
namespace {

using test::stand_in;
using test::StandInDriver;
using Clock = std::chrono::steady_clock;

/// When a stream came to it.
class Mark {
 public:
  void expect() {
    const std::lock_guard lock(mutex_);
    reached_ = false;
  }
  void reach() {
    const std::lock_guard lock(mutex_);
    at_ = Clock::now();
    reached_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  Clock::time_point at() {
    const std::lock_guard lock(mutex_);
    return at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point at_;
  bool reached_ = true;
};
using Marked = std::shared_ptr<Mark>;
using Captured = std::shared_ptr<const test::Graph>;
Marked& mark_of(Gpu::Event event) { return *static_cast<Marked*>(event); }

tuttiResult_t checked(const Status& status) {
  if (status.ok()) return tuttiSuccess;
  gpu_fault() = status.text();
  return tuttiUnhandledCudaError;
}

tuttiResult_t fault(const char* text) {
  gpu_fault() = text;
  return tuttiUnhandledCudaError;
}

bool asked_for(const char* mode) {
  const char* const set = std::getenv("PERF_STAND_IN");
  return set != nullptr && std::strcmp(set, mode) == 0;
}

class StandInGpu final : public Gpu {
 public:
  int devices() override { return stand_in().devices(); }
  std::string name(int device) override { return "stand-in " + std::to_string(device); }
  tuttiResult_t use(int device) override {
    StandInDriver::use(device);
    return tuttiSuccess;
  }
  tuttiResult_t free_memory(std::size_t* bytes) override {
    *bytes = 64 << 20;
    return tuttiSuccess;
  }

  tuttiResult_t create_stream(Stream* stream) override {
    return checked(stand_in().create_stream(stand_in().current_device(), stream));
  }
  void destroy_stream(Stream stream) override { (void)stand_in().destroy_stream(stream); }
  tuttiResult_t synchronize(Stream stream) override { return checked(stand_in().synchronize(stream)); }
  tuttiResult_t copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
    const bool down = bytes > 1000 && !stand_in().place_of(to).on_device;
    if (down && asked_for("fault")) return fault("cudaMemcpyAsync: an illegal memory access was encountered");
    if (down && asked_for("crash")) std::raise(SIGSEGV);
    while (down && asked_for("hang")) std::this_thread::sleep_for(std::chrono::seconds(1));
    const bool lies = down && asked_for("lie");
    StandInDriver::put(stream, [=] {
      std::memcpy(to, from, bytes);
      if (lies) static_cast<unsigned char*>(to)[77] ^= 1;
    });
    return tuttiSuccess;
  }
  tuttiResult_t clear(void* memory, std::size_t bytes, Stream stream) override {
    StandInDriver::put(stream, [=] { std::memset(memory, 0, bytes); });
    return tuttiSuccess;
  }

  tuttiResult_t create_event(Event* event) override {
    *event = new Marked(std::make_shared<Mark>());
    return tuttiSuccess;
  }
  void destroy_event(Event event) override { delete static_cast<Marked*>(event); }
  tuttiResult_t record(Event event, Stream stream) override {
    const Marked mark = mark_of(event);
    mark->expect();
    StandInDriver::put(stream, [mark] { mark->reach(); });
    return tuttiSuccess;
  }
  tuttiResult_t wait_for(Event event) override {
    mark_of(event)->wait();
    return tuttiSuccess;
  }
  tuttiResult_t seconds_between(Event first, Event second, double* seconds) override {
    *seconds = std::chrono::duration<double>(mark_of(second)->at() - mark_of(first)->at()).count();
    return tuttiSuccess;
  }

  tuttiResult_t begin_capture(Stream stream) override {
    stand_in().begin_capture(stream);
    return tuttiSuccess;
  }
  tuttiResult_t end_capture(Stream stream, Graph* graph) override {
    Captured made;
    const tuttiResult_t result = checked(stand_in().end_capture({stream}, &made));
    *graph = result == tuttiSuccess ? new Captured(made) : nullptr;
    return result;
  }
  tuttiResult_t run(Graph graph, Stream stream) override {
    StandInDriver::launch(*static_cast<Captured*>(graph), stream);
    return tuttiSuccess;
  }
  void destroy_graph(Graph graph) override { delete static_cast<Captured*>(graph); }
};

}  // namespace

Gpu* find_gpu(std::string*) {
  static StandInGpu gpu;
  static std::once_flag once;
  std::call_once(once, [] { stand_in().set_devices(2); });
  return &gpu;
}

}  // namespace tutti::perf
