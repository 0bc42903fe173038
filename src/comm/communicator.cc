#include "comm/communicator.h"

#include <cstdint>
#include <utility>

#include "comm/failure/finalization.h"
#include "comm/grow.h"
#include "comm/membership/hub.h"
#include "core/no_cancel.h"
#include "core/retry.h"
#include "core/wait_until.h"

namespace tutti {

Communicator::Communicator(const Settings& settings, std::string name, JoinResult&& joined,
                           std::unique_ptr<Executor>&& executor, std::shared_ptr<const AutomaticChoice> choice,
                           Oversubscription oversubscription)
    : settings_(settings),
      name_(std::move(name)),
      membership_(std::move(joined.membership)),
      segment_(joined.segments.of(membership_->rank())),
      tcp_streams_(std::move(joined.tcp_streams)),
      oversubscription_(std::move(oversubscription)),
      executor_(std::move(executor)),
      rank_(membership_->rank()),
      ranks_(membership_->ranks()),
      peers_(*membership_, executor_->links(), oversubscription_.ranks_per_core()),
      failures_(*membership_, log_source(), {[this] { device_calls_.stop_kernels(); }, [this] { wake(); }}),
      call_check_(settings, rank_, ranks_),
      call_driver_(settings, std::move(choice), peers_, failures_, judge_, *executor_, log_source()),
      judge_(peers_, failures_, call_driver_.running(), executor_->links(), executor_->transfers(),
             settings.reconnect_seconds, log_source()),
      kernels_(peers_, failures_, judge_),
      device_calls_(call_driver_, peers_, judge_, kernels_) {
  executor_->links().board().open();
}

void Communicator::start_listening() {
  membership_->set_listener([this] { on_membership_change(); });
  if (!machine().network) return;
  membership_->set_board(&executor_->links().board());
  start_link_service();
}

void Communicator::start_link_service() {
  call_driver_.share_links();
  link_service_ =
      std::make_shared<LinkService>(membership().hub()->loop(), call_driver_, oversubscription_.ranks_per_core());
  tcp_streams_->set_listener([this] {
    executor_->links().wake();
    link_service_->arrived();
  });
}

/// Called when the thread in Finalize begins to serve the links itself, and at the end.
void Communicator::stop_link_service() {
  if (link_service_ != nullptr && !hub_forked()) link_service_->stop();
}

Communicator::~Communicator() {
  end_grow_ids(*this);
  device_calls_.stop_watch();
  stop_link_service();
  tcp_streams_->set_listener({});
  membership_->set_listener({});
  membership_->set_board(nullptr);
}

void Communicator::on_membership_change() {
  judge_.raise_alarm();
  executor_->links().wake();
}

void Communicator::wake() {
  on_membership_change();
  turns().notify();
}

Status Communicator::check(CallArguments* arguments) const {
  TUTTI_TRY(call_check_.resolve_and_check(arguments));
  return device_calls_.exist() ? device_calls_.locate(arguments) : Status{};
}

Status Communicator::check(const Transfer& transfer) const {
  TUTTI_TRY(call_check_.check(transfer));
  return device_calls_.exist() ? device_calls_.locate(transfer) : Status{};
}

Status Communicator::run(CallArguments* arguments) {
  if (failures_.failed() || judge_.alarmed()) [[unlikely]]
    TUTTI_TRY(failures_.before_call());
  if (call_driver_.is_repeat(*arguments) && device_calls_.is_on_host(*arguments)) {
    if (!call_driver_.binder().has_same_buffers(*arguments)) TUTTI_TRY(call_check_.check(*arguments));
    // Among ranks that share memory a repeated call has no cancellation point, unless it waits for long.
    // WaitJudge::check() takes care of that.
    const NoCancel no_cancel(peers_.far_count() != 0 || device_calls_.exist() || arguments->op >= kRedOps);
    return call_driver_.run_again(*arguments);
  }
  const NoCancel no_cancel;
  TUTTI_TRY(call_check_.resolve_and_check(arguments));
  if (device_calls_.exist()) [[unlikely]]
    return device_calls_.run(arguments);
  return call_driver_.run(*arguments);
}

Status Communicator::run(std::span<Transfer> transfers) {
  if (failures_.failed() || judge_.alarmed()) TUTTI_TRY(failures_.before_call());
  for (const Transfer& transfer : transfers) TUTTI_TRY(call_check_.check(transfer));
  return device_calls_.exist() ? device_calls_.run(transfers) : call_driver_.run(transfers);
}

Status Communicator::begin(const CallArguments& arguments, bool* nothing_to_run, bool on_cuda_stream) {
  return device_calls_.exist() ? device_calls_.begin(arguments, nothing_to_run, on_cuda_stream)
                               : call_driver_.begin(arguments, nothing_to_run);
}

Status Communicator::begin(std::span<Transfer> transfers) {
  return device_calls_.exist() ? device_calls_.begin(transfers) : call_driver_.begin(transfers);
}

bool Communicator::deregister(std::uint64_t handle) {
  const void* begin = nullptr;
  if (!registered().remove(handle, &begin)) return false;
  device_calls_.withdraw(begin);
  return true;
}

// Finalize is a collective that moves nothing.
Status Communicator::finalize() {
  if (const Status status = call_driver_.wait_until_quiet(); !status.ok() && !failures_.failed()) return status;
  if (finalized()) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator before", rank_.value);
  call_driver_.close();
  if (failures_.failed()) {
    retry_without_memory([this] { membership().abandon(); });  // it will not shrink, and nobody is to wait for it
    return failures_.status();
  }
  TUTTI_TRY(kernels_.wait(call_driver_.running().call));
  device_calls_.stop_watch();
  stop_link_service();
  const std::uint64_t last = call_driver_.begin_finalize();
  membership().publish_board();
  const bool spans_processes = device_calls_.exist() && device_calls_.side()->spans_processes();
  const Status status = Finalization(peers_, failures_, judge_, executor_->links(), last, spans_processes,
                                     oversubscription_.ranks_per_core())
                            .run();
  executor_->links().board().end(last + 1);
  membership().say_goodbye(last, status.ok());
  // Peers that have not heard the goodbye after this time take the rank for dead, if they cannot reach it.
  constexpr double kGoodbyeSeconds = 2;
  (void)wait_until([this] { return membership().delivered(); }, Deadline::in(kGoodbyeSeconds),
                   Finalization::pace(oversubscription_.ranks_per_core()));
  return status;
}

Status Communicator::async_error() {
  if (failures_.failed()) return failures_.status();
  TUTTI_TRY(kernels_.look_at_graphs());
  TUTTI_TRY(failures_.adopt_cause());
  peers_.ask_now_and_then();  // a call that only sent on every rank tells nobody of a disagreement
  TUTTI_TRY(judge_.look_for_past_disagreement(executor_->links().board().state().sequence));
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (peers_.liveness(peer) != Liveness::kDead) continue;
    TUTTI_TRY(failures_.adopt_cause());  // a rank that posts a cause does so before it dies
    return Status(Code::kRemoteError, peers_.describe_end(peer));
  }
  return {};
}

Settings Communicator::settings() const {
  Settings now = settings_;
  now.timeout_seconds = call_driver_.timeout();
  return now;
}

}  // namespace tutti
