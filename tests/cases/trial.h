// One collective call of a case: its buffers, what they hold before the call and what they must hold after it. Made on
// every rank from the same Case; prepared, issued and checked apart, so that several can be under way in a group.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cases/area.h"
#include "cases/element.h"

namespace tutti::cases {

enum class Kind {
  kAllReduce,
  kReduceScatter,
  kReduce,
  kAllGather,
  kBroadcast,
  kGather,
  kScatter,
  kAllToAll,
  kAllGatherV,
  kAllToAllV,
  kSendRecv,  ///< to the next rank, from the one before, in a group of its own
};
inline constexpr int kKinds = 11;
constexpr bool reduces(Kind kind) { return kind <= Kind::kReduce; }

/// How a case places its buffers: bytes from a 64-byte boundary, and whether the call is in place where it can be.
struct Layout {
  bool in_place = false;
  std::size_t send_shift = 0, recv_shift = 0;
};

struct Case {
  Kind kind = Kind::kAllReduce;
  tuttiDataType_t type = tuttiFloat32;
  Operation op = Operation::kSum;
  tuttiRedOp_t handle = tuttiSum;  ///< the operation as the library knows it
  int root = 0;
  std::size_t count = 0;  ///< of the v-forms: the largest block; the others are at random, some of them empty
  Layout layout;
  std::uint64_t seed = 0;  ///< for what is at random: the same on all ranks
};
std::string text_of(const Case& one);

/// The patterns that rank `rank` needs, made when first asked for.
class Patterns {
 public:
  Patterns(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const Bytes& input(tuttiDataType_t type, Operation op);
  const Bytes& result(tuttiDataType_t type, Operation op);
  const Bytes& sent_by(tuttiDataType_t type, int rank);

 private:
  int rank_;
  int ranks_;
  std::map<std::tuple<int, int, int>, Bytes> made_;
};

class Trial {
 public:
  /// Borrows nothing of `patterns` beyond the constructor.
  Trial(const Case& one, Patterns* patterns);
  Trial(Trial&&) = default;  // buffers stay where they are
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  tuttiResult_t issue(tuttiComm_t comm, tuttiStream_t stream = nullptr);
  bool is_right() const;
  const Case& asked() const { return case_; }

 private:
  struct Block {
    std::size_t first = 0, count = 0;  ///< elements of the receive buffer
  };
  void plan();
  void plan_uneven();
  void lay_out();
  void fill(Patterns* patterns);
  void expect(Patterns* patterns);
  void expect_at(const Bytes& pattern, std::size_t from, Block block);
  std::size_t first_sent(int from) const;
  Block block_of(int from) const;
  bool is_root() const { return rank_ == case_.root; }
  /// Where in the patterns a trial begins: what trials of a group hold differs.
  std::size_t start() const { return case_.seed % kPeriod; }
  tuttiResult_t issue_uneven(tuttiComm_t comm, tuttiStream_t stream);
  tuttiResult_t issue_ring(tuttiComm_t comm, tuttiStream_t stream);

  Case case_;
  int rank_;
  int ranks_;
  std::size_t width_;
  bool in_place_ = false;
  bool send_is_outer_ = false;
  std::size_t send_elements_ = 0, recv_elements_ = 0;  ///< of the buffers
  std::size_t own_ = 0;  ///< in place: elements from the larger buffer's begin to the smaller one's
  std::vector<std::size_t> send_counts_, send_firsts_, recv_counts_, recv_firsts_;
  std::vector<Area> areas_;    ///< of the send and of the receive buffer, or one for both
  std::vector<Bytes> images_;  ///< what the areas hold before the call, then what they must hold after it
  std::size_t send_offset_ = 0, recv_offset_ = 0;
  void* send_ = nullptr;
  void* recv_ = nullptr;
};

}  // namespace tutti::cases
