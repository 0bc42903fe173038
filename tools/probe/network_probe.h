// What the network between the hosts of one job costs, measured with the library's own messages.
#pragma once

#include "core/costs.h"
#include "core/status.h"

namespace tutti::probe {

struct NetworkResult {
  int rank = 0;  ///< of this process
  int ranks = 0;
  int hosts = 0;
  int pairs = 0;     ///< ranks of a host that sent at once
  Time one_way = 0;  ///< from a send of 8 bytes until the other side has them: half a round trip, the median
  Time wire_kib = 0;
};

/// Joins the ranks that a launcher has started (env://), on two hosts or more, and measures between the first rank's
/// host and up to eight others in turn. Each host's ranks exchange messages with as many of the other's at once, both
/// ways, so that the link is the limit and not a processor. Takes about a second for each host. All ranks call it, and
/// all get the result; every wait ends as the library's do (TUTTI_TIMEOUT).
Status measure_network(NetworkResult* result);

}  // namespace tutti::probe
