#include "comm/membership/rank_membership.h"

#include <chrono>
#include <utility>

#include "core/retry.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kCloseTimeout{50};

}  // namespace

RankMembership::RankMembership(std::shared_ptr<Hub> hub, std::shared_ptr<Group> group, Rank rank)
    : hub_(std::move(hub)),
      group_(std::move(group)),
      member_table_(group_->member_table()),
      slot_(std::make_shared<ListenerSlot>()),
      rank_(rank) {
  member_table_->add_listener(slot_);
}

RankMembership::~RankMembership() {
  if (hub_forked()) {  // the parent's: its locks may be held by threads that are not here
    Hub::keep_until_exit(new std::pair(std::move(hub_), std::move(group_)));
    return;
  }
  member_table_->remove_listener(slot_);
  slot_->set({});
  group_->boards().set_own(rank_, nullptr);
  // Without memory for messages, the ranks of this process at least see that this one is gone.
  if (!retry_without_memory([this] { group_->abandon(rank_, Status()); }) &&
      member_table_->end_life(rank_, Liveness::kDead, 0))
    member_table_->notify();
  // Waited for, so that the descriptors are gone on return; not for long, should the service thread be held up.
  retry_without_memory(
      [this] { hub_->loop().call([group = group_, rank = rank_] { group->remove_local(rank); }, kCloseTimeout); });
}

void RankMembership::post_cause(const FailureCause& cause) {
  if (hub_forked() || posted_.exchange(true, std::memory_order_acq_rel)) return;
  try {
    group_->post_cause(rank_, cause);
  } catch (...) {  // the caller tries again
    posted_.store(false, std::memory_order_release);
    throw;
  }
}

void RankMembership::say_goodbye(std::uint64_t last_sequence) {
  if (!hub_forked()) group_->say_goodbye(rank_, last_sequence);
}

void RankMembership::set_board(const CallBoard* board) {
  if (!hub_forked()) group_->boards().set_own(rank_, board);
}

void RankMembership::ask_boards(const std::vector<Rank>& of) {
  if (hub_forked()) return;
  hub_->loop().post([group = group_, of] { group->ask_boards(of); });
}

void RankMembership::publish_board() {
  if (!hub_forked()) group_->publish_board(rank_);
}

}  // namespace tutti
