#include "executor/device/device_executor.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/wait_until.h"
#include "device/quiet_moment.h"
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

/// How long a call waits for the launches of other ranks, in seconds and as a part of its timeout.
constexpr double kLaunchTimeout = 1;
constexpr double kLaunchPart = 0.25;

/// A driver's queue has room for about a thousand pieces of work, of which a call is up to five. Who fills it waits in
/// the driver, and may keep those out whose kernels are waited for.
constexpr std::size_t kMostUnfinished = 64;

/// A call needs an event only where streams change or a pass comes after its kernel.
constexpr std::size_t kFirstEvents = 8;
/// How long a call runs before the device is looked at, and how long it is until the next look. The words of calls, at
/// which the host looks all the time, say nothing of a device that has failed.
constexpr std::chrono::milliseconds kLook{5};

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
  rank_links_->launches().leave(rank_links_->rank());
  if (report_ == nullptr) return;
  if (is_begun_ || !has_last_ended()) {
    (void)rank_links_.release();
    return;
  }
  for (void* const memory : memory_) (void)driver().release_pooled(device(), memory);
  QuietFrees::get().add([&driver = driver(), report = report_] { (void)driver.release_pinned(report); });
}

Status DeviceExecutor::open() {
  const QuietMoment quiet(QuietMoment::of_a_join());
  void* report = nullptr;
  TUTTI_TRY(driver().allocate_pinned(Bytes{sizeof(DeviceReport)}, &report));
  report_ = static_cast<DeviceReport*>(report);
  events_ = std::make_shared<EventRing>(driver(), device());
  TUTTI_TRY(events_->open(kFirstEvents));
  return events_->record(stream(), &health_);
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

// A captured copy would read the host's memory whenever the graph runs, so a graph's table is copied on the rank's own
// stream, on which no kernel runs while a call is captured.
Status DeviceExecutor::table_of(const Schedule& schedule, DeviceDriver::Stream stream, bool captured,
                                const Step** table) {
  const Step*& known = tables_[&schedule];
  if (known == nullptr) {
    void* memory = nullptr;
    const Bytes bytes{schedule.steps.size() * sizeof(Step)};
    TUTTI_TRY(driver().allocate_pooled(device(), bytes, &memory));
    memory_.push_back(memory);
    const Step* const steps = schedule.steps.data();
    const DeviceDriver::Stream copies = captured ? rank_links_->stream() : stream;
    TUTTI_TRY(driver().copy(device(), memory, steps, bytes, copies));
    if (captured) TUTTI_TRY(driver().synchronize(copies));
    known = static_cast<const Step*>(memory);
  }
  *table = known;
  return {};
}

// Calls of one rank share links and scratch, so each waits for the one before it. Within a graph only calls of the same
// capture can be waited for; the caller puts the launches of graphs in order. An event cannot be recorded any more when
// the next call comes, because the caller may have put other work on the stream by then, or destroyed it. So the first
// time that the stream changes the new one waits for the words of the call before.
Status DeviceExecutor::follow(DeviceDriver::Stream stream, std::uint64_t capture) {
  const End& before = capture == 0 ? last_ : captured_;
  const bool same = before.stream == stream && stream != driver().per_thread_stream();
  if (before.end == nullptr || same || before.capture != capture) return {};
  if (before.end->has_words() && before.end->has_ended()) return {};
  const DeviceEvent* const event = before.end->event();
  if (event != nullptr) return driver().wait(device(), stream, event->get());
  changes_streams_ = true;
  return before.end->hold(driver(), device(), stream);
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
    inner->input_memory = {};
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
  inner->input_memory = inner->output_memory = {};
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
    const DeviceRange& memory;
  } buffers[] = {{launch->input, extent.input_blocks, launch->input_is_registered, launch->input_memory},
                 {launch->output, extent.output_blocks, launch->output_is_registered, launch->output_memory}};
  bool all = true, any = false;
  for (std::size_t i = 0; i < std::size(buffers); ++i) {
    const auto& [begin, blocks, is_registered, memory] = buffers[i];
    if (begin == nullptr || blocks == 0) continue;
    const std::size_t bytes = launch->count.value * blocks * launch->element.value;
    const bool lent = links.single_process
                          ? memory.is_exportable
                          : is_registered && rank_links_->lender() != nullptr &&
                                rank_links_->lender()->lend(memory, begin, bytes, begun_.capture != 0, &place->lent[i]);
    all = all && lent;
    any = any || lent;
  }
  launch->lends = links.single_process ? all : any;
}

