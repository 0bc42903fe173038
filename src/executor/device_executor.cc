#include "executor/device_executor.h"

#include <algorithm>
#include <thread>

#include "core/clock.h"

namespace tutti {

namespace {
/// How long a call polls before it sleeps between looks, and how long it sleeps then.
constexpr std::chrono::milliseconds kAwake{1};
constexpr std::chrono::microseconds kNap{100};
/// A kernel that was told to stop and has not after so long has not begun: its stream is busy with other work.
constexpr std::chrono::seconds kStopPatience{2};

std::uint64_t read(const std::uint64_t& word) { return load_relaxed(&word); }
}  // namespace

Status DeviceEvent::record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                           std::shared_ptr<DeviceEvent>* event) {
  DeviceDriver::Event made = nullptr;
  TUTTI_TRY(driver.create_event(device, &made));
  std::shared_ptr<DeviceEvent> held(new DeviceEvent(driver, made));
  TUTTI_TRY(driver.record(device, made, stream));
  *event = std::move(held);
  return {};
}

DeviceExecutor::DeviceExecutor(std::unique_ptr<DeviceSeat> seat, Executor& host)
    : seat_(std::move(seat)), host_(host) {}

// What kernels use may go when they have ended; one that cannot be waited for keeps it.
DeviceExecutor::~DeviceExecutor() {
  if (report_ == nullptr) return;
  const Deadline patience = Deadline::in(2);
  bool done = last_ == nullptr;
  while (!done && !patience.passed()) {
    if (!last_->query(&done).ok()) break;
    if (!done) std::this_thread::sleep_for(kNap);
  }
  if (!done) return;
  for (void* const memory : memory_) (void)driver().release(device(), memory);
  (void)driver().release_shared(report_);
}

Status DeviceExecutor::open() {
  void* report = nullptr;
  TUTTI_TRY(driver().allocate_shared(Bytes{sizeof(DeviceReport)}, &report));
  report_ = static_cast<DeviceReport*>(report);
  return {};
}

Status DeviceExecutor::grow_scratch(Bytes bytes) {
  if (bytes.value <= scratch_bytes_) return {};
  void* memory = nullptr;
  TUTTI_TRY(driver().allocate(device(), bytes, &memory));
  memory_.push_back(memory);
  scratch_ = static_cast<std::byte*>(memory);
  scratch_bytes_ = bytes.value;
  return {};
}

Status DeviceExecutor::table_of(const Schedule& schedule, DeviceDriver::Stream stream, const Step** table) {
  const Step*& known = tables_[&schedule];
  if (known == nullptr) {
    void* memory = nullptr;
    const Bytes bytes{schedule.steps.size() * sizeof(Step)};
    TUTTI_TRY(driver().allocate(device(), bytes, &memory));
    memory_.push_back(memory);
    TUTTI_TRY(driver().copy(device(), memory, schedule.steps.data(), bytes, stream));
    known = static_cast<const Step*>(memory);
  }
  *table = known;
  return {};
}

Status DeviceExecutor::launch_on(const Launch& launch, DeviceDriver::Stream stream, double seconds,
                                 std::shared_ptr<DeviceEvent>* ended) {
  const DeviceGeometry& geometry = seat_->links().geometry;
  if (last_ != nullptr && stream != last_stream_) TUTTI_TRY(driver().wait(device(), stream, last_->get()));
  TUTTI_TRY(grow_scratch(device_scratch(launch, geometry)));
  DevicePlace place;
  place.links = seat_->links();
  place.watch = DeviceWatch{place.links.stop(), report_, static_cast<std::uint64_t>(seconds * 1e9)};
  place.scratch = scratch_;
  DeviceCall call{};
  bind_device_call(launch, place, &call);
  if (launch.schedule->steps.size() > kInlineSteps) TUTTI_TRY(table_of(*launch.schedule, stream, &call.table));
  TUTTI_TRY(driver().launch(device(), stream, call));
  TUTTI_TRY(DeviceEvent::record(driver(), device(), stream, ended));
  last_ = *ended;
  last_stream_ = stream;
  return {};
}

