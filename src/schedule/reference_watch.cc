#include "schedule/reference_watch.h"

#include <algorithm>

namespace tutti {

void ReferenceWatch::reset(std::size_t strands, std::size_t cells) {
  strands_ = strands;
  steps_.assign(strands, 0);
  clocks_.assign(strands * strands, 0);
  current_.assign(strands, kNone);
  knows_.assign(strands, false);
  snapshots_.clear();
  holders_.clear();
  free_.clear();
  messages_.clear();
  receipts_.clear();
  references_.clear();
  referring_.assign(cells, kNone);
}

/// The strand's clock as it is now; the strand itself holds it until it receives again.
std::uint32_t ReferenceWatch::snapshot(std::uint32_t strand) {
  if (!knows_[strand] || current_[strand] != kNone) return current_[strand];
  std::uint32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::uint32_t>(holders_.size());
    holders_.push_back(1);
    snapshots_.resize(snapshots_.size() + strands_);
  } else {
    id = free_.back();
    free_.pop_back();
    holders_[id] = 1;
  }
  std::copy_n(clock(strand), strands_, snapshots_.data() + id * strands_);
  return current_[strand] = id;
}

void ReferenceWatch::release(std::uint32_t snapshot) {
  if (snapshot != kNone && --holders_[snapshot] == 0) free_.push_back(snapshot);
}

std::uint32_t ReferenceWatch::sent(std::uint32_t strand, std::uint32_t readers) {
  const std::uint32_t known = snapshot(strand);
  if (known != kNone) ++holders_[known];
  messages_.push_back(Sent{strand, steps_[strand], known, readers, kNone});
  return static_cast<std::uint32_t>(messages_.size() - 1);
}

void ReferenceWatch::refer(std::uint32_t message, std::size_t cell) {
  references_.push_back(Reference{message, referring_[cell]});
  referring_[cell] = static_cast<std::uint32_t>(references_.size() - 1);
}

void ReferenceWatch::received(std::uint32_t strand, std::uint32_t message) {
  Sent& sent = messages_[message];
  receipts_.push_back(Receipt{strand, steps_[strand], sent.receipts});
  sent.receipts = static_cast<std::uint32_t>(receipts_.size() - 1);
  knows_[strand] = true;
  release(current_[strand]);
  current_[strand] = kNone;
  std::uint32_t* const mine = clock(strand);
  if (sent.snapshot != kNone) {
    const std::uint32_t* const theirs = snapshots_.data() + sent.snapshot * strands_;
    for (std::size_t i = 0; i < strands_; ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
  mine[sent.strand] = std::max(mine[sent.strand], sent.step + 1);
  if (--sent.unread == 0) release(sent.snapshot);
}

bool ReferenceWatch::may_write(std::uint32_t strand, std::size_t cell) const {
  for (std::uint32_t r = referring_[cell]; r != kNone; r = references_[r].next) {
    const Sent& sent = messages_[references_[r].message];
    if (sent.unread != 0) return false;
    for (std::uint32_t at = sent.receipts; at != kNone; at = receipts_[at].next) {
      const Receipt& receipt = receipts_[at];
      if (clocks_[strand * strands_ + receipt.strand] <= receipt.step) return false;
    }
  }
  return true;
}

}  // namespace tutti
