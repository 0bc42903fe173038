// The membership of one rank: its face of the group.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "comm/membership/group.h"
#include "comm/membership/hub.h"
#include "comm/membership/membership.h"

namespace tutti {

class RankMembership final : public Membership {
 public:
  RankMembership(std::shared_ptr<Hub> hub, std::shared_ptr<Group> group, Rank rank);
  ~RankMembership() override;

  Rank rank() const override { return rank_; }
  int ranks() const override { return member_table_->ranks(); }
  std::uint64_t comm_id() const override { return member_table_->comm_id(); }
  Status secret_of_child(const KeyId& nonce, Key* secret) const override {
    return group_->secret_of_child(nonce, secret);
  }
  Liveness liveness(Rank rank) const override { return member_table_->liveness(rank); }
  std::uint64_t last_sequence(Rank rank) const override { return member_table_->last_sequence(rank); }
  std::string describe(Rank rank) const override { return member_table_->describe(rank); }
  FailureCause cause() const override { return member_table_->cause(); }
  void post_cause(const FailureCause& cause) override;
  void say_goodbye(std::uint64_t last_sequence) override;
  void set_listener(std::function<void()> listener) override { slot_->set(std::move(listener)); }
  void set_board(const CallBoard* board) override;
  const CallBoard* board(Rank peer) const override { return group_->boards().copy(peer); }
  void ask_boards(const std::vector<Rank>& of) override;
  void publish_board() override;

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<MemberTable> member_table_;
  std::shared_ptr<ListenerSlot> slot_;
  const Rank rank_;
  std::atomic<bool> posted_{false};  // exchanged: of several threads that post at once one sends
};

}  // namespace tutti
