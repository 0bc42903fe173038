#include "comm/launch_binder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cache.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

/// Smaller blocks are always written through the caches.
constexpr std::size_t kStreamFrom = std::size_t{256} << 10;
/// A smaller input is copied into a slot faster than a peer could fetch it.
constexpr std::size_t kPeersReadFrom = std::size_t{64} << 10;
/// Blocks from this size on may be lent to far ranks. The messages of a block may be smaller, and are then copied.
constexpr std::size_t kLentFrom = std::size_t{64} << 10;
/// A call of one pass copies its messages if they are no more than this together: a copy takes less time than to wait
/// until the readers have what was lent to them. The limit is for the memory that the copies fill.
constexpr std::size_t kMostCopied = std::size_t{1} << 20;

}  // namespace

LaunchBinder::LaunchBinder(const Settings& settings, std::shared_ptr<const AutomaticChoice> choice, Rank rank,
                           int ranks, int far_ranks, LogSource source)
    : ranks_(ranks),
      far_ranks_(far_ranks),
      network_(choice->machine().network),
      shares_inputs_(settings.cma),
      deterministic_(settings.deterministic),
      plans_(std::move(choice), rank, settings.algorithm, settings.tile_bytes, source) {}

Bytes LaunchBinder::bind(const CallArguments& arguments, const Call& call, PlanCache* plans) {
  Launch* const launch = &launch_;
  *launch = Launch{};
  if (arguments.collective != Collective::kBarrier) launch->carry(call.type);
  if (call.wire != DataType::kInt8) [[unlikely]] {
    launch->wire = call.wire;
    launch->wire_element = size_of(call.wire);
  }
  const Bytes element = launch->wire_element;
  std::size_t count = arguments.count;
  if (arguments.collective == Collective::kAllGatherV) count = arguments.blocks->recv.largest();
  const Bytes block{count * element.value};
  const Plan plan = find_plan(arguments, call, block, plans);
  launch->schedule = plan.schedule;
  launch->input = static_cast<const std::byte*>(arguments.send);
  launch->output = static_cast<std::byte*>(arguments.recv);
  launch->count = Elems{arguments.count};
  launch->tile = Elems{plan.tile.value >> std::countr_zero(element.value)};  // sizes of types are powers of two
  launch->op = call.op;
  launch->divisor = call.op == RedOp::kAvg ? static_cast<std::uint32_t>(ranks_) : 1;
  launch->fingerprint = fingerprint_of(call);
  if (arguments.agreed != 0) [[unlikely]]
    launch->fingerprint = mix64(launch->fingerprint + arguments.agreed);
  launch->alone_reduces = ranks_ == 1 && call.type == DataType::kBool && reduces(arguments.collective);
  launch->stream_stores = block.value >= kStreamFrom && exceeds_cache(arguments.collective, block);
  launch->tree_order = deterministic_;
  if (arguments.blocks != nullptr) [[unlikely]] {
    ragged_ = RaggedTiling(arguments.blocks->send, arguments.blocks->recv, launch->tile);
    launch->ragged = &ragged_;
  }
  launch->one_pass = may_take_one_pass(plan);
  return block;
}

Plan LaunchBinder::find_plan(const CallArguments& arguments, const Call& call, Bytes block, PlanCache* plans) const {
  // Splits and grows move their data as an all-gather does. Only their names on the boards differ.
  const bool gathers = arguments.collective == Collective::kSplit || arguments.collective == Collective::kGrow;
  const Collective moved = gathers ? Collective::kAllGather : arguments.collective;
  const bool ordered = arguments.user != nullptr && !arguments.user->commutative;
  return ordered ? plans->find_in_rank_order(moved, block, call.root.value)
                 : plans->find(moved, block, call.root.value);
}

void LaunchBinder::bind_host_buffers(const CallArguments& arguments, const Call& call, Bytes block) {
  if (block.value >= kPeersReadFrom && may_peers_read_input(arguments)) {
    launch_.peers_read_input = true;
    launch_.one_pass = false;
  }
  if (arguments.user != nullptr) [[unlikely]]
    bind_reduction(arguments, call);
  if (network_ && block.value >= kLentFrom && !copies(block) && may_lend(arguments)) {
    launch_.lends = true;
    launch_.one_pass = false;
  }
  remember(arguments, block);
}

