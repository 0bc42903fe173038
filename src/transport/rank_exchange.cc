#include "transport/rank_exchange.h"

#include <algorithm>

#include "transport/rank_status.h"

namespace tutti {

Status RankExchange::agree(const Status& mine) {
  std::vector<RankStatus> statuses;
  TUTTI_TRY(exchange_plain(RankStatus::of(mine), &statuses));
  // A rank that only found others late waited because of what another one found.
  const auto worst = std::min_element(statuses.begin(), statuses.end(), [](const RankStatus& a, const RankStatus& b) {
    return a.severity() < b.severity();
  });
  return worst->from(number(static_cast<std::size_t>(worst - statuses.begin())));
}

}  // namespace tutti
