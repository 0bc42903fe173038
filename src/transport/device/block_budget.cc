#include "transport/device/block_budget.h"

#include <algorithm>

namespace tutti {

namespace {
/// The first communicator of a device leaves one block of this many for others, while there are streams for others.
constexpr std::uint32_t kReserve = 5;
}  // namespace

// A communicator with one rank on the device is never refused: its kernels wait for none on that device, so other
// communicators only delay them, as long as all ranks make their calls in the same order. Programs have many such
// communicators.
//
// The first communicator gets what it can use. Each later one gets at most half of what is left, so that more can come.
Status BlockBudget::fit(const BlockClaim& claim, std::uint32_t* blocks) {
  const Use use = uses_[claim.card.identity.uuid];
  const auto all_streams = static_cast<std::uint32_t>(claim.card.limits.connections);
  const auto all_blocks = static_cast<std::uint32_t>(claim.card.limits.processors);
  const std::uint32_t streams = all_streams - std::min(use.streams, all_streams);
  const std::uint32_t left = all_blocks - std::min(use.blocks, all_blocks);
  const bool alone = claim.ranks == 1;
  if (claim.ranks > streams && !alone)
    return fail(Code::kUnsupported,
                "other communicators of the process have {} of the {} streams that run side by side on a device, and "
                "its {} ranks need one each (CUDA_DEVICE_MAX_CONNECTIONS)",
                use.streams, all_streams, claim.ranks);
  // If it is the only communicator, it may have more ranks than its device has multiprocessors.
  if (claim.ranks > left && use.streams != 0 && !alone)
    return fail(Code::kUnsupported,
                "other communicators of the process have {} of the {} thread blocks that run side by side on a device, "
                "and its {} ranks need one each",
                use.blocks, all_blocks, claim.ranks);
  const std::uint32_t reserve = streams > claim.ranks ? left / kReserve : 0;
  const std::uint32_t kept = use.streams == 0 ? reserve : left - left / 2;
  const std::uint32_t share = std::max((left - std::min(kept, left)) / claim.ranks, 1u);
  *blocks = std::min(*blocks, share);
  return {};
}

Status BlockBudget::take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks) {
  const MutexLock lock(mutex_);
  for (const BlockClaim& claim : claims) TUTTI_TRY(fit(claim, blocks));
  for (const BlockClaim& claim : claims) {
    Use& use = uses_[claim.card.identity.uuid];
    use.streams += claim.ranks;
    use.blocks += claim.ranks * *blocks;
  }
  return {};
}

void BlockBudget::give_back(const std::vector<BlockClaim>& claims, std::uint32_t blocks) {
  shrink(claims, blocks, 0);
  const MutexLock lock(mutex_);
  for (const BlockClaim& claim : claims) uses_[claim.card.identity.uuid].streams -= claim.ranks;
}

void BlockBudget::shrink(const std::vector<BlockClaim>& claims, std::uint32_t from, std::uint32_t to) {
  const MutexLock lock(mutex_);
  for (const BlockClaim& claim : claims) uses_[claim.card.identity.uuid].blocks -= claim.ranks * (from - to);
}

Status BlockShare::take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks) {
  const MutexLock lock(mutex_);
  if (!asked_) {
    asked_ = true;
    claims_ = claims;
    taken_ = budget_->take(claims_, blocks);
    if (taken_.ok()) blocks_ = *blocks;
  }
  *blocks = blocks_;
  return taken_;
}

void BlockShare::settle(std::uint32_t blocks) {
  const MutexLock lock(mutex_);
  if (blocks >= blocks_) return;
  budget_->shrink(claims_, blocks_, blocks);
  blocks_ = blocks;
}

void BlockShare::give_back() {
  const MutexLock lock(mutex_);
  if (blocks_ != 0) budget_->give_back(claims_, blocks_);
  blocks_ = 0;
}

}  // namespace tutti