void DeviceExecutor::withdraw(const void* memory) {
  if (DeviceLender* const lender = rank_links_->lender(); lender != nullptr) lender->withdraw(memory);
}

Status DeviceExecutor::launch_on(const Launch& launch, DeviceDriver::Stream stream, std::shared_ptr<CallEnd>* ended) {
  std::uint64_t capture = 0;
  if (stream != this->stream()) TUTTI_TRY(driver().capture_of(stream, &capture));
  TUTTI_TRY(begin_launch(launch, stream, capture));
  return finish_launch(ended);
}

Status DeviceExecutor::begin_launch(const Launch& launch, DeviceDriver::Stream stream, std::uint64_t capture) {
  begun_ = Begun{launch, {}, stream, capture, Clock::now(), {}};
  tail_ = nullptr;
  looked_at_.store(begun_.when.time_since_epoch().count(), std::memory_order_relaxed);
  Status put = put_kernel();
  is_begun_ = put.ok();
  if (DeviceLender* const lender = rank_links_->lender(); lender != nullptr && !put.ok()) lender->launched(last_.end);
  return put;
}

Status DeviceExecutor::put_kernel() {
  TUTTI_TRY(follow(begun_.stream, begun_.capture));
  TUTTI_TRY(make_inputs(begun_.whole, begun_.stream, &begun_.inner));
  DeviceCall call{};
  TUTTI_TRY(bind(&begun_.inner, &call));
  begun_.words = EndWords{report_->ended, call.grid(), call.number};
  LocalLaunches& launches = rank_links_->launches();
  launches.begin(rank_links_->rank());
  Status launched = tutti::launch(driver(), device(), begun_.stream, call);
  launches.end(rank_links_->rank());
  return launched;
}

Status DeviceExecutor::bind(Launch* launch, DeviceCall* call) {
  TUTTI_TRY(grow(&scratch_, device_scratch(*launch, rank_links_->links().geometry)));
  const double seconds = launch->kernel_timeout;
  DevicePlace place;
  place.links = rank_links_->links();
  place.watch =
      DeviceWatch{place.links.stop(), report_, seconds < kForever ? static_cast<std::uint64_t>(seconds * 1e9) : 0};
  place.scratch = scratch_.memory;
  if (begun_.capture == 0) place.number = ++number_;
  // A captured call has the host do nothing for other calls, and what it lends was mapped by all before.
  if (DeviceBorrower* const borrower = rank_links_->borrower(); borrower != nullptr && begun_.capture == 0) {
    TUTTI_TRY(borrower->map_published(begun_.stream));
    rank_links_->lender()->settle([this] { return !reported("a call").ok(); });
  }
  if (launch->lends) lend(launch, &place);
  bind_device_call(*launch, place, call);
  if (launch->schedule->steps.size() <= kInlineSteps) return {};
  return table_of(*launch->schedule, begun_.stream, begun_.capture != 0, &call->table);
}

// A thread that makes the calls of several ranks one after another waits here for what it has to do itself.
Rank DeviceExecutor::missing_launch() {
  if (begun_.capture != 0) return kNoRank;
  LocalLaunches& launches = rank_links_->launches();
  Rank missing = launches.missing_elsewhere(rank_links_->rank());
  while (missing != kNoRank && is_far_ahead()) {
    launches.give_up(missing);
    missing = launches.missing_elsewhere(rank_links_->rank());
  }
  return missing;
}

bool DeviceExecutor::is_far_ahead() const {
  const double timeout = begun_.whole.kernel_timeout;
  const double patience = timeout == 0 ? kLaunchTimeout : std::min(kLaunchTimeout, kLaunchPart * timeout);
  return std::chrono::duration<double>(Clock::now() - begun_.when).count() > patience;
}

/// Whether what is put after the kernel now keeps no other rank's kernel out.
bool DeviceExecutor::may_finish() {
  return rank_links_->launches().missing(rank_links_->rank()) == kNoRank || is_far_ahead();
}

Status DeviceExecutor::finish_launch(std::shared_ptr<CallEnd>* ended) {
  Status status;
  const bool widens = begun_.inner.wire != begun_.whole.type && writes_output(*begun_.inner.schedule);
  if (widens) {
    DevicePass pass;
    pass.kind = DevicePass::Kind::kWiden;
    pass.type = begun_.inner.wire;
    pass.source = begun_.inner.output;
    pass.destination = begun_.whole.output;
    pass.count = begun_.inner.count.value * begun_.inner.schedule->extent.output_blocks;
    status = tutti::launch(driver(), device(), begun_.stream, pass);
  }
  if (status.ok()) status = mark_end(widens, ended);
  if (DeviceLender* const lender = rank_links_->lender(); lender != nullptr) lender->launched(last_.end);
  return status;
}

