#include "comm/join/join_task.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "comm/join/dial_pause.h"
#include "comm/join/rank_places.h"
#include "comm/join/root.h"
#include "comm/membership/data_connections.h"
#include "comm/recovery/process_recovery.h"
#include "core/core_list.h"
#include "core/log.h"
#include "core/units.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

/// The root answers at the deadline. If it does not, the join ends so much later.
constexpr milliseconds kGrace{2000};
constexpr milliseconds kRejoinPause{50};
/// If the join has not even ended by then, the service thread is held up.
constexpr milliseconds kHeldUp{1000};
/// Between two looks of a joining thread. If there are more ranks, it is up to four times as long: thousands of threads
/// that wake up twenty times a second keep each other from the cores.
constexpr milliseconds kLookPause{50};
constexpr int kLookRanks = 128;
constexpr milliseconds kEarly{200};
constexpr std::chrono::milliseconds kLongTime{kMaxTimeout};
/// A root with too many unauthenticated connections may refuse a rank. That is worth a few more tries; a dead root is
/// not.
constexpr int kMaxRefusals = 8;
/// A root with too many connections may also close one after its handshake. Such a root lives, so the rank tries more
/// often, with pauses that grow up to kLongestPause times.
constexpr int kMaxDrops = 20;
constexpr int kLongestPause = 8;

/// Makes what lets the ranks of this process go on after a failure. The root serves the ids that it makes.
std::shared_ptr<ProcessRecovery> make_recovery(Hub& hub, ProcessMembership& membership) {
  return std::make_shared<ProcessRecovery>(
      hub, membership,
      ProcessRecovery::IdServer{
          .serve = [&hub](const UniqueId& id) { return hub.service<RootService>().add(id, hub.shared_from_this()); },
          .withdraw = [&hub](const KeyId& id) { hub.service<RootService>().withdraw(id); }});
}

}  // namespace

JoinTask::JoinTask(std::shared_ptr<Hub> hub, const JoinRequest& request, const UniqueId& id)
    : hub_(std::move(hub)), request_(request), id_(id) {}

Status JoinTask::run(const BeforeReady& before_ready, const std::function<bool()>& in_vain, JoinResult* result) {
  try {
    return run_stages(before_ready, in_vain, result);
  } catch (...) {  // the other ranks need not wait for this one
    hub_->loop().post([self = shared_from_this(), why = what_was_thrown("a join")] { self->finish(why); });
    throw;
  }
}

Status JoinTask::run_stages(const BeforeReady& before_ready, const std::function<bool()>& in_vain, JoinResult* result) {
  hub_->loop().post([self = shared_from_this()] { self->run_step([&] { self->start(); }); });
  while (in_vain && !is_taken_in())
    if (in_vain()) hub_->loop().post([self = shared_from_this()] { self->give_up_in_vain(); });
  TUTTI_TRY(wait_while(Stage::kRunning));
  if (is_linked()) {
    const Status ready = before_ready ? before_ready() : Status();
    hub_->loop().post([self = shared_from_this(), ready] {
      self->run_step([&] { ready.ok() ? self->send_ready() : self->report(ready); });
    });
    TUTTI_TRY(wait_while(Stage::kLinked));
  }
  const MutexLock lock(mutex_);
  if (status_.ok()) *result = std::move(outcome_);
  return status_;
}

/// Waits for the stage's end, and asks JoinRequest::check meanwhile. Returns kTimeout if the stage has not ended after
/// the time at which the loop should have ended it. From then on it counts its own looks instead of the time, so that
/// the loop gets its chance, too, in a process that was stopped meanwhile.
Status JoinTask::wait_while(Stage stage) {
  const Deadline& deadline = request_.deadline;
  const Clock::time_point due = deadline.at();
  int looks_left = (kGrace + kHeldUp) / look_pause();  // the loop may count its grace from when it runs again
  while (!ends_soon(stage)) {
    if (Clock::now() >= due && --looks_left < 0)
      return fail(Code::kTimeout,
                  "the join did not end within its deadline: the service thread of this process is held up");
    if (told_ || !request_.check) continue;
    const Status checked = request_.check();
    if (checked.ok()) continue;
    told_ = true;
    hub_->loop().post([self = shared_from_this(), checked] { self->report(checked); });
  }
  return {};
}

milliseconds JoinTask::look_pause() const { return kLookPause * std::clamp(request_.ranks / kLookRanks, 1, 4); }

bool JoinTask::ends_soon(Stage stage) {
  MutexLock lock(mutex_);
  const Clock::time_point end = Clock::now() + look_pause();
  while (stage_ == stage && changed_.wait_until(lock, end)) continue;
  return stage_ != stage;
}

