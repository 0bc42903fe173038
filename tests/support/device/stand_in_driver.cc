#include "support/device/stand_in_driver.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "device/device_word.h"
#include "support/patience.h"

namespace tutti {
DeviceDriver* device_driver() {
  test::stand_in().take_use();
  return test::stand_in().devices() == 0 ? nullptr : &test::stand_in();
}
DeviceDriver* device_driver_in_use() { return test::stand_in().is_used() ? device_driver() : nullptr; }
bool may_have_device() { return test::stand_in().devices() != 0; }
}  // namespace tutti

namespace tutti::test {

namespace {

thread_local int thread_device = -1;
thread_local bool thread_uses_host = false;
thread_local int thread_is_early = 0;

/// Its address is the handle of the streams that each thread has for itself.
int own_handle = 0;

std::unique_ptr<StandInStream>& own_stream() {
  static thread_local std::unique_ptr<StandInStream> own;
  return own;
}

StandInStream& stream_at(DeviceDriver::Stream stream) {
  if (stream != &own_handle) return *static_cast<StandInStream*>(stream);
  std::unique_ptr<StandInStream>& own = own_stream();
  if (own == nullptr) own = std::make_unique<StandInStream>(std::make_shared<HardwareQueue>());
  return *own;
}
StandInEvent& event_at(DeviceDriver::Event event) { return *static_cast<StandInEvent*>(event); }

}  // namespace

namespace {
std::unique_ptr<StandInDriver>& the_driver() {
  // The parent's has threads that a child lacks.
  static const int forks = ::pthread_atfork(nullptr, nullptr, [] { (void)the_driver().release(); });
  static std::unique_ptr<StandInDriver> driver;
  (void)forks;
  return driver;
}
std::mutex making;
}  // namespace

StandInDriver& stand_in() {
  const std::lock_guard lock(making);
  std::unique_ptr<StandInDriver>& driver = the_driver();
  if (driver == nullptr) driver = std::make_unique<StandInDriver>();
  return *driver;
}

bool is_stand_in_there() {
  const std::lock_guard lock(making);
  return the_driver() != nullptr;
}

void end_stand_in() {
  if (!is_stand_in_there()) return;
  own_stream().reset();
  const std::lock_guard lock(making);
  the_driver().reset();
}

StandInDriver::StandInDriver() {
  if (const char* const queues = std::getenv("TUTTI_TEST_STRICT_DEVICE"); queues != nullptr)
    be_strict(std::atoi(queues));
  default_stream_ = new StandInStream(next_queue(0, false));
}
StandInDriver::~StandInDriver() {
  delete static_cast<StandInStream*>(default_stream_);
  sweep_late_frees();
}

void StandInDriver::use(int device) { thread_device = device; }
void StandInDriver::take_host_memory(bool host) { thread_uses_host = host; }
int StandInDriver::current_device() {
  count("current_device");
  return thread_device;
}

Status StandInDriver::limits(int, Limits* limits) {
  count("limits");
  {
    const std::lock_guard lock(mutex_);
    *limits = Limits{processor_count_, connections_ == 0 ? 8 : connections_.load()};
  }
  return failure("limits");
}

void StandInDriver::set_processors(int processors) {
  const std::lock_guard lock(mutex_);
  processor_count_ = processors;
  processors_.clear();
}

std::shared_ptr<Processors> StandInDriver::processors_of(int device) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Processors>& own = processors_[device];
  if (own == nullptr) own = std::make_shared<Processors>(static_cast<std::uint32_t>(processor_count_));
  return own;
}

Status StandInDriver::allocate(int device, Bytes bytes, void** memory) {
  count("allocate");
  ++waits_for_kernels_;
  TUTTI_TRY(failure("allocate"));
  const CallLock call = begin_waiting_call();
  if (connections_ != 0 && thread_is_early == 0) (void)next_queue(device, true);  // zeroing it takes a stream
  return take(bytes.value, device, memory);
}
Status StandInDriver::release(int device, void* memory) {
  count("release");
  ++waits_for_kernels_;
  const CallLock call = begin_free(device);
  return give_back(memory);
}
Status StandInDriver::allocate_pooled(int device, Bytes bytes, void** memory) {
  count("allocate_pooled");
  TUTTI_TRY(failure("allocate_pooled"));
  const CallLock call = begin_call();
  TUTTI_TRY(take(bytes.value, device, memory));
  const std::lock_guard lock(mutex_);
  memories_[static_cast<const std::byte*>(*memory)].pooled = true;
  return {};
}
Status StandInDriver::release_pooled(int, void* memory) {
  count("release_pooled");
  const CallLock call = begin_call();
  return give_back(memory);
}
Status StandInDriver::allocate_pinned(Bytes bytes, void** memory) {
  count("allocate_pinned");
  ++waits_for_kernels_;
  TUTTI_TRY(failure("allocate_pinned"));
  const CallLock call = begin_waiting_call();
  return take(bytes.value, -1, memory);
}
Status StandInDriver::release_pinned(void* memory) {
  count("release_pinned");
  ++waits_for_kernels_;
  const CallLock call = begin_free(-1);
  return give_back(memory);
}

