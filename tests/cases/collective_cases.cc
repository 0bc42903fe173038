#include "cases/collective_cases.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cases/element.h"

namespace tutti::cases {
namespace {

constexpr unsigned char kUnwritten = 0xE7;
constexpr std::size_t kMargin = 64;  // bytes around each buffer that must stay as they are
constexpr long kShownFailures = 10;

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce };
constexpr const char* kKindNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"};

/// How a case places its buffers: bytes from a 64-byte boundary, and whether the call is in place.
struct Layout {
  bool in_place;
  std::size_t send_shift, recv_shift;
};

struct Case {
  Kind kind;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int root;
  std::size_t count;
  Layout layout;
};

/// Memory with margins; `data` is kMargin + shift bytes behind a 64-byte boundary.
class Area {
 public:
  Area(std::size_t bytes, std::size_t shift) : store_(bytes + shift + 2 * kMargin + 64, kUnwritten), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(store_.data());
    offset_ = (64 - address % 64) % 64 + kMargin + shift;
  }
  unsigned char* data() { return store_.data() + offset_; }
  bool margins_are_whole() const {
    const auto untouched = [](unsigned char byte) { return byte == kUnwritten; };
    return std::all_of(store_.begin(), store_.begin() + static_cast<std::ptrdiff_t>(offset_), untouched) &&
           std::all_of(store_.begin() + static_cast<std::ptrdiff_t>(offset_ + bytes_), store_.end(), untouched);
  }

 private:
  Bytes store_;
  std::size_t bytes_;
  std::size_t offset_ = 0;
};

/// Visits [0, bytes) in pieces that are contiguous in the repeated pattern, which starts `first` bytes in.
template <class Piece>
void in_pieces(const Bytes& pattern, std::size_t first, std::size_t bytes, Piece piece) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t from = (first + done) % pattern.size();
    const std::size_t length = std::min(pattern.size() - from, bytes - done);
    piece(done, pattern.data() + from, length);
    done += length;
  }
}

void put(unsigned char* to, const Bytes& pattern, std::size_t first, std::size_t bytes) {
  in_pieces(pattern, first, bytes,
            [&](std::size_t at, const unsigned char* from, std::size_t length) { std::memcpy(to + at, from, length); });
}

bool holds(const unsigned char* data, const Bytes& pattern, std::size_t first, std::size_t bytes) {
  bool equal = true;
  in_pieces(pattern, first, bytes, [&](std::size_t at, const unsigned char* from, std::size_t length) {
    equal = equal && std::memcmp(data + at, from, length) == 0;
  });
  return equal;
}

bool is_unwritten(const unsigned char* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](unsigned char byte) { return byte == kUnwritten; });
}

class Runner {
 public:
  Runner(tuttiComm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {}

  void run_reductions(tuttiDataType_t type, tuttiRedOp_t op, const std::vector<std::size_t>& counts) {
    input_ = contribution(type, op, rank_, ranks_);
    result_ = reduction(type, op, ranks_);
    for (const std::size_t count : counts) {
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
        if (kind == Kind::kReduceScatter && count > kPeriod && op != tuttiSum) continue;  // 8 times as much memory
        run_layouts(kind, type, op, count);
      }
    }
  }

  void run_moves(tuttiDataType_t type, const std::vector<std::size_t>& counts) {
    payloads_.clear();
    for (int rank = 0; rank < ranks_; ++rank) payloads_.push_back(payload(type, rank));
    input_ = payloads_[static_cast<std::size_t>(rank_)];
    for (const std::size_t count : counts) {
      for (const Kind kind : {Kind::kAllGather, Kind::kBroadcast}) run_layouts(kind, type, tuttiSum, count);
    }
  }

  void run_barriers() {
    for (int i = 0; i < 10; ++i) accept(tuttiBarrier(comm_, nullptr), "barrier");
  }

  Outcome outcome() const { return outcome_; }
  bool usable() const { return usable_; }

 private:
  /// Large counts take one layout each, in turn.
  void run_layouts(Kind kind, tuttiDataType_t type, tuttiRedOp_t op, std::size_t count) {
    const std::size_t width = width_of(type);
    const Layout layouts[] = {{false, 0, 0}, {true, 0, 0}, {false, width, 3 * width}, {true, 5 * width, 5 * width}};
    const bool large = count > kPeriod;
    for (std::size_t i = 0; i < 4; ++i) {
      if (large && i != static_cast<std::size_t>(turn_) % 4) continue;
      run({kind, type, op, turn_ % ranks_, count, layouts[i]});
    }
    ++turn_;
  }

