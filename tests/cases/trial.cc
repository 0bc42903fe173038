#include "cases/trial.h"

#include <numeric>

namespace tutti::cases {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

/// A block of a v-form: a quarter of them empty, a quarter as large as they get.
std::size_t uneven_count(const Case& one, int from, int to) {
  const std::uint64_t die = dice(one.seed, index(from), index(to) + 1000);
  if (die % 4 < 2) return die % 4 == 0 ? 0 : one.count;
  return die / 4 % (one.count + 1);
}

struct Placement {
  std::vector<std::size_t> firsts;
  std::size_t elements = 0;
};

/// Where blocks lie in a buffer: in a random order, with up to three elements between them.
Placement placed(const std::vector<std::size_t>& counts, std::uint64_t seed) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice(seed, 1, i) % i]);
  Placement placement{std::vector<std::size_t>(counts.size())};
  for (const std::size_t block : order) {
    placement.elements += dice(seed, 2, block) % 4;
    placement.firsts[block] = placement.elements;
    placement.elements += counts[block];
  }
  placement.elements += dice(seed, 3, 0) % 4;
  return placement;
}

std::vector<std::size_t> sent_counts(const Case& one, int from, int ranks) {
  std::vector<std::size_t> counts;
  for (int to = 0; to < ranks; ++to) counts.push_back(uneven_count(one, from, to));
  return counts;
}

Placement sent_placement(const Case& one, int from, int ranks) {
  return placed(sent_counts(one, from, ranks), dice(one.seed, 4, index(from)));
}

}  // namespace

const Bytes& Patterns::input(tuttiDataType_t type, Operation op) {
  Bytes& bytes = made_[{0, type, static_cast<int>(op)}];
  if (bytes.empty()) bytes = contribution(type, op, rank_, ranks_);
  return bytes;
}

const Bytes& Patterns::result(tuttiDataType_t type, Operation op) {
  Bytes& bytes = made_[{1, type, static_cast<int>(op)}];
  if (bytes.empty()) bytes = reduction(type, op, ranks_);
  return bytes;
}

const Bytes& Patterns::sent_by(tuttiDataType_t type, int rank) {
  Bytes& bytes = made_[{2, type, rank}];
  if (bytes.empty()) bytes = payload(type, rank);
  return bytes;
}

Trial::Trial(const Case& one, Patterns* patterns)
    : case_(one), rank_(patterns->rank()), ranks_(patterns->ranks()), width_(width_of(one.type)) {
  plan();
  lay_out();
  fill(patterns);
  expect(patterns);
}

/// Sizes of the buffers. A rank that neither reads nor writes one has none, or one that must not be touched.
void Trial::plan() {
  const std::size_t n = index(ranks_), count = case_.count;
  const std::size_t unused = case_.seed % 2 == 0 ? 0 : count;
  in_place_ = case_.layout.in_place;
  send_elements_ = recv_elements_ = count;
  own_ = index(rank_) * count;
  switch (case_.kind) {
    case Kind::kReduceScatter:
      send_elements_ = n * count;
      break;
    case Kind::kAllGather:
      recv_elements_ = n * count;
      break;
    case Kind::kReduce:
      own_ = 0;
      if (!is_root() && !in_place_) recv_elements_ = unused;
      break;
    case Kind::kBroadcast:
      own_ = 0;
      if (!is_root() && !in_place_) send_elements_ = unused;
      break;
    case Kind::kGather:
      recv_elements_ = is_root() ? n * count : unused;
      in_place_ = in_place_ && is_root();
      break;
    case Kind::kScatter:
      send_elements_ = is_root() ? n * count : unused;
      in_place_ = in_place_ && is_root();
      break;
    case Kind::kAllToAll:
      send_elements_ = recv_elements_ = n * count;
      own_ = 0;
      break;
    case Kind::kAllGatherV:
    case Kind::kAllToAllV:
      plan_uneven();
      break;
    case Kind::kAllReduce:
      own_ = 0;
      break;
    case Kind::kSendRecv:
      in_place_ = false;
      break;
  }
}

