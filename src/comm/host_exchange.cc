#include "comm/host_exchange.h"

#include "collectives/catalogue.h"
#include "executor/host_gather.h"

namespace tutti {

HostExchange::HostExchange(Executor& host, Membership& membership, Deadline deadline)
    : host_(host), membership_(membership), deadline_(deadline) {
  membership_.set_listener([this] {
    alarm_.store(1, std::memory_order_release);
    host_.wake();
  });
}

Status HostExchange::exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) {
  TUTTI_TRY(failure_);
  const Algorithm& all_gather = *find_algorithm(Collective::kAllGather, "all_pairs");
  failure_ = gather_bytes(host_, all_gather, membership_.rank(), membership_.ranks(), ++rounds_, mine, all, *this);
  return failure_;
}

Status HostExchange::check(Rank missing, std::uint64_t) {
  alarm_.store(0, std::memory_order_relaxed);  // what raised it is looked at below
  const Cause cause = membership_.cause();
  if (cause.code != Code::kOk) return fail(cause.code, "{} (told by rank {})", cause.text, cause.from.value);
  for (Rank peer{0}; peer.value < membership_.ranks(); ++peer) {
    if (membership_.life(peer) == Life::kAlive) continue;
    return fail(Code::kRemoteError, "rank {} ({}) {} while the ranks set up their devices", peer.value,
                membership_.describe(peer), membership_.life(peer) == Life::kDead ? "died" : "left");
  }
  if (host_.mismatched() != kNoRank)
    return fail(Code::kMismatch, "rank {} does not set up its device as rank {} does", host_.mismatched().value,
                membership_.rank().value);
  if (!deadline_.passed()) return {};
  const Rank late = missing == kNoRank ? membership_.rank() : missing;
  return fail(Code::kTimeout, "rank {} waited until the deadline of the join for rank {} ({}) to set up its device",
              membership_.rank().value, late.value, membership_.describe(late));
}

}  // namespace tutti
