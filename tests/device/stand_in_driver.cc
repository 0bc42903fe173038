#include "device/stand_in_driver.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "core/device_word.h"
#include "device/host_grid.h"

namespace tutti {
DeviceDriver* device_driver() { return test::stand_in().devices() == 0 ? nullptr : &test::stand_in(); }
}  // namespace tutti

namespace tutti::test {

namespace {

constexpr std::uint32_t kThreads = 2;  // of a block
thread_local int thread_device = -1;
thread_local bool thread_uses_host = false;

/// Work in order, by a thread of its own.
class Queue {
 public:
  Queue() : thread_([this] { run(); }) {}
  ~Queue() {
    put({});
    thread_.join();
  }
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.empty(); });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> work = work_.front();
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
      work_.pop_front();
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

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

Queue& queue_of(DeviceDriver::Stream stream) { return *static_cast<Queue*>(stream); }
Marked& mark_of(DeviceDriver::Event event) { return *static_cast<Marked*>(event); }

}  // namespace

StandInDriver& stand_in() {
  static StandInDriver driver;
  return driver;
}

StandInDriver::StandInDriver() : default_stream_(new Queue) {}
StandInDriver::~StandInDriver() { delete static_cast<Queue*>(default_stream_); }

void StandInDriver::use(int device) { thread_device = device; }
void StandInDriver::take_host_memory(bool host) { thread_uses_host = host; }
int StandInDriver::current_device() { return thread_device; }

void StandInDriver::fail_next(const std::string& function, const std::string& text) {
  const std::lock_guard lock(mutex_);
  failures_[function] = text;
}

Status StandInDriver::failure(const std::string& function) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(function);
  if (found == failures_.end()) return {};
  const std::string text = found->second;
  failures_.erase(found);
  return fail(Code::kUnhandledCudaError, "{}: {}", function, text);
}

std::size_t StandInDriver::allocations() {
  const std::lock_guard lock(mutex_);
  return memories_.size();
}

Status StandInDriver::limits(int, Limits* limits) {
  *limits = Limits{8, 8};
  return failure("limits");
}