void Trial::plan_uneven() {
  const bool gathers = case_.kind == Kind::kAllGatherV;
  for (int peer = 0; peer < ranks_; ++peer) recv_counts_.push_back(uneven_count(case_, peer, gathers ? 0 : rank_));
  const Placement received = placed(recv_counts_, dice(case_.seed, 5, index(rank_)));
  recv_firsts_ = received.firsts;
  recv_elements_ = received.elements;
  if (gathers) {
    send_elements_ = recv_counts_[index(rank_)];
    own_ = recv_firsts_[index(rank_)];
    return;
  }
  const Placement sent = sent_placement(case_, rank_, ranks_);
  send_counts_ = sent_counts(case_, rank_, ranks_);
  send_firsts_ = sent.firsts;
  send_elements_ = sent.elements;
  in_place_ = false;
}

/// Memory for the buffers: in place the smaller one lies in the larger one. Empty ones may be no memory at all.
void Trial::lay_out() {
  const Layout& layout = case_.layout;
  const std::size_t largest = std::max(send_elements_, recv_elements_);
  send_is_outer_ = send_elements_ > recv_elements_;
  areas_.emplace_back((in_place_ ? largest : send_elements_) * width_, layout.send_shift);
  if (!in_place_) areas_.emplace_back(recv_elements_ * width_, layout.recv_shift);
  for (Area& area : areas_) images_.emplace_back(area.size(), kUnwritten);
  const std::size_t inner = in_place_ && send_elements_ != recv_elements_ ? own_ * width_ : 0;
  send_offset_ = send_is_outer_ ? 0 : inner;
  recv_offset_ = send_is_outer_ ? inner : 0;
  send_ = areas_.front().data() + send_offset_;
  recv_ = areas_.back().data() + recv_offset_;
  if (case_.seed % 3 == 0 && send_elements_ == 0) send_ = nullptr;
  if (case_.seed % 3 == 0 && recv_elements_ == 0) recv_ = nullptr;
}

/// What the rank gives. Where it gives nothing its send buffer stays as it is.
void Trial::fill(Patterns* patterns) {
  const bool gives = (case_.kind != Kind::kBroadcast && case_.kind != Kind::kScatter) || is_root();
  if (!gives) return;
  const Bytes& pattern =
      reduces(case_.kind) ? patterns->input(case_.type, case_.op) : patterns->sent_by(case_.type, rank_);
  put(images_.front().data() + send_offset_, pattern, start() * width_, send_elements_ * width_);
  std::copy(images_.front().begin(), images_.front().end(), areas_.front().data());
}

/// Elements [from, from + block.count) of the pattern must arrive in the block.
void Trial::expect_at(const Bytes& pattern, std::size_t from, Block block) {
  put(images_.back().data() + recv_offset_ + block.first * width_, pattern, (start() + from) * width_,
      block.count * width_);
}

void Trial::expect(Patterns* patterns) {
  const std::size_t count = case_.count, own = index(rank_) * count;
  const auto sent_by = [&](int rank) -> const Bytes& { return patterns->sent_by(case_.type, rank); };
  switch (case_.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
    case Kind::kReduce:
      if (case_.kind == Kind::kReduce && !is_root()) return;
      return expect_at(patterns->result(case_.type, case_.op), case_.kind == Kind::kReduceScatter ? own : 0,
                       {0, count});
    case Kind::kBroadcast:
      return expect_at(sent_by(case_.root), 0, {0, count});
    case Kind::kScatter:
      return expect_at(sent_by(case_.root), own, {0, count});
    case Kind::kSendRecv:
      return expect_at(sent_by((rank_ + ranks_ - 1) % ranks_), 0, {0, count});
    case Kind::kGather:
      if (!is_root()) return;
      break;
    default:
      break;
  }
  for (int from = 0; from < ranks_; ++from) expect_at(sent_by(from), first_sent(from), block_of(from));
}

/// Where in rank `from`'s data that begins which it sends to this rank.
std::size_t Trial::first_sent(int from) const {
  if (case_.kind == Kind::kAllToAll) return index(rank_) * case_.count;
  return case_.kind == Kind::kAllToAllV ? sent_placement(case_, from, ranks_).firsts[index(rank_)] : 0;
}

Trial::Block Trial::block_of(int from) const {
  if (recv_counts_.empty()) return {index(from) * case_.count, case_.count};
  return {recv_firsts_[index(from)], recv_counts_[index(from)]};
}

bool Trial::is_right() const {
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    if (!areas_[i].is(images_[i])) return false;
  }
  return true;
}

}  // namespace tutti::cases
