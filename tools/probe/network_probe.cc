#include "probe/network_probe.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/api/handle.h"
#include "core/clock.h"
#include "schedule/host_map.h"
#include "tutti/tutti.h"

namespace tutti::probe {
namespace {

constexpr int kMostHosts = 8;
constexpr int kRoundTrips = 200;
constexpr int kWarmUp = 20;
constexpr std::size_t kMessage = std::size_t{1} << 20;
constexpr int kRuns = 3;
/// The time that one run of the exchange should take, and the fewest and the most messages that it has.
constexpr double kRunSeconds = 0.15;
constexpr int kFewestMessages = 2;
constexpr int kMostMessages = 1000;

Status check(tuttiResult_t result, tuttiComm_t comm) {
  return result == tuttiSuccess ? Status() : fail(static_cast<Code>(result), "{}", tuttiGetLastError(comm));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// One rank's part. All ranks make the same calls of measure_with(), in the same order.
class Prober {
 public:
  Prober(tuttiComm_t comm, const HostMap& hosts) : comm_(comm), out_(kMessage), in_(kMessage) {
    (void)tuttiCommUserRank(comm, &rank_);
    for (int host = 0; host < hosts.hosts; ++host) ranks_of_.push_back(ranks_of_host(hosts, host));
  }

  int rank() const { return rank_; }
  int hosts() const { return static_cast<int>(ranks_of_.size()); }
  int pairs_with(int host) const { return static_cast<int>(std::min(on(0).size(), on(host).size())); }

  /// Times in seconds, on all ranks: half a round trip of 8 bytes, and what a byte takes on the link, each way.
  Status measure_with(int host, double* one_way, double* a_byte) {
    peer_ = -1;
    const int pairs = pairs_with(host);
    for (int i = 0; i < pairs; ++i) {
      const int near = on(0)[static_cast<std::size_t>(i)], far = on(host)[static_cast<std::size_t>(i)];
      if (rank_ == near) peer_ = far;
      if (rank_ == far) peer_ = near;
    }
    TUTTI_TRY(agree_on_first(rank_ == 0 || rank_ == on(host)[0] ? round_trips(one_way) : Status(), one_way));
    double first = 0;
    TUTTI_TRY(exchange(1, &first));  // connections are made, and their windows open
    TUTTI_TRY(exchange(1, &first));
    const int messages = std::clamp(static_cast<int>(kRunSeconds / first), kFewestMessages, kMostMessages);
    std::vector<double> times(kRuns);
    for (double& time : times) TUTTI_TRY(exchange(messages, &time));
    *a_byte = median(times) / (static_cast<double>(messages) * static_cast<double>(kMessage) * pairs);
    return {};
  }

 private:
  const std::vector<int>& on(int host) const { return ranks_of_[static_cast<std::size_t>(host)]; }

  Status agree_on_first(Status measured, double* value) {
    TUTTI_TRY(std::move(measured));
    return check(tuttiBroadcast(value, value, 1, tuttiFloat64, 0, comm_, nullptr), comm_);
  }

  /// Between rank 0 and its peer. Only rank 0 has the result.
  Status round_trips(double* one_way) {
    std::vector<double> times;
    for (int i = 0; i < kWarmUp + kRoundTrips; ++i) {
      const Clock::time_point begin = Clock::now();
      if (rank_ == 0) TUTTI_TRY(check(tuttiSend(out_.data(), 8, tuttiUint8, peer_, comm_, nullptr), comm_));
      TUTTI_TRY(check(tuttiRecv(in_.data(), 8, tuttiUint8, peer_, comm_, nullptr), comm_));
      if (rank_ != 0) TUTTI_TRY(check(tuttiSend(out_.data(), 8, tuttiUint8, peer_, comm_, nullptr), comm_));
      if (i >= kWarmUp) times.push_back(seconds_since(begin) / 2);
    }
    *one_way = median(times);
    return {};
  }

  /// So many messages both ways between all pairs at once. The time is that of the slowest.
  Status exchange(int messages, double* seconds) {
    TUTTI_TRY(check(tuttiBarrier(comm_, nullptr), comm_));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < messages && peer_ >= 0; ++i) {
      TUTTI_TRY(check(tuttiGroupStart(), comm_));
      TUTTI_TRY(check(tuttiSend(out_.data(), kMessage, tuttiUint8, peer_, comm_, nullptr), comm_));
      TUTTI_TRY(check(tuttiRecv(in_.data(), kMessage, tuttiUint8, peer_, comm_, nullptr), comm_));
      TUTTI_TRY(check(tuttiGroupEnd(), comm_));
    }
    *seconds = peer_ >= 0 ? seconds_since(begin) : 0;
    return check(tuttiAllReduce(seconds, seconds, 1, tuttiFloat64, tuttiMax, comm_, nullptr), comm_);
  }

  const tuttiComm_t comm_;
  int rank_ = 0;
  std::vector<std::byte> out_, in_;
  std::vector<std::vector<int>> ranks_of_;  // by host
  int peer_ = -1;                           // the rank that this one exchanges with; -1: it only waits
};

Time picoseconds(double seconds) { return static_cast<Time>(seconds * 1e12); }

Status measure(Prober& prober, NetworkResult* result) {
  std::vector<double> one_way, a_byte;
  result->pairs = prober.pairs_with(1);
  const int others = prober.hosts() - 1;
  for (int i = 0; i < std::min(others, kMostHosts); ++i) {
    const int host = 1 + static_cast<int>(static_cast<long long>(i) * others / std::min(others, kMostHosts));
    TUTTI_TRY(prober.measure_with(host, &one_way.emplace_back(), &a_byte.emplace_back()));
    result->pairs = std::min(result->pairs, prober.pairs_with(host));
  }
  result->one_way = picoseconds(median(one_way));
  result->wire_kib = std::max<Time>(picoseconds(median(a_byte) * 1024), 1);
  return {};
}

}  // namespace

Status measure_network(NetworkResult* result) {
  tuttiComm_t comm = nullptr;
  TUTTI_TRY(check(tuttiCommInitUrl(&comm, "env://", -1, -1, nullptr), nullptr));
  const Machine& machine = comm->comm->machine();
  const HostMap* const hosts = comm->comm->hosts();
  if (machine.same_host_id || hosts == nullptr) {
    const int ranks = machine.ranks;
    TUTTI_TRY(check(tuttiCommDestroy(comm), nullptr));
    return fail(Code::kInvalidUsage,
                "all ranks of this job ({}) run on one host: let a launcher start this program on two hosts or more",
                ranks);
  }
  Prober prober(comm, *hosts);
  result->rank = prober.rank();
  result->ranks = machine.ranks;
  result->hosts = prober.hosts();
  if (const Status measured = measure(prober, result); !measured.ok()) {
    (void)tuttiCommAbort(comm);
    return measured;
  }
  return check(tuttiCommDestroy(comm), nullptr);
}

}  // namespace tutti::probe
