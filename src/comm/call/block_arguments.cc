// The checks of calls whose blocks differ in size: counts and displacements come from the caller, one per rank.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "comm/call/arguments.h"

namespace tutti {

namespace {

constexpr auto kLargest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

/// Bytes [begin, end) of memory.
struct AddressRange {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool empty() const { return begin == end; }
  bool meets(const AddressRange& other) const {
    return begin < other.end && other.begin < end && !empty() && !other.empty();
  }
};

AddressRange addresses_of_block(const void* buffer, const BlockTable& table, std::size_t block, std::size_t element) {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(buffer) + table.offsets[block] * element;
  return {begin, begin + table.counts[block] * element};
}

Status check_table(const CallArguments& a, const BlockTable& table, const char* which, const void* buffer, int rank) {
  const std::size_t element = size_of(static_cast<DataType>(a.type)).value;
  std::size_t used = 0;
  for (std::size_t block = 0; block < table.size; ++block) {
    std::size_t end = 0;
    std::size_t bytes = 0;
    const bool fits = !__builtin_add_overflow(table.offsets[block], table.counts[block], &end) &&
                      !__builtin_mul_overflow(end, element, &bytes) && bytes <= kLargest;
    if (!fits)
      return fail(Code::kInvalidArgument, "{}: block {} of {} ends beyond what memory can be", name_of(a.collective),
                  block, which);
    used |= table.counts[block];
  }
  if (used != 0 && buffer == nullptr)
    return fail(Code::kInvalidArgument, "{}: {} of rank {} is NULL", name_of(a.collective), which, rank);
  return {};
}

/// Blocks that are received must not overlap, because the one that comes last would win, whichever that is.
Status check_disjoint(const CallArguments& a, const BlockTable& table) {
  bool ascending = true;
  std::size_t end = 0;
  for (std::size_t block = 0; block < table.size; ++block) {
    if (table.counts[block] == 0) continue;
    ascending = ascending && table.offsets[block] >= end;
    end = table.offsets[block] + table.counts[block];
  }
  if (ascending) return {};
  std::vector<std::size_t> order;
  for (std::size_t block = 0; block < table.size; ++block)
    if (table.counts[block] != 0) order.push_back(block);
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return table.offsets[x] < table.offsets[y]; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (table.offsets[order[i - 1]] + table.counts[order[i - 1]] > table.offsets[order[i]])
      return fail(Code::kInvalidArgument, "{}: blocks {} and {} of recvbuff overlap", name_of(a.collective),
                  std::min(order[i - 1], order[i]), std::max(order[i - 1], order[i]));
  return {};
}

Status check_apart(const CallArguments& a, int rank) {
  const std::size_t element = size_of(static_cast<DataType>(a.type)).value;
  const bool gathers = a.collective == Collective::kAllGatherV;
  for (std::size_t from = 0; from < a.blocks->send.size; ++from) {
    const AddressRange sent = addresses_of_block(a.send, a.blocks->send, from, element);
    for (std::size_t to = 0; to < a.blocks->recv.size; ++to) {
      const AddressRange received = addresses_of_block(a.recv, a.blocks->recv, to, element);
      const bool in_place = gathers && static_cast<int>(to) == rank && sent.begin == received.begin;
      if (sent.meets(received) && !in_place)
        return fail(Code::kInvalidArgument,
                    "{}: sendbuff and recvbuff of rank {} overlap and are not the in place form", name_of(a.collective),
                    rank);
    }
  }
  return {};
}

}  // namespace

Status check_blocks(const CallArguments& a, int rank, int) {
  const BlockTable& send = a.blocks->send;
  const BlockTable& recv = a.blocks->recv;
  const bool missing =
      send.counts == nullptr || send.offsets == nullptr || recv.counts == nullptr || recv.offsets == nullptr;
  if (missing)
    return fail(Code::kInvalidArgument, "{}: the counts and displacements of rank {} must not be NULL",
                name_of(a.collective), rank);
  TUTTI_TRY(check_table(a, send, "sendbuff", a.send, rank));
  TUTTI_TRY(check_table(a, recv, "recvbuff", a.recv, rank));
  const std::size_t own = send.counts[send.size == 1 ? 0 : rank];
  if (own != recv.counts[rank])
    return fail(Code::kInvalidArgument, "{}: rank {} sends itself {} elements and receives {}", name_of(a.collective),
                rank, own, recv.counts[rank]);
  TUTTI_TRY(check_disjoint(a, recv));
  return check_apart(a, rank);
}

}  // namespace tutti