// Results that do not stay in the cache until they are used would only evict what is still needed.
bool LaunchBinder::exceeds_cache(Collective collective, Bytes block) const {
  const Collective moved = scheduled_as(collective);
  const std::size_t size = block.value / launch_.wire_element.value * launch_.element.value;
  const auto input = reinterpret_cast<std::uintptr_t>(launch_.input);
  const auto output = reinterpret_cast<std::uintptr_t>(launch_.output);
  const bool in_place = input < output + size * static_cast<std::size_t>(recv_blocks(moved, ranks_)) &&
                        output < input + size * static_cast<std::size_t>(send_blocks(moved, ranks_));
  return size * host_blocks(moved, ranks_, ranks_ - far_ranks_, in_place) > last_level_cache().value;
}

bool LaunchBinder::copies(Bytes block) const {
  if (!launch_.one_pass) return false;
  const std::vector<Step>& steps = launch_.schedule->steps;
  const auto sends = std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.has(kSend); });
  return static_cast<std::size_t>(sends) * block.value <= kMostCopied;
}

bool LaunchBinder::may_lend(const CallArguments& arguments) const {
  if (launch_.wire != launch_.type || arguments.blocks != nullptr) return false;
  const auto size = [&](int blocks) {
    return arguments.count * launch_.element.value * static_cast<std::size_t>(blocks);
  };
  const std::byte* const read = launch_.input + size(send_blocks(arguments.collective, ranks_));
  const std::byte* const written = launch_.output + size(recv_blocks(arguments.collective, ranks_));
  const bool apart =
      launch_.input == nullptr || launch_.output == nullptr || read <= launch_.output || written <= launch_.input;
  return is_reference_safe(*launch_.schedule->algorithm, !apart);
}

// Only an input that nothing is stored into may be shared, because peers read it while this rank goes on.
bool LaunchBinder::may_peers_read_input(const CallArguments& arguments) const {
  if (!shares_inputs_ || launch_.wire != launch_.type || arguments.send == nullptr || arguments.blocks != nullptr ||
      arguments.user != nullptr)
    return false;
  const std::size_t block = arguments.count * launch_.element.value;
  const std::size_t bytes = block * static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  if (!host_allocations().contains(arguments.send, bytes) && !registered_.contains(arguments.send, bytes)) return false;
  const std::size_t written = block * static_cast<std::size_t>(recv_blocks(arguments.collective, ranks_));
  const auto* const send = static_cast<const std::byte*>(arguments.send);
  const auto* const recv = static_cast<const std::byte*>(arguments.recv);
  return send + bytes <= recv || recv + written <= send;
}

void LaunchBinder::bind_reduction(const CallArguments& arguments, const Call& call) {
  if (arguments.user->function != nullptr) {
    fold_.bind(*arguments.user, call.type);
    launch_.user = &fold_;
    launch_.alone_reduces = false;
    return;
  }
  launch_.op = RedOp::kSum;
  const std::size_t count = arguments.count * static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  std::byte* product = launch_.output;
  if (arguments.collective != Collective::kAllReduce) {
    const std::size_t bytes = count * launch_.element.value;
    if (scaled_.size() < bytes) scaled_.resize(bytes);
    product = scaled_.data();
  }
  scale(call.type, product, arguments.send, count, arguments.user->scalar_now());
  launch_.input = product;
}

// Only small calls are remembered, because from kPeersReadFrom on more depends on the buffers than their addresses.
void LaunchBinder::remember(const CallArguments& arguments, Bytes block) {
  const bool plain = arguments.user == nullptr && arguments.agreed == 0 && arguments.blocks == nullptr;
  if (!plain || block.value >= std::min(kPeersReadFrom, kLentFrom)) return;
  last_ = arguments;
  last_block_ = block;
  can_repeat_ = true;
}

// Roots often take turns. Whoever the root is, a small call is bound to the same things, except that the root decides
// which buffers it needs. These are the buffers that were checked for this root.
void LaunchBinder::change_root(const CallArguments& arguments, Call* call) {
  last_.root = arguments.root;
  last_.send = arguments.send;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in bind_again()
  last_.recv = arguments.recv;
  call->root = Rank{arguments.root};
  const Plan& plan = *plans_.recall(call->collective, last_block_, arguments.root);
  launch_.schedule = plan.schedule;
  launch_.one_pass = may_take_one_pass(plan);
}

}  // namespace tutti
