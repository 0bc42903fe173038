#include "call.h"

#include <algorithm>

#include "turn.h"

namespace tutti::perf {
namespace {

struct Widths {
  std::size_t send = 1, recv = 1;  ///< of the buffers, in units of the row's count
};

Widths widths_of(Collective collective, std::size_t ranks) {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {ranks, 1};
    case Collective::kAllGather:
    case Collective::kGather:
      return {1, ranks};
    case Collective::kAllToAll:
      return {ranks, ranks};
    default:
      return {1, 1};
  }
}

/// The weights of ranks 0 to rank - 1 together.
std::size_t gather_weight(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return r / 3 * 6 + (r % 3 == 2 ? 3 : r % 3);
}

std::size_t pair_weight(int from, int to) { return static_cast<std::size_t>((from + 2 * to + 1) % 3); }

/// The largest total that a rank sends or receives.
std::size_t largest_weight(int ranks) {
  std::size_t largest = 1;
  for (int rank = 0; rank < std::min(ranks, 3); ++rank) {  // weights repeat with period 3 in both directions
    std::size_t sent = 0, received = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      sent += pair_weight(rank, peer);
      received += pair_weight(peer, rank);
    }
    largest = std::max({largest, sent, received});
  }
  return largest;
}

}  // namespace

Row make_row(const CollectiveName& collective, const TypeName& type, std::size_t size, int ranks) {
  Row row{collective, type};
  const Widths widths = widths_of(collective.collective, static_cast<std::size_t>(ranks));
  const std::size_t count = size / (type.bytes * std::max(widths.send, widths.recv));
  row.count = size == 0 ? 0 : std::max<std::size_t>(count, 1);
  if (collective.collective == Collective::kAllToAllV && row.count > 0) {
    const std::size_t units = largest_weight(ranks);
    row.count = std::max<std::size_t>(row.count / units, 1) * units;
  }
  row.send_count = row.count * widths.send;
  row.recv_count = row.count * widths.recv;
  return row;
}

Share gathered_share(const Row& row, int rank, int ranks) {
  const std::size_t all = gather_weight(ranks);
  const std::size_t first = row.count * gather_weight(rank) / all;
  return {first, row.count * gather_weight(rank + 1) / all - first};
}

Share sent_share(const Row& row, int from, int to, int ranks) {
  const std::size_t unit = row.count / largest_weight(ranks);
  std::size_t before = 0;
  for (int peer = 0; peer < to; ++peer) before += pair_weight(from, peer);
  return {unit * before, unit * pair_weight(from, to)};
}

std::size_t received_first(const Row& row, int from, int to, int ranks) {
  std::size_t before = 0;
  for (int peer = 0; peer < from; ++peer) before += pair_weight(peer, to);
  return row.count / largest_weight(ranks) * before;
}

Call::Call(const Row& row, tuttiRedOp_t op, int rank, int ranks, tuttiComm_t comm)
    : row_(row), op_(op), rank_(rank), ranks_(ranks), comm_(comm), reads_(row.send_count), writes_(row.recv_count) {
  const Collective collective = row.collective.collective;
  if (!is_root()) {
    if (collective == Collective::kBroadcast || collective == Collective::kScatter) reads_ = 0;
    if (collective == Collective::kReduce || collective == Collective::kGather) writes_ = 0;
  }
  share();
}

/// Computes the counts and displacements of the v-forms.
void Call::share() {
  if (row_.collective.collective == Collective::kAllGatherV) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Share share = gathered_share(row_, rank, ranks_);
      recv_counts_.push_back(share.count);
      recv_firsts_.push_back(share.first);
    }
    reads_ = recv_counts_[static_cast<std::size_t>(rank_)];
  }
  if (row_.collective.collective != Collective::kAllToAllV) return;
  for (int peer = 0; peer < ranks_; ++peer) {
    const Share sent = sent_share(row_, rank_, peer, ranks_);
    send_counts_.push_back(sent.count);
    send_firsts_.push_back(sent.first);
    recv_counts_.push_back(sent_share(row_, peer, rank_, ranks_).count);
    recv_firsts_.push_back(received_first(row_, peer, rank_, ranks_));
  }
  reads_ = send_firsts_.back() + send_counts_.back();
  writes_ = recv_firsts_.back() + recv_counts_.back();
}

std::size_t Call::moves(bool in_place) const {
  const std::size_t all = reads_ + writes_;
  if (!in_place) return all;
  switch (row_.collective.collective) {
    case Collective::kAllGather:
    case Collective::kAllGatherV:  // a rank's own block is read, but not written again
      return all - reads_;
    case Collective::kBroadcast:
      return is_root() ? reads_ : all;
    case Collective::kGather:
    case Collective::kScatter:
      return is_root() ? all - 2 * row_.count : all;
    case Collective::kAllToAll:
      return all - 2 * row_.count;
    default:
      return all;
  }
}