Status StandInDriver::take(std::size_t bytes, int device, void** memory) {
  const std::size_t whole = round_up(bytes, 256);
  Memory made{whole, device, nullptr};
  *memory = std::aligned_alloc(256, whole);
  std::memset(*memory, 0, whole);
  if (hide_memory_ && device >= 0) {
    made.real = static_cast<std::byte*>(*memory);
    *memory = ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  const std::lock_guard lock(mutex_);
  memories_[static_cast<const std::byte*>(*memory)] = made;
  return {};
}

Status StandInDriver::give_back(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(static_cast<const std::byte*>(memory));
  if (found->second.real != nullptr) ::munmap(memory, found->second.bytes);
  std::free(found->second.real != nullptr ? found->second.real : memory);
  memories_.erase(found);
  return {};
}

// Under the lock.
const StandInDriver::Memory* StandInDriver::find(const void* memory, const std::byte** begin) {
  const auto* const address = static_cast<const std::byte*>(memory);
  const auto after = memories_.upper_bound(address);
  if (after == memories_.begin()) return nullptr;
  const auto& [first, known] = *std::prev(after);
  if (address >= first + known.bytes) return nullptr;
  *begin = first;
  return &known;
}

std::byte* StandInDriver::reveal(const void* memory) {
  const std::lock_guard lock(mutex_);
  auto* const address = static_cast<std::byte*>(const_cast<void*>(memory));
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  return known == nullptr || known->real == nullptr ? address : known->real + (address - begin);
}

Status StandInDriver::allocate(int device, Bytes bytes, void** memory) {
  TUTTI_TRY(failure("allocate"));
  return take(bytes.value, device, memory);
}
Status StandInDriver::release(int, void* memory) { return give_back(memory); }
Status StandInDriver::allocate_shared(Bytes bytes, void** memory) {
  TUTTI_TRY(failure("allocate_shared"));
  return take(bytes.value, -1, memory);
}
Status StandInDriver::release_shared(void* memory) { return give_back(memory); }

bool StandInDriver::knows(const void* memory, std::size_t bytes) {
  if (all_memory_ && !thread_uses_host) return true;
  const std::lock_guard lock(mutex_);
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  return known != nullptr && static_cast<const std::byte*>(memory) + bytes <= begin + known->bytes;
}

DeviceDriver::Place StandInDriver::place_of(const void* memory) {
  if (all_memory_ && !thread_uses_host) return Place{true, thread_device};
  const std::lock_guard lock(mutex_);
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  return known == nullptr || known->device < 0 ? Place{} : Place{true, known->device};
}

Status StandInDriver::create_stream(int, Stream* stream) {
  TUTTI_TRY(failure("create_stream"));
  *stream = new Queue;
  return {};
}
Status StandInDriver::synchronize(Stream stream) {
  queue_of(stream).drain();
  return {};
}
Status StandInDriver::destroy_stream(Stream stream) {
  delete static_cast<Queue*>(stream);
  return {};
}
DeviceDriver::Stream StandInDriver::default_stream() { return default_stream_; }
void StandInDriver::put(Stream stream, std::function<void()> work) { queue_of(stream).put(std::move(work)); }

Status StandInDriver::create_event(int, Event* event) {
  *event = new Marked(std::make_shared<Mark>());
  return {};
}
Status StandInDriver::destroy_event(Event event) {
  delete static_cast<Marked*>(event);
  return {};
}
Status StandInDriver::record(int, Event event, Stream stream) {
  const Marked mark = std::make_shared<Mark>();
  mark_of(event) = mark;
  put(stream, [mark] { mark->reach(); });
  return {};
}
Status StandInDriver::wait(int, Stream stream, Event event) {
  const Marked mark = mark_of(event);
  put(stream, [mark] { mark->wait(); });
  return {};
}
Status StandInDriver::query(Event event, bool* done) {
  TUTTI_TRY(failure("query"));
  *done = mark_of(event)->reached();
  return {};
}

Status StandInDriver::copy(int, void* target, const void* source, Bytes bytes, Stream stream) {
  TUTTI_TRY(failure("copy"));
  std::byte* const to = reveal(target);
  const std::byte* const from = reveal(source);
  if (!knows(source, bytes.value)) {  // what is not pinned is read before the call returns
    auto held = std::make_shared<std::vector<std::byte>>(from, from + bytes.value);
    put(stream, [to, held] { std::memcpy(to, held->data(), held->size()); });
  } else {
    put(stream, [to, from, bytes] { std::memcpy(to, from, bytes.value); });
  }
  return {};
}

Status StandInDriver::copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t width, std::size_t rows, Stream stream) {
  for (std::size_t row = 0; row < rows; ++row)
    TUTTI_TRY(copy(device, static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, Bytes{width}, stream));
  return {};
}

Status StandInDriver::wait_for_word(int, Stream stream, std::uint64_t* word, std::uint64_t value) {
  TUTTI_TRY(failure("wait_for_word"));
  put(stream, [word, value] {
    while (load_acquire(word, true) < value) std::this_thread::sleep_for(std::chrono::microseconds{20});
  });
  return {};
}

Status StandInDriver::write_word(int, Stream stream, std::uint64_t* word, std::uint64_t value) {
  TUTTI_TRY(failure("write_word"));
  put(stream, [word, value] { store_release(word, value, true); });
  return {};
}

Status StandInDriver::reach(int, int, bool* reachable) {
  *reachable = !cut_peers_;
  return failure("reach");
}
Status StandInDriver::load(int) { return failure("load"); }

Status StandInDriver::launch(int, Stream stream, const DeviceCall& call) {
  TUTTI_TRY(failure("launch"));
  ++launches_;
  const auto copied = std::make_shared<const DeviceCall>(call);
  if (!skip_kernels_) put(stream, [copied] { run_on_host(*copied, kThreads); });
  return {};
}

}  // namespace tutti::test
