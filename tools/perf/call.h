// One collective call as the benchmark makes it: how many elements for a size, which buffers, which rate.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "names.h"

namespace tutti::perf {

/// One row of the table.
struct Row {
  CollectiveName collective;
  TypeName type;
  Operation op = Operation::kSum;
  int root = 0;
  std::size_t count = 0;                       ///< as passed to the function; for a v-form what `size_is` says
  std::size_t send_count = 0, recv_count = 0;  ///< elements of the largest buffers that a rank needs

  std::size_t bytes() const { return (send_count > recv_count ? send_count : recv_count) * type.bytes; }
};

/// `size` is the larger of a rank's send and receive buffers. The row has at least one element for each rank, but none
/// if `size` is 0.
Row make_row(const CollectiveName& collective, const TypeName& type, std::size_t size, int ranks);

/// Elements [first, first + count) of a vector.
struct Share {
  std::size_t first = 0, count = 0;
};

/// In all_gather_v, rank `rank`'s share of the vector: in proportion to rank mod 3 + 1, rounded to whole elements.
Share gathered_share(const Row& row, int rank, int ranks);
/// In all_to_all_v, what rank `from` sends to `to`, as its place in the send buffer. It has (from + 2 to + 1) mod 3
/// units, so that some pairs exchange nothing. In the receive buffer it begins at received_first().
Share sent_share(const Row& row, int from, int to, int ranks);
std::size_t received_first(const Row& row, int from, int to, int ranks);

/// A send and a receive buffer, each as large as the largest row needs.
struct Buffers {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// A row's call on one rank.
class Call {
 public:
  /// Borrows `row`; `op` is the row's operation as the library knows it.
  Call(const Row& row, tuttiRedOp_t op, int rank, int ranks, tuttiComm_t comm);

  /// The pointers to pass: out of place, or in place by the rules of tutti.h.
  Buffers bind(const Buffers& buffers, bool in_place) const;
  /// Makes the call, on a stream or, without one, blocking.
  tuttiResult_t make(const Buffers& bound, tuttiStream_t stream = nullptr) const;
  /// How many elements this rank's call reads and writes.
  std::size_t reads() const { return reads_; }
  std::size_t writes() const { return writes_; }
  /// How many it reads and writes together, except for those that, in place, are where they belong already.
  std::size_t moves(bool in_place) const;

 private:
  bool is_root() const { return rank_ == row_.root; }
  void share();
  tuttiResult_t make_reduction(const Buffers& bound, tuttiStream_t stream) const;
  tuttiResult_t make_move(const Buffers& bound, tuttiStream_t stream) const;
  tuttiResult_t send_around(const Buffers& bound, tuttiStream_t stream) const;

  const Row& row_;
  tuttiRedOp_t op_;
  int rank_;
  int ranks_;
  tuttiComm_t comm_;
  std::size_t reads_ = 0, writes_ = 0;
  std::vector<std::size_t> send_counts_, send_firsts_, recv_counts_, recv_firsts_;
};

/// How the ranks reach each other and which algorithm serves the row. `where` is "", or "device_" for device buffers.
tuttiResult_t describe(const Row& row, tuttiComm_t comm, std::string* transport, std::string* algorithm,
                       const std::string& where = "");

/// Rates in GB/s (1e9 bytes) as nccl-tests defines them.
double alg_bandwidth(const Row& row, double seconds);
double bus_bandwidth(const Row& row, double seconds, int ranks);

}  // namespace tutti::perf