Buffers Call::bind(const Buffers& buffers, bool in_place) const {
  if (!in_place) return buffers;
  const std::size_t own = static_cast<std::size_t>(rank_) * row_.count * row_.type.bytes;
  switch (row_.collective.collective) {
    case Collective::kAllGather:
      return {buffers.recv + own, buffers.recv};
    case Collective::kReduceScatter:
      return {buffers.send, buffers.send + own};
    case Collective::kGather:
      return is_root() ? Buffers{buffers.recv + own, buffers.recv} : buffers;
    case Collective::kScatter:
      return is_root() ? Buffers{buffers.send, buffers.send + own} : buffers;
    case Collective::kAllGatherV:
      return {buffers.recv + recv_firsts_[static_cast<std::size_t>(rank_)] * row_.type.bytes, buffers.recv};
    default:
      return {buffers.recv, buffers.recv};
  }
}

tuttiResult_t Call::make(const Buffers& bound, tuttiStream_t stream) const {
  return row_.collective.reduces ? make_reduction(bound, stream) : make_move(bound, stream);
}

tuttiResult_t Call::make_reduction(const Buffers& bound, tuttiStream_t stream) const {
  const tuttiDataType_t type = row_.type.type;
  switch (row_.collective.collective) {
    case Collective::kAllReduce:
      return tuttiAllReduce(bound.send, bound.recv, row_.count, type, op_, comm_, stream);
    case Collective::kReduceScatter:
      return tuttiReduceScatter(bound.send, bound.recv, row_.count, type, op_, comm_, stream);
    default:
      return tuttiReduce(bound.send, bound.recv, row_.count, type, op_, row_.root, comm_, stream);
  }
}

tuttiResult_t Call::make_move(const Buffers& bound, tuttiStream_t stream) const {
  const tuttiDataType_t type = row_.type.type;
  switch (row_.collective.collective) {
    case Collective::kAllGather:
      return tuttiAllGather(bound.send, bound.recv, row_.count, type, comm_, stream);
    case Collective::kBroadcast:
      return tuttiBroadcast(bound.send, bound.recv, row_.count, type, row_.root, comm_, stream);
    case Collective::kGather:
      return tuttiGather(bound.send, bound.recv, row_.count, type, row_.root, comm_, stream);
    case Collective::kScatter:
      return tuttiScatter(bound.send, bound.recv, row_.count, type, row_.root, comm_, stream);
    case Collective::kAllToAll:
      return tuttiAllToAll(bound.send, bound.recv, row_.count, type, comm_, stream);
    case Collective::kAllGatherV:
      return tuttiAllGatherV(bound.send, bound.recv, reads_, recv_counts_.data(), recv_firsts_.data(), type, comm_,
                             stream);
    case Collective::kAllToAllV:
      return tuttiAllToAllV(bound.send, send_counts_.data(), send_firsts_.data(), bound.recv, recv_counts_.data(),
                            recv_firsts_.data(), type, comm_, stream);
    case Collective::kSendRecv:
      return send_around(bound, stream);
    default:
      return tuttiBarrier(comm_, stream);
  }
}

/// Sends to the next rank and receives from the one before, as nccl-tests' sendrecv does.
tuttiResult_t Call::send_around(const Buffers& bound, tuttiStream_t stream) const {
  const int next = (rank_ + 1) % ranks_;
  const int before = (rank_ - 1 + ranks_) % ranks_;
  const tuttiDataType_t type = row_.type.type;
  tuttiResult_t result = tuttiGroupStart();
  if (result != tuttiSuccess) return result;
  const tuttiResult_t sent = tuttiSend(bound.send, row_.count, type, next, comm_, stream);
  const tuttiResult_t received = tuttiRecv(bound.recv, row_.count, type, before, comm_, stream);
  result = tuttiGroupEnd();
  return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : result;
}

tuttiResult_t describe(const Row& row, tuttiComm_t comm, std::string* transport, std::string* algorithm,
                       const std::string& where) {
  char value[128];
  PERF_TRY(tuttiCommGetInfo(comm, (where + "transport").c_str(), value, sizeof value));
  *transport = value;
  *algorithm = "direct";  // send and receive have no schedule to choose
  if (row.collective.collective == Collective::kSendRecv) return tuttiSuccess;
  const std::size_t bytes = row.count * row.type.bytes;
  const std::string key = where + "algorithm:" + std::string(row.collective.name) + ":" + std::to_string(bytes);
  PERF_TRY(tuttiCommGetInfo(comm, key.c_str(), value, sizeof value));
  *algorithm = value;
  return tuttiSuccess;
}

double alg_bandwidth(const Row& row, double seconds) {
  return seconds > 0 ? static_cast<double>(row.bytes()) / seconds / 1e9 : 0;
}

double bus_bandwidth(const Row& row, double seconds, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (row.collective.collective) {
    case Collective::kAllReduce:
      return alg_bandwidth(row, seconds) * 2 * share;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
    case Collective::kBarrier:
      return alg_bandwidth(row, seconds);
    default:
      return alg_bandwidth(row, seconds) * share;
  }
}

}  // namespace tutti::perf