  void run(const Case& one) {
    if (!usable_) return;
    const std::size_t block = one.count * width_of(one.type);
    const auto n = static_cast<std::size_t>(ranks_);
    const std::size_t send_bytes = one.kind == Kind::kReduceScatter ? block * n : block;
    const std::size_t recv_bytes = one.kind == Kind::kAllGather ? block * n : block;
    const std::size_t own = static_cast<std::size_t>(rank_) * block;
    Area first(one.layout.in_place ? std::max(send_bytes, recv_bytes) : send_bytes, one.layout.send_shift);
    Area second(one.layout.in_place ? 0 : recv_bytes, one.layout.recv_shift);
    unsigned char* send = first.data() + (one.layout.in_place && one.kind == Kind::kAllGather ? own : 0);
    unsigned char* recv =
        one.layout.in_place ? first.data() + (one.kind == Kind::kReduceScatter ? own : 0) : second.data();
    const bool gives = one.kind != Kind::kBroadcast || rank_ == one.root;
    if (gives) put(send, input_, 0, send_bytes);
    if (!accept(call(one, send, recv), kKindNames[static_cast<int>(one.kind)])) return;
    const unsigned char* whole = one.layout.in_place && one.kind == Kind::kAllGather ? first.data() : recv;
    bool right = result_is_right(one, whole, block) && first.margins_are_whole() && second.margins_are_whole();
    if (!one.layout.in_place && gives) right = right && holds(send, input_, 0, send_bytes);
    note(one, right);
  }

  tuttiResult_t call(const Case& one, const void* send, void* recv) {
    switch (one.kind) {
      case Kind::kAllReduce:
        return tuttiAllReduce(send, recv, one.count, one.type, one.op, comm_, nullptr);
      case Kind::kReduceScatter:
        return tuttiReduceScatter(send, recv, one.count, one.type, one.op, comm_, nullptr);
      case Kind::kAllGather:
        return tuttiAllGather(send, recv, one.count, one.type, comm_, nullptr);
      case Kind::kBroadcast:
        return tuttiBroadcast(send, recv, one.count, one.type, one.root, comm_, nullptr);
      default:
        return tuttiReduce(send, recv, one.count, one.type, one.op, one.root, comm_, nullptr);
    }
  }

  bool result_is_right(const Case& one, const unsigned char* recv, std::size_t block) const {
    switch (one.kind) {
      case Kind::kAllReduce:
        return holds(recv, result_, 0, block);
      case Kind::kReduceScatter:
        return holds(recv, result_, static_cast<std::size_t>(rank_) * block, block);
      case Kind::kBroadcast:
        return holds(recv, payloads_[static_cast<std::size_t>(one.root)], 0, block);
      case Kind::kAllGather:
        for (std::size_t rank = 0; rank < payloads_.size(); ++rank) {
          if (!holds(recv + rank * block, payloads_[rank], 0, block)) return false;
        }
        return true;
      case Kind::kReduce:
        break;
    }
    if (rank_ == one.root) return holds(recv, result_, 0, block);
    return one.layout.in_place ? holds(recv, input_, 0, block) : is_unwritten(recv, block);
  }

  bool accept(tuttiResult_t code, const char* what) {
    if (code == tuttiSuccess) return true;
    std::fprintf(stderr, "rank %d of %d: %s: %s: %s\n", rank_, ranks_, what, tuttiGetErrorString(code),
                 tuttiGetLastError(comm_));
    ++outcome_.checked;
    ++outcome_.failed;
    usable_ = false;
    return false;
  }

  void note(const Case& one, bool right) {
    ++outcome_.checked;
    if (right || ++outcome_.failed > kShownFailures) return;
    std::fprintf(stderr, "rank %d of %d: %s, %zu %s, operation %d, root %d, %s, shifted by %zu and %zu: wrong\n", rank_,
                 ranks_, kKindNames[static_cast<int>(one.kind)], one.count, name_of(one.type), static_cast<int>(one.op),
                 one.root, one.layout.in_place ? "in place" : "out of place", one.layout.send_shift,
                 one.layout.recv_shift);
  }

  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  int turn_ = 0;
  bool usable_ = true;
  Outcome outcome_;
  Bytes input_, result_;
  std::vector<Bytes> payloads_;
};

bool is_offered(tuttiDataType_t type, tuttiRedOp_t op) {
  if (type == tuttiFloat8e4m3 || type == tuttiFloat8e5m2) return false;  // they only move so far
  if (op >= tuttiBitAnd) return !is_float(type);
  return op != tuttiAvg || type != tuttiBool;
}

/// One type of each kind: signed, unsigned, wide float, narrow float, bool.
bool is_representative(tuttiDataType_t type) {
  return type == tuttiInt8 || type == tuttiUint64 || type == tuttiFloat32 || type == tuttiBfloat16 || type == tuttiBool;
}

}  // namespace

Outcome run_collective_cases(tuttiComm_t comm, int rank, int ranks, Effort effort) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts{0, 1, n - 1, n, n + 1, 2, 3, 7, 31, 127, 1009, 4099};
  if (effort == Effort::kLarge) counts.push_back(300007);
  Runner runner(comm, rank, ranks);
  for (int type = tuttiInt8; type <= tuttiBool && runner.usable(); ++type) {
    const auto data_type = static_cast<tuttiDataType_t>(type);
    if (effort == Effort::kFew && !is_representative(data_type)) continue;
    runner.run_moves(data_type, counts);
    for (int op = tuttiSum; op <= tuttiBitXor; ++op) {
      if (is_offered(data_type, static_cast<tuttiRedOp_t>(op))) {
        runner.run_reductions(data_type, static_cast<tuttiRedOp_t>(op), counts);
      }
    }
  }
  runner.run_barriers();
  return runner.outcome();
}

}  // namespace tutti::cases
