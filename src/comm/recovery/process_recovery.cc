#include "comm/recovery/process_recovery.h"

#include <chrono>
#include <utility>

#include "core/retry.h"

namespace tutti {
namespace {

/// An agreement counts its patience in these.
constexpr std::chrono::milliseconds kTick{500};
constexpr std::chrono::milliseconds kLongWait{std::chrono::hours(24 * 365)};

std::shared_ptr<const Agreement::Layout> layout_of(const ProcessOrder& order) {
  auto layout = std::make_shared<Agreement::Layout>(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    for (const Rank rank : order[place].ranks) (*layout)[place].add(rank);
  return layout;
}

Status left_out(const std::vector<Rank>& ranks) {
  return fail(Code::kRemoteError, "{} {} left out by a shrink", text_of(ranks), ranks.size() == 1 ? "was" : "were");
}

ShrinkCall::End without_members(const Status& why) { return {.status = why, .nonce = {}, .members = {}}; }

}  // namespace

ProcessRecovery::ProcessRecovery(Hub& hub, ProcessMembership& membership, IdServer server)
    : hub_(hub),
      membership_(membership),
      server_(std::move(server)),
      leaving_(fail(Code::kInvalidUsage, "this rank leaves the communicator that shrinks")) {}

ProcessRecovery::~ProcessRecovery() {
  hub_.loop().cancel(tick_timer_);
  for (const auto& [rank, call] : calls_) call->end(without_members(failure_.ok() ? leaving_ : failure_));
}

/// After a step that was left undone nobody knows what the agreement has promised. So this process ends for the others.
template <class Step>
void ProcessRecovery::run(const Step& step) {
  if (!failure_.ok()) return;
  try {
    step();
    perform();
    keep_time();
  } catch (...) {
    give_up(what_was_thrown("a shrink"));
  }
}

void ProcessRecovery::on_failure(const Status& why) {
  if (failure_.ok() && agreement_ && agreement_->is_active()) give_up(why);
}

void ProcessRecovery::give_up(const Status& why) {
  failure_ = why;
  hub_.loop().cancel(std::exchange(tick_timer_, 0));
  for (const auto& [rank, call] : std::exchange(calls_, {})) call->end(without_members(why));
  for (const Rank rank : membership_.present_ranks()) retry_without_memory([&] { membership_.abandon(rank, why); });
}

Agreement& ProcessRecovery::agreement() {
  if (!agreement_) {
    const ControlConnections& connections = membership_.connections();
    agreement_.emplace(layout_of(connections.order()), connections.self());
    post_ends();
  }
  return *agreement_;
}

/// If the service thread was held up, the caller may have gone before it comes to the call.
void ProcessRecovery::call(const std::shared_ptr<ShrinkCall>& call) {
  if (!failure_.ok()) return call->end(without_members(failure_));
  if (call->is_abandoned()) return;
  const bool again = calls_.contains(call->rank());  // the one before was abandoned
  calls_.insert_or_assign(call->rank(), call);
  run([&] {
    if (again) agreement().withdraw(call->rank());
    if (!agreement().call(call->rank(), call->excluded())) {
      call->end(without_members(left_out({call->rank()})));
      calls_.erase(call->rank());
      return;
    }
    if (call->deadline().is_never()) return;
    hub_.loop().after(call->deadline().left(kLongWait), [weak = weak_from_this(), late = std::weak_ptr(call)] {
      const auto self = weak.lock();
      const auto waiting = late.lock();
      if (!self || !waiting || waiting->has_ended() || waiting->is_abandoned()) return;
      self->run([&] { self->agreement().overdue(); });
    });
  });
}

void ProcessRecovery::look_at_calls() {
  if (agreement_) run([this] { take_reports(); });
}

void ProcessRecovery::take_reports() {
  for (auto item = calls_.begin(); item != calls_.end();) {
    const auto [rank, call] = *item;
    if (const auto report = call->take_report()) agreement_->built(rank, report->number, report->why);
    const bool is_abandoned = call->is_abandoned();
    item = is_abandoned ? calls_.erase(item) : std::next(item);
    if (is_abandoned) agreement_->withdraw(rank);
  }
}

void ProcessRecovery::tick() {
  take_reports();
  post_ends();
  agreement_->tick();
}

Status ProcessRecovery::on_message(std::size_t from, MessageType type, ByteView payload) {
  ShrinkReport report;
  ShrinkOrder order;
  const bool reports = type == MessageType::kShrinkReport;
  TUTTI_TRY(reports ? decode(payload, &report) : decode(payload, &order));
  bool fits = true;
  run([&] { fits = reports ? agreement().take(from, report) : agreement().take(from, order); });
  return fits ? Status() : fail(Code::kRemoteError, "a shrink message that makes no sense");
}

void ProcessRecovery::on_connected(std::size_t place) {
  if (agreement_) run([&] { agreement_->connected(place); });
}

void ProcessRecovery::on_ends() {
  if (agreement_) run([this] { post_ends(); });
}

void ProcessRecovery::on_leave(Rank) {
  on_ends();
  if (membership_.present_ranks().empty()) withdraw_id();
}

void ProcessRecovery::post_ends() {
  const ControlConnections& connections = membership_.connections();
  for (std::size_t place = 0; place < connections.order().size(); ++place)
    if (place != connections.self() && !connections.is_present(place) && lost_.add(place)) agreement_->lost(place);
  const MemberTable& table = *membership_.member_table();
  for (const Rank rank : membership_.local_ranks()) {
    const bool is_here = membership_.present_ranks().contains(rank) && table.liveness(rank) == Liveness::kAlive;
    if (is_here || !left_.add(rank)) continue;
    if (const auto waiting = calls_.extract(rank)) waiting.mapped()->end(without_members(leaving_));
    agreement_->leave(rank);
  }
}

void ProcessRecovery::perform() {
  while (agreement_) {
    const std::vector<Agreement::Action> actions = agreement_->take_actions();
    if (actions.empty()) return;
    for (const Agreement::Action& action : actions) std::visit([this](const auto& one) { perform(one); }, action);
  }
}

void ProcessRecovery::perform(const Agreement::SendReport& action) {
  membership_.send_to(action.to, MessageType::kShrinkReport, encode(action.report));
}

void ProcessRecovery::perform(const Agreement::SendOrder& action) {
  membership_.send_to(action.to, MessageType::kShrinkOrder, encode(action.order));
}

void ProcessRecovery::perform(const Agreement::MakeId& action) {
  withdraw_id();
  UniqueId id;
  Status made = random_bytes(id.nonce);
  if (made.ok()) made = membership_.secret_of_child(id.nonce, &id.secret);
  hub_.locate(&id);
  if (made.ok()) made = server_.serve(id);
  if (made.ok()) served_ = id.nonce;
  id.secret = Key{};
  agreement_->id_made(action.number, id.encode(), made);
}

void ProcessRecovery::perform(const Agreement::Build& action) {
  ShrinkCall::Build build{.number = action.number, .id = {}, .members = action.proposal.members.ranks()};
  Status known = UniqueId::decode(action.proposal.id, &build.id);
  if (known.ok()) known = membership_.secret_of_child(build.id.nonce, &build.id.secret);
  for (const auto& [rank, call] : calls_) {
    if (!action.proposal.members.has(rank)) continue;
    if (known.ok())
      call->build(build);
    else
      agreement_->built(rank, action.number, known);
  }
}

void ProcessRecovery::perform(const Agreement::End& action) {
  withdraw_id();
  if (action.proposal.code == Code::kOk) post_left_out(action.proposal.members);
  for (auto item = calls_.begin(); item != calls_.end(); item = calls_.erase(item))
    end_call(*item->second, action.proposal);
}

void ProcessRecovery::end_call(ShrinkCall& call, const Proposal& proposal) const {
  ShrinkCall::End end;
  end.members = proposal.members.ranks();
  UniqueId id;
  if (proposal.code != Code::kOk)
    end.status = fail(proposal.code, "{}", proposal.text);
  else if (!proposal.members.has(call.rank()))
    end.status = left_out({call.rank()});
  else
    end.status = UniqueId::decode(proposal.id, &id);
  end.nonce = id.nonce;
  call.end(std::move(end));
}

/// Ends the service of the last id, unless ranks are joining by it: their join ends by itself.
void ProcessRecovery::withdraw_id() {
  if (served_) server_.withdraw(*std::exchange(served_, std::nullopt));
}

/// Fails the old communicator if ranks that live are left out: the others would wait for them.
void ProcessRecovery::post_left_out(const NumberSet& members) {
  const MemberTable& table = *membership_.member_table();
  std::vector<Rank> ranks;
  for (Rank rank{0}; rank.value < table.ranks(); ++rank)
    if (!members.has(rank) && table.liveness(rank) == Liveness::kAlive) ranks.push_back(rank);
  if (ranks.empty() || membership_.present_ranks().empty()) return;
  const Status why = left_out(ranks);
  membership_.post_cause_here(FailureCause{.code = why.code(),
                                           .from = *membership_.present_ranks().begin(),
                                           .culprit = ranks.front(),
                                           .text = why.text(),
                                           .ends_calls = true});
}

void ProcessRecovery::keep_time() {
  if (tick_timer_ != 0 || !agreement_ || !agreement_->is_active()) return;
  tick_timer_ = hub_.loop().after(kTick, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->tick_timer_ = 0;
    self->run([&] { self->tick(); });
  });
}

namespace {

/// Runs a task of the recovery of the rank's process in the service thread.
template <class Task>
void post(Membership& membership, Task task) {
  membership.hub()->loop().post([of_process = membership.of_process(), task = std::move(task)] {
    if (const auto listener = of_process->listener()) task(static_cast<ProcessRecovery&>(*listener));
  });
}

}  // namespace

Status begin_shrink(Membership& membership, const std::shared_ptr<ShrinkCall>& call) {
  return membership.hub()->ask([of_process = membership.of_process(), call](const std::shared_ptr<Hub>&) {
    const auto listener = of_process->listener();
    if (!listener) return fail(Code::kInvalidUsage, "the communicator is closed");
    static_cast<ProcessRecovery&>(*listener).call(call);
    return Status();
  });
}

void hurry_shrink(Membership& membership) {
  post(membership, [](ProcessRecovery& recovery) { recovery.look_at_calls(); });
}

}  // namespace tutti
