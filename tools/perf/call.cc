#include "call.h"

#include <algorithm>

namespace tutti::perf {

Row make_row(const CollectiveName& collective, const TypeName& type, std::size_t size, int ranks) {
  Row row{collective, type};
  const auto n = static_cast<std::size_t>(ranks);
  const bool blocks =
      collective.collective == Collective::kAllGather || collective.collective == Collective::kReduceScatter;
  const std::size_t count = size / (type.bytes * (blocks ? n : 1));
  row.count = size == 0 ? 0 : std::max<std::size_t>(count, 1);
  row.send_count = collective.collective == Collective::kReduceScatter ? row.count * n : row.count;
  row.recv_count = collective.collective == Collective::kAllGather ? row.count * n : row.count;
  return row;
}

Buffers bind(const Row& row, const Buffers& buffers, int rank, bool in_place) {
  if (!in_place) return buffers;
  const std::size_t own = static_cast<std::size_t>(rank) * row.count * row.type.bytes;
  if (row.collective.collective == Collective::kAllGather) return {buffers.recv + own, buffers.recv};
  if (row.collective.collective == Collective::kReduceScatter) return {buffers.send, buffers.send + own};
  return {buffers.recv, buffers.recv};
}

tuttiResult_t call(const Row& row, const Buffers& bound, tuttiComm_t comm) {
  const tuttiDataType_t type = row.type.type;
  switch (row.collective.collective) {
    case Collective::kAllReduce:
      return tuttiAllReduce(bound.send, bound.recv, row.count, type, row.op, comm, nullptr);
    case Collective::kReduceScatter:
      return tuttiReduceScatter(bound.send, bound.recv, row.count, type, row.op, comm, nullptr);
    case Collective::kAllGather:
      return tuttiAllGather(bound.send, bound.recv, row.count, type, comm, nullptr);
    case Collective::kBroadcast:
      return tuttiBroadcast(bound.send, bound.recv, row.count, type, row.root, comm, nullptr);
    case Collective::kReduce:
      return tuttiReduce(bound.send, bound.recv, row.count, type, row.op, row.root, comm, nullptr);
    case Collective::kBarrier:
      return tuttiBarrier(comm, nullptr);
  }
  return tuttiInternalError;
}

double alg_bandwidth(const Row& row, double seconds) {
  return seconds > 0 ? static_cast<double>(row.bytes()) / seconds / 1e9 : 0;
}

double bus_bandwidth(const Row& row, double seconds, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (row.collective.collective) {
    case Collective::kAllReduce:
      return alg_bandwidth(row, seconds) * 2 * share;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return alg_bandwidth(row, seconds) * share;
    default:
      return alg_bandwidth(row, seconds);
  }
}

}  // namespace tutti::perf