Status DeviceExecutor::reported(const std::string& what) const {
  std::uint64_t first = 0;
  for (const std::uint64_t& word : report_->failures) {
    const std::uint64_t failure = read(word);
    const bool final = DeviceReport::code_of(failure) == Code::kMismatch;
    if (failure != 0 && (first == 0 || final)) first = failure;
  }
  if (first == 0) return {};
  const int self = seat_->links().rank;
  const int peer = DeviceReport::rank_of(first).value;
  switch (DeviceReport::code_of(first)) {
    case Code::kMismatch:
      return fail(Code::kMismatch, "rank {} calls {}, and rank {} sent it the data of another call", self, what, peer);
    case Code::kTimeout:
      return fail(Code::kTimeout, "rank {} waited too long for rank {} in {}", self, peer, what);
    default:
      return fail(Code::kAborted, "rank {} was stopped in {} while it waited for rank {}", self, what, peer);
  }
}

Rank DeviceExecutor::timed_out() const {
  for (const std::uint64_t& word : report_->failures)
    if (DeviceReport::code_of(read(word)) == Code::kTimeout) return DeviceReport::rank_of(read(word));
  return kNoRank;
}

Status DeviceExecutor::poll(const DeviceEvent& ended, const std::string& what) const {
  bool done = false;
  TUTTI_TRY(ended.query(&done));
  TUTTI_TRY(reported(what));
  return done ? Status{} : fail(Code::kInProgress, "{} is under way", what);
}

void DeviceExecutor::stop() { store_relaxed(&report_->stop, 1); }

// A call without a stream follows what was put on the default stream.
Status DeviceExecutor::order_behind_caller() {
  std::shared_ptr<DeviceEvent> before;
  TUTTI_TRY(DeviceEvent::record(driver(), device(), driver().default_stream(), &before));
  return driver().wait(device(), seat_->stream(), before->get());
}

void DeviceExecutor::start(const Launch& launch) {
  fault_ = order_behind_caller();
  std::shared_ptr<DeviceEvent> ended;
  if (fault_.ok()) fault_ = launch_on(launch, seat_->stream(), 0, &ended);
}

Progress DeviceExecutor::advance() {
  bool done = false;
  if (fault_.ok()) fault_ = last_->query(&done);
  if (!fault_.ok() || mismatched() != kNoRank) return Progress::kFailed;
  // Only a wait for a peer can last too long, not work.
  if (missing() == kNoRank) ++progress_;
  if (!done) return Progress::kAgain;
  fault_ = reported("a call");
  return fault_.ok() ? Progress::kDone : Progress::kFailed;
}

Status DeviceExecutor::run(const Launch& launch, Watch& watch) {
  start(launch);
  const auto began = Clock::now();
  auto next_check = began + kAwake;
  for (;;) {
    const Progress outcome = advance();
    if (outcome == Progress::kDone) break;
    const auto now = Clock::now();
    if (outcome == Progress::kFailed || watch.alarmed() || now >= next_check) {
      board().wait_for(missing());
      TUTTI_TRY(watch.check(missing(), progress()));
      next_check = now + kAwake;
    }
    if (now - began < kAwake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  board().wait_for(kNoRank);
  return {};
}

void DeviceExecutor::abandon() {
  stop();
  if (last_ == nullptr) return;
  const auto patience = Clock::now() + kStopPatience;
  bool done = false;
  while (Clock::now() < patience && last_->query(&done).ok() && !done) std::this_thread::sleep_for(kNap);
}

Rank DeviceExecutor::missing() const {
  std::uint64_t lowest = 0;
  for (const std::uint64_t& word : report_->waiting) {
    const std::uint64_t rank = read(word);
    if (rank != 0 && (lowest == 0 || rank < lowest)) lowest = rank;
  }
  return lowest == 0 ? kNoRank : Rank{static_cast<std::int32_t>(lowest - 1)};
}

Rank DeviceExecutor::mismatched() const {
  for (const std::uint64_t& word : report_->failures)
    if (DeviceReport::code_of(read(word)) == Code::kMismatch) return DeviceReport::rank_of(read(word));
  return kNoRank;
}

Capabilities DeviceExecutor::capabilities() const {
  const DeviceGeometry& geometry = seat_->links().geometry;
  return {Bytes{geometry.slot_bytes}, geometry.slots, host_.capabilities().sees_boards};
}

void DeviceExecutor::sleep(std::chrono::nanoseconds slice) {
  if (!woken_.exchange(false, std::memory_order_acquire))
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, kNap));
}

}  // namespace tutti