// `after_kernel` says that the kernel's end is not the call's.
Status DeviceExecutor::mark_end(bool after_kernel, std::shared_ptr<CallEnd>* ended) {
  std::shared_ptr<DeviceEvent> event;
  if (begun_.capture != 0) {
    TUTTI_TRY(DeviceEvent::record(driver(), device(), begun_.stream, &event));
  } else if (after_kernel || changes_streams_ || !trusts_words_) {
    TUTTI_TRY(events_->record(begun_.stream, &event));
  }
  const bool has_words = begun_.capture == 0 && !after_kernel && trusts_words_;
  auto end = std::make_shared<CallEnd>(has_words ? begun_.words : EndWords{}, std::move(event));
  if (begun_.capture == 0) {
    *ended = end;
    std::erase_if(unfinished_, [](const auto& earlier) { return earlier->has_words() && earlier->has_ended(); });
    unfinished_.push_back(end);
    if (unfinished_.size() > kMostUnfinished) unfinished_.pop_front();
  }
  is_begun_ = false;
  (begun_.capture == 0 ? last_ : captured_) = End{std::move(end), begun_.stream, begun_.capture};
  if (begun_.capture != 0) has_captured_.store(true);
  return {};
}

// A failure of the query is the next call's, too.
bool DeviceExecutor::has_room() {
  bool done = true;
  while (unfinished_.size() >= kMostUnfinished && done) {
    if (!unfinished_.front()->query(&done).ok()) return true;
    if (done) unfinished_.pop_front();
  }
  return unfinished_.size() < kMostUnfinished || !look_at_device().ok();
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

bool DeviceExecutor::is_look_due() const {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (Clock::duration(now - looked_at_.load(std::memory_order_relaxed)) < kLook) return false;
  looked_at_.store(now, std::memory_order_relaxed);
  return true;
}

/// Fails if the device has failed, after which no kernel says anything.
Status DeviceExecutor::look_at_device() const {
  bool done = false;
  return is_look_due() ? health_->query(&done) : Status{};
}

/// Fails also if the kernel of the call that start() began is gone and has not said that it ended.
Status DeviceExecutor::look_for_lost_kernel() {
  if (!is_look_due()) return {};
  if (tail_ == nullptr) return events_->record(stream(), &tail_);
  bool gone = false;
  TUTTI_TRY(tail_->query(&gone));
  if (!gone || last_.end->has_ended()) return {};
  return fail(Code::kUnhandledCudaError, "the kernel of a call has ended without a word");
}

Status DeviceExecutor::poll(const CallEnd& ended, const std::string& what) const {
  bool done = false;
  TUTTI_TRY(ended.query(&done));
  if (!done) TUTTI_TRY(look_at_device());
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

void DeviceExecutor::stop() {
  store_relaxed(&report_->stop, 1);
  rank_links_->launches().stop(rank_links_->rank());
}

// A call without a stream follows what was put on the default stream.
Status DeviceExecutor::order_after_caller() {
  std::shared_ptr<DeviceEvent> before;
  TUTTI_TRY(events_->record(driver().default_stream(), &before));
  return driver().wait(device(), rank_links_->stream(), before->get());
}

void DeviceExecutor::start(const Launch& launch) {
  fault_ = order_after_caller();
  if (fault_.ok()) fault_ = begin_launch(launch, rank_links_->stream());
}

Progress DeviceExecutor::advance() {
  bool done = false;
  std::shared_ptr<CallEnd> ended;
  if (fault_.ok() && is_begun_ && may_finish()) fault_ = finish_launch(&ended);
  if (fault_.ok() && !is_begun_) fault_ = last_.end->query(&done);
  if (fault_.ok() && !is_begun_ && !done) fault_ = look_for_lost_kernel();
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
  std::shared_ptr<CallEnd> ended;
  if (!is_begun_ || finish_launch(&ended).ok()) (void)has_last_ended();
}

// Returns false also if the device has failed, because then no kernel is known to have ended.
bool DeviceExecutor::has_last_ended() const {
  bool done = last_.end == nullptr || (tail_ != nullptr && tail_->has_ended());
  const auto is_known = [&] { return done || !last_.end->query(&done).ok() || done || !look_at_device().ok(); };
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
  return {Bytes{geometry.slot_bytes}, geometry.slots, Bytes{geometry.slot_bytes}};
}

void DeviceExecutor::sleep(std::chrono::nanoseconds slice) {
  links().cancel_sleep();
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, kKernelNap));
}

}  // namespace tutti
