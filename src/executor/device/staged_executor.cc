#include "executor/device/staged_executor.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "device/quiet_moment.h"
#include "executor/device/device_launch.h"
#include "executor/polled_run.h"

namespace tutti {

namespace {
/// The sleep between two looks.
constexpr std::chrono::microseconds kCopyNap{50};
/// The longest sleep between two looks while the call waits for work of the caller's.
constexpr std::chrono::microseconds kLongestNap{1000};
/// In seconds. Copies that have not ended after so long wait for work of the caller's that does not end.
constexpr double kCopyTimeout = 2;
}  // namespace

// If the copies do not end, what they use is not freed.
StagedExecutor::~StagedExecutor() {
  if (copies_.stream != nullptr) {
    if (!have_copies_ended()) return;
    if (owns_stream_) (void)copies_.driver.destroy_stream(copies_.stream);
  }
  QuietFrees::get().add([&driver = copies_.driver, memories = std::move(memory_)] {
    for (std::byte* const memory : memories) (void)driver.release_pinned(memory);
  });
}

Status StagedExecutor::open(DeviceDriver::Stream stream) {
  const QuietMoment quiet(QuietMoment::of_a_join());
  // The first launch of a kernel that is not loaded would wait for the callers' streams, which wait for this executor.
  const Kernel* const copies_rows = &rows_kernel();
  TUTTI_TRY(copies_.driver.load(copies_.device, {&copies_rows, 1}));
  TUTTI_TRY(copies_.driver.limits(copies_.device, &limits_));
  owns_stream_ = stream == nullptr;
  if (owns_stream_) TUTTI_TRY(copies_.driver.create_stream(copies_.device, &stream));
  copies_.stream = stream;
  words_ = std::make_shared<GateWords>(copies_.driver);
  TUTTI_TRY(words_->open());
  return grow(StagedSegments::kBytes);
}

Status StagedExecutor::grow(std::size_t bytes) {
  if (bytes <= staged_bytes_) return {};
  void* memory = nullptr;
  bytes = round_up(bytes, kCacheLine);
  TUTTI_TRY(copies_.driver.allocate_pinned(Bytes{2 * slots_.size() * bytes}, &memory));
  auto* next = static_cast<std::byte*>(memory);
  memory_.push_back(next);
  staged_bytes_ = bytes;
  for (Slot& slot : slots_) {
    slot.in = std::exchange(next, next + bytes);
    slot.out = std::exchange(next, next + bytes);
  }
  return {};
}

Status StagedExecutor::check_queues() const {
  if (limits_.connections > 1) return {};
  return fail(Code::kUnsupported,
              "with CUDA_DEVICE_MAX_CONNECTIONS=1 a call on a CUDA stream cannot go through host memory, because the "
              "stream that waits for it would hold up its copies");
}

Status StagedExecutor::hold(int device, DeviceDriver::Stream stream, std::shared_ptr<StreamGate>* gate) {
  return StreamGate::hold(words_, copies_.driver, device, stream, gate);
}

void StagedExecutor::begin(StagedSegments* segments, DeviceExecutor* kernels) {
  segments_ = segments;
  kernels_ = kernels;
  loading_ = at_ = 0;
  ready_ = running_ = draining_ = false;
  nap_ = kCopyNap;
  fault_ =
      gate_ == nullptr ? before_.record(copies_.driver, copies_.device, copies_.driver.default_stream()) : Status{};
  if (fault_.ok()) fault_ = grow(segments->segment_bytes());
}

void StagedExecutor::start(const Launch& launch) {
  Launch whole = launch;
  whole.one_pass = whole.stream_stores = whole.lends = whole.peers_read_input = false;
  if (TwoLevelStage* const stage = buffers_.stage; stage != nullptr) {
    stage->begin(whole, buffers_.levels);
    return begin(stage, &stage->kernels());
  }
  if (whole.ragged != nullptr) {
    ragged_.begin(whole);
    return begin(&ragged_);
  }
  blocks_.begin(whole, buffers_);
  begin(&blocks_);
}

void StagedExecutor::start(std::span<Transfer> transfers) {
  transfers_.begin(transfers, links().capabilities().piece);
  begin(&transfers_);
}

bool StagedExecutor::is_ready(const StreamPoint& point, Status* status) {
  bool ready = false;
  *status = point.query(&ready);
  return ready && status->ok();
}

Progress StagedExecutor::advance() {
  Progress outcome = Progress::kFailed;
  if (fault_.ok()) fault_ = step(&outcome);
  return fault_.ok() ? outcome : Progress::kFailed;
}

Status StagedExecutor::step(Progress* outcome) {
  *outcome = Progress::kAgain;
  if (kernels_ != nullptr) TUTTI_TRY(kernels_->reported("a call"));
  if (!ready_) {
    Status status;
    ready_ = is_ready(gate_ == nullptr ? before_ : gate_->before(), &status);
    if (!ready_) return status;
  }
  for (;;) {
    TUTTI_TRY(bring_next());
    if (at_ == segments_->count()) return drain(outcome);
    TUTTI_TRY(work_on_one(outcome));
    if (*outcome != Progress::kDone) return {};
    TUTTI_TRY(take_away());
  }
}

Status StagedExecutor::bring_next() {
  while (loading_ < segments_->count() && loading_ < at_ + slots_.size()) {
    TUTTI_TRY(segments_->load(loading_, slot(loading_).in));
    TUTTI_TRY(copies_.mark(&slot(loading_).loaded));
    ++loading_;
  }
  return {};
}

/// A segment runs once its input is there and the output of the segment that had the same staging memory before has
/// been taken away.
Status StagedExecutor::work_on_one(Progress* outcome) {
  *outcome = Progress::kAgain;
  const Slot& place = slot(at_);
  if (!running_) {
    Status status;
    if (!is_ready(place.loaded, &status) || !is_ready(place.stored, &status)) return status;
    running_ = true;
    ++progress_;
    segments_->run(at_, place.in, place.out, host());
  }
  return segments_->advance(host(), outcome);
}

Status StagedExecutor::take_away() {
  running_ = false;
  TUTTI_TRY(segments_->store(at_, slot(at_).out));
  TUTTI_TRY(copies_.mark(&slot(at_).stored));
  ++at_;
  return {};
}

Status StagedExecutor::drain(Progress* outcome) {
  *outcome = Progress::kAgain;
  if (!draining_) {
    if (gate_ != nullptr) TUTTI_TRY(gate_->release(copies_.device, copies_.stream));
    TUTTI_TRY(copies_.mark(&after_));
    draining_ = true;
  }
  Status status;
  if (!is_ready(after_, &status)) return status;
  gate_.reset();
  segments_->end();
  *outcome = Progress::kDone;
  return {};
}

Status StagedExecutor::run(const Launch& launch, WaitMonitor& monitor) {
  start(launch);
  return run(monitor);
}

Status StagedExecutor::run(std::span<Transfer> transfers, WaitMonitor& monitor) {
  start(transfers);
  return run(monitor);
}

bool StagedExecutor::waits_for_device() const {
  if (awaited() != kNoRank) return false;
  return running_ ? segments_->waits_for_copies() : kernels_ == nullptr || !ready_;
}

Rank StagedExecutor::awaited() const {
  const Rank far = running_ ? host().awaited() : kNoRank;
  return far != kNoRank || kernels_ == nullptr ? far : kernels_->awaited();
}

std::uint64_t StagedExecutor::progress() const {
  return progress_ + host().progress() + (kernels_ == nullptr ? 0 : kernels_->waits());
}

Status StagedExecutor::run(WaitMonitor& monitor) { return run_polled(*this, monitor, kCopyNap); }

// It waits for the copies, because afterwards the buffers are the caller's again.
void StagedExecutor::abandon() {
  host().abandon();
  running_ = false;
  if (kernels_ != nullptr) kernels_->stop();
  (void)have_copies_ended();
  gate_.reset();
}

// Returns true also if the device has failed, because then nothing runs any more.
bool StagedExecutor::have_copies_ended() {
  Status status = copies_.mark(&after_);
  const Deadline timeout = Deadline::in(kCopyTimeout);
  while (status.ok() && !is_ready(after_, &status)) {
    if (timeout.passed()) return false;
    std::this_thread::sleep_for(kCopyNap);
  }
  return true;
}

void StagedExecutor::sleep(std::chrono::nanoseconds slice) {
  if (running_ && !segments_->waits_for_copies()) return host().sleep(slice);
  links().cancel_sleep();
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, ready_ ? kCopyNap : nap_));
  nap_ = std::min<std::chrono::nanoseconds>(nap_ + nap_ / 8, kLongestNap);
}

}  // namespace tutti