bool StandInDriver::knows(const void* memory, std::size_t bytes) {
  if (all_memory_ && !thread_uses_host) return true;
  const std::lock_guard lock(mutex_);
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  return known != nullptr && static_cast<const std::byte*>(memory) + bytes <= begin + known->bytes;
}

DeviceDriver::Place StandInDriver::place_of(const void* memory) {
  count("place_of");
  if (all_memory_ && !thread_uses_host) return Place{true, thread_device};
  const std::lock_guard lock(mutex_);
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  if (known != nullptr && known->managed) return Place{true, -1, true};
  return known == nullptr || known->device < 0 ? Place{} : Place{true, known->device};
}

void StandInDriver::manage(const void* begin) {
  const std::lock_guard lock(mutex_);
  memories_.at(static_cast<const std::byte*>(begin)).managed = true;
}

void StandInDriver::set_connections(int connections) {
  const std::lock_guard lock(mutex_);
  connections_ = connections == 0 ? strict_connections_ : connections;
  queues_.clear();
}

void StandInDriver::be_strict(int connections) {
  strict_ = connections != 0;
  strict_connections_ = connections;
  set_connections(0);
}

StandInDriver::Early::Early() { ++thread_is_early; }
StandInDriver::Early::~Early() { --thread_is_early; }
bool StandInDriver::is_early() { return thread_is_early != 0; }

StandInDriver::CallLock StandInDriver::begin_call() { return strict_ ? CallLock(calls_) : CallLock(); }
// Keeps the lock while it waits for the kernels, as a driver may do.
StandInDriver::CallLock StandInDriver::begin_waiting_call() {
  if (!strict_ || is_early()) return {};
  CallLock call(calls_);
  kernels_.wait(-1);
  return call;
}
// A driver waits here for the device's kernels; others of the process may go on meanwhile.
StandInDriver::CallLock StandInDriver::begin_free(int device) {
  if (!strict_ && !is_early()) kernels_.wait(device);
  return begin_waiting_call();
}
StandInDriver::CallLock StandInDriver::begin_work(Stream stream) {
  CallLock call = begin_call();
  if (strict_ && !is_captured(stream)) stream_at(stream).queue->wait_for_room();
  return call;
}

bool StandInDriver::is_captured(Stream stream) {
  const std::lock_guard lock(mutex_);
  return stream_at(stream).capture != nullptr;
}

// Streams take the queues in turn.
std::shared_ptr<HardwareQueue> StandInDriver::next_queue(int device, bool high) {
  if (connections_ == 0) return std::make_shared<HardwareQueue>();
  const std::lock_guard lock(mutex_);
  DeviceQueues& own = queues_[{device, high || !strict_}];
  const std::size_t place = own.next++ % static_cast<std::size_t>(connections_);
  if (own.queues.size() <= place) own.queues.push_back(std::make_shared<HardwareQueue>());
  return own.queues[place];
}

Status StandInDriver::create_stream(int device, Stream* stream) {
  count("create_stream");
  TUTTI_TRY(failure("create_stream"));
  const CallLock call = begin_waiting_call();
  auto* const made = new StandInStream(next_queue(device, true), device);
  made->has_priority = true;
  *stream = made;
  return {};
}
Status StandInDriver::create_caller_stream(int device, Stream* stream) {
  *stream = new StandInStream(next_queue(device, false), device);
  return {};
}
Status StandInDriver::synchronize(Stream stream) {
  count("synchronize");
  {
    const std::lock_guard lock(mutex_);
    if (stream_at(stream).capture != nullptr) return spoil(stream_at(stream).capture.get(), "synchronize");
  }
  stream_at(stream).queue->drain(stream_at(stream).tail);
  return {};
}
// With CUDA the stream's work goes on without it. What tests have on streams of their own may be gone afterwards.
Status StandInDriver::destroy_stream(Stream stream) {
  count("destroy_stream");
  const StandInStream& place = stream_at(stream);
  if (!strict_ || !place.has_priority) place.queue->drain(place.tail);
  delete static_cast<StandInStream*>(stream);
  return {};
}
DeviceDriver::Stream StandInDriver::default_stream() { return default_stream_; }
DeviceDriver::Stream StandInDriver::per_thread_stream() { return &own_handle; }
// As with CUDA, what is created here does not wait for the default stream; what each thread has does.
Status StandInDriver::find_traits(Stream stream, StreamTraits* traits) {
  count("find_traits");
  *traits = {stream_at(stream).device, stream != default_stream_ && stream != &own_handle};
  return {};
}