/// Whether a root has accepted this rank, or the join has come further. It waits a little while for that.
bool JoinTask::is_taken_in() {
  MutexLock lock(mutex_);
  const Clock::time_point end = Clock::now() + look_pause();
  while (stage_ == Stage::kRunning && service_ != IdService::kServed && changed_.wait_until(lock, end)) continue;
  return stage_ != Stage::kRunning || service_ == IdService::kServed;
}

void JoinTask::set_stage(Stage stage) {
  const MutexLock lock(mutex_);
  stage_ = stage;
  changed_.notify_all();
}

void JoinTask::set_service(IdService service) {
  const MutexLock lock(mutex_);
  service_ = service;
  changed_.notify_all();
}

/// An exception in a step in the loop's thread ends the join, because nothing else would.
template <class Step>
void JoinTask::run_step(const Step& step) {
  try {
    step();
  } catch (...) {
    finish(what_was_thrown("a join"));
  }
}

void JoinTask::give_up_in_vain() {
  if (root_ == nullptr) finish(fail(Code::kTimeout, "the process that serves the unique id has not answered"));
}

void JoinTask::start() {
  if (const Status status = identify_host(request_.settings, &host_); !status.ok()) return finish(status);
  process_membership_ = hub_->membership(id_.nonce, id_.secret);
  if (!process_membership_->listener()) process_membership_->set_listener(make_recovery(*hub_, *process_membership_));
  const auto self = shared_from_this();
  const ProcessMembership::LocalRank local{.rank = request_.rank,
                                           .tcp = request_.settings.transport == TransportKind::kTcp,
                                           .terms = {.mesh = request_.mesh,
                                                     .reconnect_seconds = request_.settings.reconnect_seconds,
                                                     .tls = request_.settings.tls,
                                                     .host_id = host_.host}};
  linker_ =
      process_membership_->add_local(local, [self](const Status& why) { self->run_step([&] { self->linked(why); }); });
  arm_timers();
  dial_in_turn();
}

/// Ranks on the root's host dial at once. Its unix socket refuses those that are too many for a moment, and they try
/// again (Dialer).
void JoinTask::dial_in_turn() {
  if (std::any_of(id_.addresses.begin(), id_.addresses.end(), is_own_address)) return dial();
  dial_later(dial_pause(request_.rank, request_.ranks, request_.deadline.left(kLongTime)));
}

void JoinTask::dial_later(std::chrono::nanoseconds pause) {
  if (pause.count() == 0) return dial();
  hub_->loop().after(pause, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->process_membership_) self->dial();
  });
}

void JoinTask::arm_timers() {
  const auto weak = weak_from_this();
  const auto left = request_.deadline.left(kLongTime);
  warn_timer_ = hub_->loop().after(std::min<std::chrono::nanoseconds>(std::chrono::seconds(30), left / 2), [weak] {
    if (const auto self = weak.lock()) self->warn_of_missing();
  });
  if (request_.deadline.is_never()) return;
  // A rank that cannot reach another one reports that a little before the root ends the join at the deadline, because
  // only this rank knows what was tried.
  hub_->loop().after(left - std::min<std::chrono::nanoseconds>(left / 10, kEarly), [weak] {
    if (const auto self = weak.lock()) self->report_unreached();
  });
  deadline_timer_ = hub_->loop().after(left, [weak] {
    if (const auto self = weak.lock()) self->on_deadline();
  });
}

void JoinTask::dial() {
  std::vector<DialTarget> targets(1);
  if (const Status status = id_.socket_name(&targets[0].socket_name); !status.ok()) return finish(status);
  for (DialTarget& target : tcp_targets(id_.addresses, id_.port, request_.settings.tls))
    targets.push_back(std::move(target));
  const auto weak = weak_from_this();
  dialer_ = std::make_shared<Dialer>(hub_->loop(), std::move(targets), Role::kJoin, id_.nonce, id_.secret,
                                     [weak](const Status& why, std::shared_ptr<Connection> connection) {
                                       const auto self = weak.lock();
                                       if (self) self->run_step([&] { self->dialed(why, std::move(connection)); });
                                     });
  dialer_->start();
}

void JoinTask::dialed(const Status& why, std::shared_ptr<Connection> connection) {
  if (!connection) {
    if (why.code() == Code::kRemoteError && ++refusals_ < kMaxRefusals) return dial_later(kRejoinPause * refusals_);
    if (is_lack(why))
      return finish(
          fail(Code::kSystemError, "cannot connect to the process that serves the unique id: {}", why.text()));
    if (drops_ == 0) set_service(dialer_->unanswered() ? IdService::kSilent : IdService::kRefused);
    return finish(fail(Code::kRemoteError,
                       "nobody serves this unique id: it was used up, or the process that made it has ended ({})",
                       why.text()));
  }
  root_ = std::move(connection);
  set_service(IdService::kServed);
  listen_to_root();
  send_join();
}

