#include "comm/device/host_exchange.h"

#include <algorithm>

#include "collectives/choice/catalogue.h"
#include "executor/host_gather.h"

namespace tutti {

namespace {
/// The numbers of rounds among some of the ranks begin here.
constexpr std::uint64_t kAmong = std::uint64_t{1} << 31;
/// How long what a rank sent before it left may be on its way.
constexpr double kLeaversLastWords = 2;  // seconds
}  // namespace

HostExchange::HostExchange(Executor& host, Membership& membership, Deadline deadline)
    : host_(host), membership_(membership), deadline_(deadline) {
  membership_.set_listener([this] {
    alarm_.store(1, std::memory_order_release);
    host_.links().wake();
  });
}

Status HostExchange::exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) {
  TUTTI_TRY(failure_);
  const Algorithm& algorithm = *find_algorithm(Collective::kAllGather, "all_pairs");
  const Schedule all_gather =
      build_schedule(algorithm, Shape{membership_.ranks(), membership_.rank().value, 0, 1, nullptr});
  return failure_ = gather_bytes(host_, all_gather, ++rounds_, mine, all, *this);
}

// The algorithm is a ring, because its steps name each peer. Only links between two of the members carry these rounds.
Status HostExchange::exchange_among(std::span<const int> members, std::uint64_t round, std::span<const std::byte> mine,
                                    std::vector<std::byte>* all) {
  TUTTI_TRY(failure_);
  const auto place = std::find(members.begin(), members.end(), membership_.rank().value) - members.begin();
  const Algorithm& algorithm = *find_algorithm(Collective::kAllGather, "ring");
  Schedule all_gather =
      build_schedule(algorithm, Shape{static_cast<int>(members.size()), static_cast<int>(place), 0, 1, nullptr});
  (void)renumber_peers(members, &all_gather);
  return failure_ = gather_bytes(host_, all_gather, kAmong + round, mine, all, *this);
}

Status HostExchange::check(Rank awaited, std::uint64_t) {
  alarm_.store(0, std::memory_order_relaxed);  // what raised it is looked at below
  const FailureCause cause = membership_.cause();
  if (cause.code != Code::kOk) return fail(cause.code, "{} (told by rank {})", cause.text, cause.from.value);
  for (Rank peer{0}; peer.value < membership_.ranks(); ++peer) {
    const Liveness liveness = membership_.liveness(peer);
    if (liveness == Liveness::kAlive || (liveness == Liveness::kLeft && may_have_sent(peer))) continue;
    return fail(Code::kRemoteError, "{} while the ranks set up their devices", membership_.describe_end(peer));
  }
  if (host_.mismatched() != kNoRank)
    return fail(Code::kMismatch, "rank {} does not set up its device as rank {} does", host_.mismatched().value,
                membership_.rank().value);
  if (!deadline_.passed()) return {};
  const Rank late = awaited == kNoRank ? membership_.rank() : awaited;
  return fail(Code::kTimeout, "rank {} waited until the deadline of the join for rank {} ({}) to set up its device",
              membership_.rank().value, late.value, membership_.describe(late));
}

// A rank whose join has ended may leave while others still wait for what it sent last.
bool HostExchange::may_have_sent(Rank left) {
  return !left_.try_emplace(left, Deadline::in(kLeaversLastWords)).first->second.passed();
}

}  // namespace tutti