void StandInDriver::put_locked(Stream stream, std::function<void()> work) {
  StandInStream& place = stream_at(stream);
  if (place.capture == nullptr) return place.put(std::move(work));
  place.capture->put(place.lane, [work](const Graph::Marks&) { work(); });
}
void StandInDriver::put(Stream stream, std::function<void()> work) {
  StandInDriver& driver = stand_in();
  const std::lock_guard lock(driver.mutex_);
  driver.put_locked(stream, std::move(work));
}

// Kernels of a graph are those of the kernel that its launch is.
void StandInDriver::put_kernel(Stream stream, std::function<void()> work) {
  const CallLock call = begin_work(stream);
  const std::lock_guard lock(mutex_);
  const StandInStream& place = stream_at(stream);
  if (place.capture != nullptr) return put_locked(stream, std::move(work));
  auto kernel = [work = std::move(work), end = kernels_.begin(place.device)] {
    work();
    end->reach();
  };
  strict_ ? place.queue->put_kernel(std::move(kernel), place.tail) : place.put(std::move(kernel));
}

Status StandInDriver::check_device(int device, Stream stream, const char* function) {
  const int own = stream_at(stream).device;
  return own < 0 || own == device ? Status{} : fail(Code::kUnhandledCudaError, "{}: invalid resource handle", function);
}

Status StandInDriver::create_event(int, Event* event) {
  count("create_event");
  *event = new StandInEvent;
  event_at(*event).mark = std::make_shared<Mark>();
  event_at(*event).mark->reach();
  return {};
}
Status StandInDriver::destroy_event(Event event) {
  count("destroy_event");
  delete static_cast<StandInEvent*>(event);
  return {};
}
Status StandInDriver::record(int device, Event event, Stream stream) {
  count("record");
  TUTTI_TRY(check_device(device, stream, "record"));
  const CallLock call = begin_work(stream);
  const std::lock_guard lock(mutex_);
  if (stream == default_stream_ && !captures_.empty()) return spoil(captures_.front().get(), "record");
  StandInStream& place = stream_at(stream);
  if (place.capture == nullptr) {
    const Marked mark = std::make_shared<Mark>();
    event_at(event) = StandInEvent{mark, nullptr, 0, 0, 0};
    place.put([mark] { mark->reach(); });
    return {};
  }
  Graph& graph = *place.capture->graph;
  const std::size_t index = graph.marks++;
  place.capture->put(place.lane, [index](const Graph::Marks& marks) { marks[index]->reach(); });
  event_at(event) = StandInEvent{nullptr, place.capture, place.lane, graph.lanes[place.lane].size(), index};
  return {};
}

// A stream that waits for captured work is captured from then on.
Status StandInDriver::wait(int, Stream stream, Event event) {
  count("wait");
  const CallLock call = begin_work(stream);
  const std::lock_guard lock(mutex_);
  StandInStream& place = stream_at(stream);
  const StandInEvent& known = event_at(event);
  if (known.capture == nullptr) {
    if (place.capture != nullptr) return spoil(place.capture.get(), "wait for what is not captured");
    place.put([mark = known.mark] { mark->wait(); });
    return {};
  }
  Capture& capture = *known.capture;
  if (!is_under_way(capture)) return fail(Code::kUnhandledCudaError, "wait: the event was captured");
  if (place.capture == nullptr) {
    place.capture = known.capture;
    place.lane = capture.add_lane();
  }
  if (place.capture != known.capture) return spoil(place.capture.get(), "wait for another capture");
  capture.put(place.lane, [index = known.index](const Graph::Marks& marks) { marks[index]->wait(); });
  if (capture.graph->lanes[known.lane].size() == known.at) capture.unjoined[known.lane] = false;
  return {};
}
Status StandInDriver::query(Event event, bool* done) {
  count("query");
  ++queries_;
  TUTTI_TRY(failure("query"));
  const CallLock call = begin_call();
  const std::lock_guard lock(mutex_);
  if (event_at(event).capture != nullptr) return spoil(event_at(event).capture.get(), "query");
  *done = event_at(event).mark->reached();
  return {};
}