/// Whether the connection that has ended is to be made again. What the rank has reported, it need not report twice.
/// Once it is ready, the root may have let all others begin, and would say that the id is used up.
bool JoinTask::was_dropped() { return !heard_ && !ready_ && !reported_ && own_failure_.ok() && ++drops_ < kMaxDrops; }

void JoinTask::listen_to_root() {
  const auto weak = weak_from_this();
  ConnectionEvents events;
  events.on_message = [weak](MessageType type, ByteView payload) {
    const auto self = weak.lock();
    Status status;
    if (self) self->heard_ = true;
    if (self) self->run_step([&] { status = self->on_message(type, payload); });
    return status;
  };
  events.on_close = [weak](const Status& closed) {
    const auto self = weak.lock();
    if (!self) return;
    self->root_.reset();
    if (self->was_dropped()) return self->dial_later(kRejoinPause * std::min(self->drops_, kLongestPause));
    self->finish(!self->own_failure_.ok()
                     ? self->own_failure_
                     : fail(Code::kRemoteError, "the process that serves the unique id ended during the join ({})",
                            closed.text()));
  };
  root_->set_limit(64 * 1024 * 1024);
  root_->set_events(std::move(events));
}

void JoinTask::send_join() {
  JoinMessage join;
  join.member = self();
  join.ranks = request_.ranks;
  join.agreed = request_.agreed;
  if (request_.rank == Rank{0}) join.costs_text = request_.costs_text;
  if (!request_.deadline.is_never()) {
    const auto left = std::chrono::ceil<milliseconds>(request_.deadline.left(kLongTime));
    join.timeout_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(left.count(), 1));
  }
  root_->send(MessageType::kJoin, encode(join));
}

Member JoinTask::self() const {
  Member member;
  member.rank = request_.rank;
  member.pid = static_cast<std::uint32_t>(::getpid());
  member.process = hub_->process();
  member.host = std::make_shared<const MemberHost>(
      MemberHost{.name = host_name(), .id = host_.host, .boot_id = host_.boot_id, .addresses = hub_->addresses()});
  member.resources =
      std::make_shared<const MemberResources>(MemberResources{.cores = core_list_text(request_.cores),
                                                              .segment_bytes = request_.segment_bytes.value,
                                                              .device = request_.device});
  member.port = hub_->port();
  return member;
}

Status JoinTask::on_message(MessageType type, ByteView payload) {
  switch (type) {
    case MessageType::kMissing:
      return take_missing(payload);
    case MessageType::kTable:
      if (!linker_) return fail(Code::kRemoteError, "the root counts a rank twice");
      return linker_->begin(payload);
    case MessageType::kTableSource: {
      TableSourceMessage source;
      TUTTI_TRY(decode(payload, &source));
      if (!linker_) return fail(Code::kRemoteError, "the root counts a rank twice");
      return linker_->follow(source);
    }
    case MessageType::kGo:
      return take_go(payload);
    case MessageType::kAskWhy:
      answer_why();
      return {};
    case MessageType::kFailure: {
      FailureMessage failure;
      TUTTI_TRY(decode(payload, &failure));
      // The id was used up.
      if (failure.code == Code::kInvalidUsage && !process_membership_->member_table()) set_service(IdService::kRefused);
      all_fail_ = true;
      // The root may answer with what other ranks saw of this rank's failure. If this rank lacks memory or descriptors,
      // it knows the cause better.
      finish(own_failure_.code() == Code::kSystemError ? own_failure_ : Status(failure.code, failure.text));
      return {};
    }
    default:
      return fail(Code::kRemoteError, "a message that a joining rank does not expect");
  }
}

Status JoinTask::take_missing(ByteView payload) {
  MissingMessage message;
  TUTTI_TRY(decode(payload, &message));
  missing_ = std::move(message.who);
  return {};
}

void JoinTask::linked(const Status& why) {
  if (!why.ok()) return report(why);
  if (const int told = process_membership_->member_table()->ranks(); told != request_.ranks)
    return report(fail(Code::kRemoteError,
                       "the process that serves the unique id tells of {} ranks, and this is one of {}", told,
                       request_.ranks));
  set_stage(Stage::kLinked);
}

void JoinTask::send_ready() {
  if (!root_) return;
  ready_ = true;
  root_->send(MessageType::kReady, encode(ReadyMessage{process_membership_->maps_host()}));
}

