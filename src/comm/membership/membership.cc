#include "comm/membership/membership.h"

#include <chrono>
#include <utility>

#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"
#include "core/retry.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kCloseTimeout{50};

}  // namespace

Membership::Membership(std::shared_ptr<Hub> hub, std::shared_ptr<ProcessMembership> membership, Rank rank)
    : hub_(std::move(hub)),
      process_membership_(std::move(membership)),
      member_table_(process_membership_->member_table()),
      slot_(std::make_shared<ListenerSlot>()),
      rank_(rank) {
  member_table_->add_listener(slot_);
}

Membership::~Membership() {
  if (hub_forked()) {  // these objects are the parent's; their locks may be held by threads that are not here
    Hub::keep_until_exit(new std::pair(std::move(hub_), std::move(process_membership_)));
    return;
  }
  member_table_->remove_listener(slot_);
  slot_->set({});
  process_membership_->boards().set_own(rank_, nullptr);
  // If there is no memory for messages, at least the ranks of this process see that this one is gone.
  if (!retry_without_memory([this] { process_membership_->abandon(rank_, Status()); }) &&
      member_table_->end_life(rank_, Liveness::kDead, 0))
    member_table_->notify();
  // The call is waited for, so that the descriptors are gone on return, but not for long, in case the service thread is
  // held up.
  retry_without_memory([this] {
    hub_->loop().call([membership = process_membership_, rank = rank_] { membership->remove_local(rank); },
                      kCloseTimeout);
  });
}

int Membership::ranks() const { return member_table_->ranks(); }

std::uint64_t Membership::comm_id() const { return member_table_->comm_id(); }

Status Membership::secret_of_child(const KeyId& nonce, Key* secret) const {
  return process_membership_->secret_of_child(nonce, secret);
}

Liveness Membership::liveness(Rank rank) const { return member_table_->liveness(rank); }

std::uint64_t Membership::last_sequence(Rank rank) const { return member_table_->last_sequence(rank); }

std::string Membership::describe(Rank rank) const { return member_table_->describe(rank); }

std::uint64_t Membership::finished_by_all() const { return member_table_->finished_by_all(); }

const std::string& Membership::device(Rank rank) const { return member_table_->members().device(rank); }

bool Membership::was_unreachable(Rank rank) const { return member_table_->was_unreachable(rank); }

std::string Membership::describe_end(Rank rank) const { return member_table_->describe_end(rank); }

FailureCause Membership::cause() const { return member_table_->cause(); }

void Membership::set_listener(std::function<void()> listener) { slot_->set(std::move(listener)); }

const CallBoard* Membership::board(Rank peer) const { return process_membership_->boards().copy(peer); }

Clock::duration Membership::unanswered(Rank peer) const {
  return liveness(peer) == Liveness::kAlive ? process_membership_->boards().unanswered(peer, Clock::now())
                                            : Clock::duration{};
}

void Membership::post_cause(const FailureCause& cause) {
  if (hub_forked() || posted_.exchange(true, std::memory_order_acq_rel)) return;
  try {
    process_membership_->post_cause(rank_, cause);
  } catch (...) {  // the caller tries again
    posted_.store(false, std::memory_order_release);
    throw;
  }
}

void Membership::say_goodbye(std::uint64_t last_sequence, bool finished_by_all) {
  if (!hub_forked()) process_membership_->say_goodbye(rank_, last_sequence, finished_by_all);
}

bool Membership::delivered() const { return hub_forked() || process_membership_->delivered(); }

void Membership::abandon() {
  if (!hub_forked()) process_membership_->abandon(rank_, Status());
}

void Membership::set_board(const CallBoard* board) {
  if (!hub_forked()) process_membership_->boards().set_own(rank_, board);
}

void Membership::ask_boards(const std::vector<Rank>& of, int dials) {
  if (hub_forked()) return;
  hub_->loop().post([membership = process_membership_, of, dials] { membership->ask_boards(of, dials); });
}

void Membership::publish_board() {
  if (!hub_forked()) process_membership_->publish_board(rank_);
}

}  // namespace tutti