Status StandInDriver::copy(int, void* target, const void* source, Bytes bytes, Stream stream) {
  count("copy");
  TUTTI_TRY(failure("copy"));
  std::byte* const to = reveal(target);
  const std::byte* const from = reveal(source);
  const bool reads_pinned = knows(source, bytes.value);
  const bool is_pinned = reads_pinned && knows(target, bytes.value);
  if (!is_pinned) ++pageable_copies_;
  const Marked end = std::make_shared<Mark>();
  {
    const CallLock call = begin_work(stream);
    const std::lock_guard lock(mutex_);
    if (stream_at(stream).capture != nullptr) return spoil(stream_at(stream).capture.get(), "copy");
    if (!reads_pinned) {  // what is not pinned is read before the call returns
      auto held = std::make_shared<std::vector<std::byte>>(from, from + bytes.value);
      put_locked(stream, [to, held] { std::memcpy(to, held->data(), held->size()); });
    } else {
      put_locked(stream, [to, from, bytes] { std::memcpy(to, from, bytes.value); });
    }
    put_locked(stream, [end] { end->reach(); });
  }
  if (strict_ && !is_pinned) end->wait();
  return {};
}

Status StandInDriver::wait_for_word(int, Stream stream, std::uint64_t* word, std::uint64_t value) {
  count("wait_for_word");
  TUTTI_TRY(failure("wait_for_word"));
  const CallLock call = begin_work(stream);
  const std::lock_guard lock(mutex_);
  put_locked(stream, [this, word, value] {
    const auto end = std::chrono::steady_clock::now() + 4 * kPatience;
    while (!has_come(word, value) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds{20});
  });
  return {};
}

bool StandInDriver::has_come(const std::uint64_t* word, std::uint64_t value) {
  const std::lock_guard lock(mutex_);  // nobody releases it meanwhile
  const std::byte* begin = nullptr;
  if (find(word, &begin) != nullptr) return load_acquire(word, true) >= value;
  ++lost_waits_;
  return true;
}

Status StandInDriver::write_word(int, Stream stream, std::uint64_t* word, std::uint64_t value) {
  count("write_word");
  TUTTI_TRY(failure("write_word"));
  const CallLock call = begin_work(stream);
  const std::lock_guard lock(mutex_);
  put_locked(stream, [word, value] { store_release(word, value, true); });
  return {};
}

Status StandInDriver::capture_of(Stream stream, std::uint64_t* capture) {
  count("capture_of");
  const std::lock_guard lock(mutex_);
  *capture = 0;
  if (stream == default_stream_ && !captures_.empty())
    return fail(Code::kInvalidUsage, "the default stream takes nothing while another stream is captured");
  if (stream_at(stream).capture != nullptr) *capture = stream_at(stream).capture->number;
  return {};
}

Status StandInDriver::spoil(Capture* capture, const std::string& function) {
  if (capture->fault.empty()) capture->fault = function;
  return fail(Code::kUnhandledCudaError, "{}: operation not permitted when stream is capturing", function);
}
bool StandInDriver::is_under_way(const Capture& capture) const {
  return std::any_of(captures_.begin(), captures_.end(), [&](const auto& one) { return one.get() == &capture; });
}

void StandInDriver::begin_capture(Stream stream) {
  const std::lock_guard lock(mutex_);
  auto capture = std::make_shared<Capture>();
  capture->number = ++last_capture_;
  stream_at(stream).capture = capture;
  stream_at(stream).lane = capture->add_lane();
  captures_.push_back(std::move(capture));
}

Status StandInDriver::end_capture(const std::vector<Stream>& streams, std::shared_ptr<const Graph>* graph) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> capture = stream_at(streams.front()).capture;
  for (const Stream stream : streams) {
    stream_at(stream).capture = nullptr;
    stream_at(stream).lane = 0;
  }
  std::erase(captures_, capture);
  *graph = capture->graph;
  if (!capture->fault.empty()) return fail(Code::kUnhandledCudaError, "the capture was ended by: {}", capture->fault);
  if (std::find(capture->unjoined.begin(), capture->unjoined.end(), true) != capture->unjoined.end())
    return fail(Code::kUnhandledCudaError, "a captured stream was not joined to the first");
  if (capture->graph->lanes.size() != streams.size())
    return fail(Code::kUnhandledCudaError, "{} streams were captured", capture->graph->lanes.size());
  return {};
}

void StandInDriver::launch(const std::shared_ptr<const Graph>& graph, Stream stream) {
  stand_in().put_kernel(stream, [graph] { graph->replay(); });
}

Status StandInDriver::reach(int, int, bool* reachable) {
  count("reach");
  *reachable = !cut_peers_;
  return failure("reach");
}
Status StandInDriver::load(int device, std::span<const Kernel* const> kernels) {
  count("load");
  const CallLock call = begin_waiting_call();
  TUTTI_TRY(failure("load"));
  const std::lock_guard lock(mutex_);
  for (const Kernel* const kernel : kernels) loaded_.insert({device, kernel});
  return {};
}

}  // namespace tutti::test
