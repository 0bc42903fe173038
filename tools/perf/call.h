// One collective call as the benchmark makes it: how many elements for a size, which buffers, which rate.
#pragma once

#include <cstddef>

#include "names.h"

namespace tutti::perf {

/// One row of the table.
struct Row {
  CollectiveName collective;
  TypeName type;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  std::size_t count = 0;  ///< as passed to the function
  std::size_t send_count = 0, recv_count = 0;

  std::size_t bytes() const { return (send_count > recv_count ? send_count : recv_count) * type.bytes; }
};

/// `size` is the larger of a rank's send and receive buffers; at least one element a rank, none when size is 0.
Row make_row(const CollectiveName& collective, const TypeName& type, std::size_t size, int ranks);

/// A send and a receive buffer, each as large as the largest row needs.
struct Buffers {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// The pointers of a call: out of place, or in place by the rules of tutti.h.
Buffers bind(const Row& row, const Buffers& buffers, int rank, bool in_place);

tuttiResult_t call(const Row& row, const Buffers& bound, tuttiComm_t comm);

/// Rates in GB/s (1e9 bytes) as nccl-tests defines them.
double alg_bandwidth(const Row& row, double seconds);
double bus_bandwidth(const Row& row, double seconds, int ranks);

}  // namespace tutti::perf