Status JoinTask::take_go(ByteView payload) {
  GoMessage go;
  TUTTI_TRY(decode(payload, &go));
  if (!ready_) return fail(Code::kRemoteError, "a go out of turn: this rank is not ready");
  const MemberList& members = process_membership_->member_table()->members();
  JoinResult made;
  made.ranks_per_core = ranks_per_core_of(members);
  process_membership_->let_go(!go.apart.empty(), made.ranks_per_core);
  made.segments = process_membership_->segments();
  made.single_process = process_membership_->single_process();
  made.hosts = hosts_of(members, go.apart);
  made.all_mapped = std::all_of(made.hosts.begin(), made.hosts.end(), [](int host) { return host == 0; });
  made.same_host_id = have_one_host_id(members);
  made.processes = processes_of(process_membership_->connections().order(), members.size());
  made.costs_text = std::move(go.costs_text);
  made.same_boot_ranks = ranks_of_same_boot(members.host(request_.rank), members);
  // This rank knows its own cores even if their list is too long to travel.
  made.same_boot_cores = std::max(cores_of_same_boot(request_.rank, members), static_cast<int>(request_.cores.size()));
  const int here = made.hosts[static_cast<std::size_t>(request_.rank.value)];
  // A rank that counts as another host's is reached as such.
  made.segments.keep_only([&](Rank rank) { return made.hosts[static_cast<std::size_t>(rank.value)] == here; });
  made.membership = std::make_unique<Membership>(hub_, process_membership_, request_.rank);
  linker_.reset();  // from here on the membership takes the rank out of the group
  made.tcp_streams = std::make_unique<DataConnections>(hub_, process_membership_, request_.rank);
  {
    const MutexLock lock(mutex_);
    outcome_ = std::move(made);
  }
  finish(Status());
  return {};
}

void JoinTask::report(const Status& why) {
  if (!root_ || reported_) return finish(why);
  reported_ = true;
  own_failure_ = why;
  root_->send(MessageType::kFailure, encode(FailureMessage{why.code(), why.text()}));
  if (why.code() == Code::kAborted) return finish(why);  // an abort waits for nobody
  end_with_own_failure_later();  // the root answers with the first cause, which may be another rank's
}

void JoinTask::report_unreached() {
  if (!linker_ || !root_ || ready_ || reported_) return;
  const std::string text = linker_->unreached();
  if (text.empty()) return;
  own_failure_ = fail(Code::kTimeout, "{}", text);
  root_->send(MessageType::kLate, encode(FailureMessage{own_failure_.code(), own_failure_.text()}));
  end_with_own_failure_later();
}

/// The root takes a rank that neither is ready nor answers for the one that holds up the join.
void JoinTask::answer_why() {
  if (!linker_ || !root_ || ready_ || reported_) return;
  std::string text = linker_->unreached();
  if (text.empty()) text = fmt::format("rank {} has not got ready", request_.rank.value);
  root_->send(MessageType::kLate, encode(FailureMessage{Code::kTimeout, text}));
}

void JoinTask::end_with_own_failure_later() {
  hub_->loop().cancel(deadline_timer_);
  deadline_timer_ = hub_->loop().after(kGrace, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->finish(self->own_failure_);
  });
}

void JoinTask::on_deadline() {
  std::string text = "the join did not end within its deadline: ";
  if (!root_) {
    text += "no connection to the process that serves the unique id";
  } else {  // the root would have ended the join by now
    text += "the process that serves the unique id is silent";
    if (!missing_.empty()) text += "; it has last waited for " + missing_;
  }
  const Status late = fail(Code::kTimeout, "{}", text);
  if (!root_) return finish(late);
  deadline_timer_ = hub_->loop().after(kGrace, [weak = weak_from_this(), late] {
    if (const auto self = weak.lock()) self->finish(late);
  });
}

void JoinTask::warn_of_missing() {
  const std::string what = !root_             ? "the process that serves the unique id"
                           : missing_.empty() ? "other ranks to get ready"
                                              : missing_;
  log(LogLevel::kWarn, LogSource{request_.rank, request_.name}, "the join is waiting for {}", what);
}

/// Ends the joining thread's wait, whatever becomes of the rest of finish().
class JoinTask::Ending {
 public:
  Ending(JoinTask& task, const Status& why) : task_(task), why_(why) {}
  ~Ending() {
    const MutexLock lock(task_.mutex_);
    task_.status_ = why_;
    task_.stage_ = Stage::kDone;
    task_.changed_.notify_all();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  JoinTask& task_;
  const Status why_;
};

void JoinTask::finish(const Status& why) {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  const Ending ending(*this, why);
  hub_->loop().cancel(deadline_timer_);
  hub_->loop().cancel(warn_timer_);
  if (dialer_) dialer_->cancel();
  if (root_) root_->close();
  root_.reset();
  if (!std::exchange(linker_, nullptr)) return process_membership_.reset();
  try {
    if (ready_ && !all_fail_ && process_membership_->member_table())
      process_membership_->abandon(request_.rank, why);  // others may have gone on
  } catch (
      const std::bad_alloc&) {  // if this is the process's last rank, the others see the membership's connections end
  }
  process_membership_->remove_local(request_.rank);
  process_membership_.reset();
}

}  // namespace tutti
