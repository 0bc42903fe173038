#include "check.h"

namespace tutti::perf {

Check::Check(const Row& row, const Call& call, tuttiDataType_t exact_in, int rank, int ranks)
    : row_(row), call_(call), rank_(rank), ranks_(ranks) {
  if (row.collective.reduces) {
    const Reduction reduction{row.type, row.op, exact_in};
    input_ = reduction_input(reduction, rank, ranks);
    result_ = reduction_result(reduction, ranks);
  } else {
    input_ = moved_input(row.type, rank);
  }
}

void Check::prepare(const Buffers& buffers, bool in_place) const {
  poison(buffers.send, row_.send_count * row_.type.bytes);
  poison(buffers.recv, row_.recv_count * row_.type.bytes);
  fill(call_.bind(buffers, in_place).send, input_, 0, call_.reads());
}

std::size_t Check::count_wrong(const Buffers& buffers, bool in_place) const {
  const Buffers bound = call_.bind(buffers, in_place);
  const std::size_t changed = in_place ? 0 : perf::count_wrong(bound.send, input_, 0, call_.reads());
  return changed + wrong_result(bound.recv, in_place);
}

std::size_t Check::wrong_from(int from, const std::byte* at, std::size_t first, std::size_t count) const {
  return perf::count_wrong(at, moved_input(row_.type, from), first, count);
}

std::size_t Check::wrong_reduction(const std::byte* recv, bool in_place) const {
  const bool scattered = row_.collective.collective == Collective::kReduceScatter;
  const std::size_t first = scattered ? static_cast<std::size_t>(rank_) * row_.count : 0;
  if (call_.writes() > 0 || row_.count == 0) return perf::count_wrong(recv, result_, first, row_.count);
  if (in_place) return perf::count_wrong(recv, input_, 0, row_.count);  // a rank that is not the root keeps its input
  return count_written(recv, row_.count, row_.type.bytes);
}

/// For results that have a block from each rank.
std::size_t Check::wrong_blocks(const std::byte* recv) const {
  const bool exchanged = row_.collective.collective == Collective::kAllToAll;
  const bool uneven = row_.collective.collective == Collective::kAllGatherV;
  const std::size_t mine = exchanged ? static_cast<std::size_t>(rank_) * row_.count : 0;
  std::size_t wrong = 0;
  for (int from = 0; from < ranks_; ++from) {
    const Share even{static_cast<std::size_t>(from) * row_.count, row_.count};
    const Share block = uneven ? gathered_share(row_, from, ranks_) : even;
    wrong += wrong_from(from, recv + block.first * row_.type.bytes, mine, block.count);
  }
  return wrong;
}

/// For all_to_all_v. Nothing may be written after what is received.
std::size_t Check::wrong_pairs(const std::byte* recv) const {
  const std::size_t width = row_.type.bytes;
  std::size_t wrong = 0;
  for (int from = 0; from < ranks_; ++from) {
    const Share sent = sent_share(row_, from, rank_, ranks_);
    wrong += wrong_from(from, recv + received_first(row_, from, rank_, ranks_) * width, sent.first, sent.count);
  }
  return wrong + count_written(recv + call_.writes() * width, row_.recv_count - call_.writes(), width);
}

std::size_t Check::wrong_result(const std::byte* recv, bool in_place) const {
  const std::size_t own = static_cast<std::size_t>(rank_) * row_.count;
  switch (row_.collective.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
      return wrong_reduction(recv, in_place);
    case Collective::kGather:
      if (rank_ != row_.root) return count_written(recv, row_.recv_count, row_.type.bytes);
      return wrong_blocks(recv);
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kAllToAll:
      return wrong_blocks(recv);
    case Collective::kAllToAllV:
      return wrong_pairs(recv);
    case Collective::kBroadcast:
      return wrong_from(row_.root, recv, 0, row_.count);
    case Collective::kScatter:
      return wrong_from(row_.root, recv, own, row_.count);
    case Collective::kSendRecv:
      return wrong_from((rank_ - 1 + ranks_) % ranks_, recv, 0, row_.count);
    case Collective::kBarrier:
      break;
  }
  return 0;
}

}  // namespace tutti::perf
