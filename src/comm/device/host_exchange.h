// All-gathers among the ranks while their devices are set up. The host executor runs them, because there is no
// communicator yet.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "comm/membership/membership.h"
#include "core/clock.h"
#include "core/wait_monitor.h"
#include "executor/executor.h"
#include "transport/rank_exchange.h"

namespace tutti {

/// Its waits end if a rank dies or posts a cause, or has left and sent nothing, and at the deadline, with an error that
/// names the rank that did not come. It uses the membership's listener. One thread.
class HostExchange final : public RankExchange, public WaitMonitor {
 public:
  HostExchange(Executor& host, Membership& membership, Deadline deadline);
  ~HostExchange() override { membership_.set_listener({}); }

  Status exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) override;
  /// Does what exchange() does among some ranks, which are in rank order and include this one. `round` is the number of
  /// their exchange.
  Status exchange_among(std::span<const int> members, std::uint64_t round, std::span<const std::byte> mine,
                        std::vector<std::byte>* all);
  /// Judges the exchange's waits, and other waits for these ranks, such as a kernel's.
  Status check(Rank awaited, std::uint64_t progress) override;
  /// Not ok if an exchange has failed. Then the executor's links are of no more use.
  const Status& failure() const { return failure_; }

 private:
  bool may_have_sent(Rank left);

  Executor& host_;
  Membership& membership_;
  const Deadline deadline_;
  std::map<Rank, Deadline> left_;  // how long a rank that has left is still waited for
  std::uint64_t rounds_ = 0;
  Status failure_;
};

/// The exchange of some of the ranks. No two ranks are together in several such groups. `all` outlives it.
class GroupExchange final : public RankExchange {
 public:
  GroupExchange(HostExchange& all, std::vector<int> members) : all_(all), members_(std::move(members)) {}

  Status exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) override {
    return all_.exchange_among(members_, ++rounds_, mine, all);
  }
  int number(std::size_t i) const override { return members_[i]; }

 private:
  HostExchange& all_;
  const std::vector<int> members_;
  std::uint64_t rounds_ = 0;
};

}  // namespace tutti
