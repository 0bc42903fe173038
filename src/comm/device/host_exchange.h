// The ranks' exchange while their devices are set up: all-gathers of the host's executor, before there is a
// communicator that could run one.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/membership/membership.h"
#include "core/clock.h"
#include "core/wait_monitor.h"
#include "executor/executor.h"
#include "transport/rank_exchange.h"

namespace tutti {

/// Its waits end when a rank dies or leaves, when one gives a cause, and at the deadline, which names the rank that did
/// not come. Uses the membership's listener. One thread.
class HostExchange final : public RankExchange, public WaitMonitor {
 public:
  HostExchange(Executor& host, Membership& membership, Deadline deadline);
  ~HostExchange() override { membership_.set_listener({}); }

  Status exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) override;
  /// The same by some ranks, this one among them; in rank order. `round`: theirs.
  Status exchange_among(std::span<const int> members, std::uint64_t round, std::span<const std::byte> mine,
                        std::vector<std::byte>* all);
  /// Also for other waits for these ranks, such as a kernel's.
  Status check(Rank awaited, std::uint64_t progress) override;
  /// Not ok: an exchange has failed. The executor's links carry nothing sensible any more.
  const Status& failure() const { return failure_; }

 private:
  Executor& host_;
  Membership& membership_;
  const Deadline deadline_;
  std::uint64_t rounds_ = 0;
  Status failure_;
};

/// Of some of the ranks. No two ranks are together in several groups. `all` outlives it.
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
