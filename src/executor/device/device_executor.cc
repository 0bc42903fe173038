#include "executor/device/device_executor.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/wait_until.h"
#include "executor/device/device_launch.h"
#include "executor/polled_run.h"

namespace tutti {

namespace {
/// Longer waits have no end, as Deadline has it, too.
constexpr double kForever = 3.0e9;
/// The sleep between two looks.
constexpr std::chrono::microseconds kKernelNap{100};
/// If a kernel has not stopped so long after it was told to stop, it has not begun: its stream is busy with other work.
constexpr std::chrono::seconds kStopTimeout{2};

/// The alignment of the parts of made_.
constexpr std::size_t kApart = 256;

bool writes_output(const Schedule& schedule) {
  return has_output(schedule.algorithm->collective, schedule.shape.rank == schedule.shape.root);
}

std::uint64_t read(const std::uint64_t& word) { return load_relaxed(&word); }
}  // namespace

DeviceExecutor::DeviceExecutor(std::unique_ptr<RankDeviceLinks> rank_links, Executor& host)
    : HostedExecutor(host), rank_links_(std::move(rank_links)) {}

// What kernels use may go when they have ended. If the last one cannot be waited for, nothing is freed that it may use,
// memory of its peers included.
DeviceExecutor::~DeviceExecutor() {
  if (report_ == nullptr) return;
  if (!has_last_ended()) {
    (void)rank_links_.release();
    return;
  }
  for (void* const memory : memory_) (void)driver().release_pooled(device(), memory);
  (void)driver().release_pinned(report_);
}

Status DeviceExecutor::open() {
  void* report = nullptr;
  TUTTI_TRY(driver().allocate_pinned(Bytes{sizeof(DeviceReport)}, &report));
  report_ = static_cast<DeviceReport*>(report);
  return {};
}

Status DeviceExecutor::reserve(Bytes bytes, std::byte** memory) {
  void* made = nullptr;
  TUTTI_TRY(driver().allocate_pooled(device(), bytes, &made));
  memory_.push_back(made);
  *memory = static_cast<std::byte*>(made);
  return {};
}

Status DeviceExecutor::grow(Pool* pool, Bytes bytes) {
  if (bytes.value <= pool->bytes) return {};
  TUTTI_TRY(reserve(bytes, &pool->memory));
  pool->bytes = bytes.value;
  return {};
}

// A captured copy would read the host's memory whenever the graph runs, so a graph's table is copied by a stream of its
// own.
Status DeviceExecutor::table_of(const Schedule& schedule, DeviceDriver::Stream stream, bool captured,
                                const Step** table) {
  const Step*& known = tables_[&schedule];
  if (known == nullptr) {
    void* memory = nullptr;
    const Bytes bytes{schedule.steps.size() * sizeof(Step)};
    TUTTI_TRY(driver().allocate_pooled(device(), bytes, &memory));
    memory_.push_back(memory);
    const Step* const steps = schedule.steps.data();
    TUTTI_TRY(captured ? copy_aside(memory, steps, bytes) : driver().copy(device(), memory, steps, bytes, stream));
    known = static_cast<const Step*>(memory);
  }
  *table = known;
  return {};
}

Status DeviceExecutor::copy_aside(void* to, const void* from, Bytes bytes) {
  DeviceDriver::Stream aside = nullptr;
  TUTTI_TRY(driver().create_stream(device(), &aside));
  Status copied = driver().copy(device(), to, from, bytes, aside);
  if (copied.ok()) copied = driver().synchronize(aside);
  (void)driver().destroy_stream(aside);
  return copied;
}

// Calls of one rank share links and scratch, so each waits for the one before it. Within a graph only calls of the same
// capture can be waited for; the caller puts the launches of graphs in order.
Status DeviceExecutor::follow(DeviceDriver::Stream stream, std::uint64_t capture) {
  const End& before = capture == 0 ? last_ : captured_;
  const bool same = before.stream == stream && stream != driver().per_thread_stream();
  if (before.event == nullptr || same || before.capture != capture) return {};
  return driver().wait(device(), stream, before.event->get());
}

// A collective with a wire type runs as one on buffers of that type, between two conversions. The result is the same,
// because everything that is sent is rounded to that type anyway.
Status DeviceExecutor::make_inputs(const Launch& launch, DeviceDriver::Stream stream, Launch* inner) {
  *inner = launch;
  const bool converts = launch.wire != launch.type;
  if (!converts && launch.scalar == nullptr) return {};
  const Schedule& schedule = *launch.schedule;
  const std::size_t inputs = launch.count.value * schedule.extent.input_blocks;
  const std::size_t outputs = converts ? launch.count.value * schedule.extent.output_blocks : 0;
  const std::size_t product = launch.scalar == nullptr ? 0 : round_up(inputs * launch.element.value, kApart);
  const std::size_t narrowed = converts ? round_up(inputs * launch.wire_element.value, kApart) : 0;
  TUTTI_TRY(grow(&made_, Bytes{product + narrowed + outputs * launch.wire_element.value}));
  DevicePass pass;
  pass.count = inputs;
  if (launch.scalar != nullptr) {
    pass.type = launch.type;
    pass.source = inner->input;
    pass.destination = made_.memory;
    if (launch.scalar_on_device) pass.scalar = launch.scalar;
    if (!launch.scalar_on_device) std::memcpy(&pass.value, launch.scalar, launch.element.value);
    TUTTI_TRY(tutti::launch(driver(), device(), stream, pass));
    inner->input = made_.memory;
    inner->input_is_registered = false;
  }
  if (!converts) return {};
  pass.kind = DevicePass::Kind::kNarrow;
  pass.type = launch.wire;
  pass.source = inner->input;
  pass.destination = made_.memory + product;
  TUTTI_TRY(tutti::launch(driver(), device(), stream, pass));
  inner->carry(launch.wire);
  inner->input = made_.memory + product;
  inner->output = made_.memory + product + narrowed;
  return {};
}

// Within one process peers use the address itself, so nothing has to be lent. But other devices do not reach this one's
// pools, so then the memory must be exportable.
void DeviceExecutor::lend(Launch* launch, DevicePlace* place) {
  const DeviceLinks& links = place->links;
  if (links.single_process && !links.wide) return;
  const Extent& extent = launch->schedule->extent;
  const struct {
    const std::byte* begin;
    std::size_t blocks;
    bool is_registered;
  } buffers[] = {{launch->input, extent.input_blocks, launch->input_is_registered},
                 {launch->output, extent.output_blocks, launch->output_is_registered}};
  bool all = true, any = false;
  for (std::size_t i = 0; i < std::size(buffers); ++i) {
    const auto& [begin, blocks, is_registered] = buffers[i];
    if (begin == nullptr || blocks == 0) continue;
    const std::size_t bytes = launch->count.value * blocks * launch->element.value;
    const bool lent = links.single_process ? is_exportable(begin)
                                           : is_registered && rank_links_->lender() != nullptr &&
                                                 rank_links_->lender()->lend(begin, bytes, &place->lent[i]);
    all = all && lent;
    any = any || lent;
  }
  launch->lends = links.single_process ? all : any;
}

bool DeviceExecutor::is_exportable(const std::byte* memory) const {
  DeviceDriver::Allocation allocation;
  return driver().allocation_of(memory, &allocation).ok() && allocation.is_exportable;
}

void DeviceExecutor::withdraw(const void* memory) {
  if (DeviceLender* const lender = rank_links_->lender(); lender != nullptr) lender->withdraw(memory);
}

Status DeviceExecutor::launch_on(const Launch& launch, DeviceDriver::Stream stream, double seconds,
                                 std::shared_ptr<DeviceEvent>* ended) {
  const Status status = put_on(launch, stream, seconds, ended);
  if (DeviceLender* const lender = rank_links_->lender(); lender != nullptr) lender->launched(last_.event);
  return status;
}

Status DeviceExecutor::put_on(const Launch& whole, DeviceDriver::Stream stream, double seconds,
                              std::shared_ptr<DeviceEvent>* ended) {
  const DeviceGeometry& geometry = rank_links_->links().geometry;
  std::uint64_t capture = 0;
  TUTTI_TRY(driver().capture_of(stream, &capture));
  TUTTI_TRY(follow(stream, capture));
  Launch launch;
  TUTTI_TRY(make_inputs(whole, stream, &launch));
  TUTTI_TRY(grow(&scratch_, device_scratch(launch, geometry)));
  DevicePlace place;
  place.links = rank_links_->links();
  place.watch =
      DeviceWatch{place.links.stop(), report_, seconds < kForever ? static_cast<std::uint64_t>(seconds * 1e9) : 0};
  place.scratch = scratch_.memory;
  if (DeviceBorrower* const borrower = rank_links_->borrower(); borrower != nullptr) {
    TUTTI_TRY(borrower->map_published(stream));
    rank_links_->lender()->settle([this] { return !reported("a call").ok(); });
  }
  if (launch.lends) lend(&launch, &place);
  DeviceCall call{};
  bind_device_call(launch, place, &call);
  if (launch.schedule->steps.size() > kInlineSteps)
    TUTTI_TRY(table_of(*launch.schedule, stream, capture != 0, &call.table));
  TUTTI_TRY(tutti::launch(driver(), device(), stream, call));
  if (launch.wire != whole.type && writes_output(*launch.schedule)) {
    DevicePass pass;
    pass.kind = DevicePass::Kind::kWiden;
    pass.type = launch.wire;
    pass.source = launch.output;
    pass.destination = whole.output;
    pass.count = launch.count.value * launch.schedule->extent.output_blocks;
    TUTTI_TRY(tutti::launch(driver(), device(), stream, pass));
  }
  return mark_end(stream, capture, ended);
}

Status DeviceExecutor::mark_end(DeviceDriver::Stream stream, std::uint64_t capture,
                                std::shared_ptr<DeviceEvent>* ended) {
  std::shared_ptr<DeviceEvent> end;
  TUTTI_TRY(DeviceEvent::record(driver(), device(), stream, &end));
  if (capture == 0) *ended = end;
  (capture == 0 ? last_ : captured_) = End{std::move(end), stream, capture};
  if (capture != 0) has_captured_.store(true);
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
  const int self = number(Rank{rank_links_->links().rank}).value;
  const int peer = number(DeviceReport::rank_of(first)).value;
  switch (DeviceReport::code_of(first)) {
    case Code::kMismatch:
      return fail(Code::kMismatch, "rank {} calls {}, and rank {} sent it the data of another call", self, what, peer);
    case Code::kTimeout:
      return fail(Code::kTimeout, "rank {} waited too long for rank {} in {}", self, peer, what);
    case Code::kRemoteError:
      return fail(Code::kRemoteError, "rank {} calls {}, and rank {} lent it memory that it has not mapped", self, what,
                  peer);
    default:
      return fail(Code::kAborted, "rank {} was stopped in {} while it waited for rank {}", self, what, peer);
  }
}

Rank DeviceExecutor::timed_out() const {
  for (const std::uint64_t& word : report_->failures)
    if (DeviceReport::code_of(read(word)) == Code::kTimeout) return number(DeviceReport::rank_of(read(word)));
  return kNoRank;
}

Status DeviceExecutor::poll(const DeviceEvent& ended, const std::string& what) const {
  bool done = false;
  TUTTI_TRY(ended.query(&done));
  Status status = reported(what);
  if (done || (!status.ok() && stop_takes_too_long())) return status;
  return fail(Code::kInProgress, "{} is under way", what);
}

// A failed kernel uses the caller's buffers until all its blocks have seen the failure. The time is counted from the
// first call of this function.
bool DeviceExecutor::stop_takes_too_long() const {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep since = 0;
  if (failed_since_.compare_exchange_strong(since, now)) since = now;
  return Clock::duration(now - since) >= kStopTimeout;
}

void DeviceExecutor::stop() { store_relaxed(&report_->stop, 1); }

// A call without a stream follows what was put on the default stream.
Status DeviceExecutor::order_after_caller() {
  std::shared_ptr<DeviceEvent> before;
  TUTTI_TRY(DeviceEvent::record(driver(), device(), driver().default_stream(), &before));
  return driver().wait(device(), rank_links_->stream(), before->get());
}

void DeviceExecutor::start(const Launch& launch) {
  fault_ = order_after_caller();
  std::shared_ptr<DeviceEvent> ended;
  if (fault_.ok()) fault_ = launch_on(launch, rank_links_->stream(), 0, &ended);
}

Progress DeviceExecutor::advance() {
  bool done = false;
  if (fault_.ok()) fault_ = last_.event->query(&done);
  if (!fault_.ok() || mismatched() != kNoRank) return Progress::kFailed;
  if (const bool now = waits_for_device(); std::exchange(waited_for_device_, now) != now) ++progress_;
  if (!done) return Progress::kAgain;
  fault_ = reported("a call");
  return fault_.ok() ? Progress::kDone : Progress::kFailed;
}

Status DeviceExecutor::run(const Launch& launch, WaitMonitor& monitor) {
  start(launch);
  return run_polled(*this, monitor, kKernelNap);
}

void DeviceExecutor::abandon() {
  stop();
  (void)has_last_ended();
}

// Returns false also if the device has failed, because then no kernel is known to have ended.
bool DeviceExecutor::has_last_ended() const {
  bool done = last_.event == nullptr;
  const auto is_known = [&] { return done || !last_.event->query(&done).ok() || done; };
  return wait_until(is_known, Deadline::in(static_cast<double>(kStopTimeout.count())), WaitPace::naps(kKernelNap)) &&
         done;
}

Rank DeviceExecutor::awaited() const {
  std::uint64_t lowest = 0;
  for (const std::uint64_t& word : report_->waiting) {
    const std::uint64_t rank = read(word);
    if (rank != 0 && (lowest == 0 || rank < lowest)) lowest = rank;
  }
  return lowest == 0 ? kNoRank : number(Rank{static_cast<std::int32_t>(lowest - 1)});
}

Rank DeviceExecutor::mismatched() const {
  for (const std::uint64_t& word : report_->failures)
    if (DeviceReport::code_of(read(word)) == Code::kMismatch) return number(DeviceReport::rank_of(read(word)));
  return kNoRank;
}

Capabilities DeviceExecutor::capabilities() {
  const DeviceGeometry& geometry = rank_links_->links().geometry;
  return {Bytes{geometry.slot_bytes}, geometry.slots};
}

void DeviceExecutor::sleep(std::chrono::nanoseconds slice) {
  links().cancel_sleep();
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, kKernelNap));
}

}  // namespace tutti
