// The launch binder binds a checked call to a schedule and to its buffers, which is what the executor needs to run it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/choice/choice.h"
#include "collectives/choice/plan_cache.h"
#include "comm/call/arguments.h"
#include "comm/call/user_operation.h"
#include "core/fingerprint.h"
#include "core/memory.h"
#include "core/settings.h"
#include "core/units.h"
#include "executor/executor.h"

namespace tutti {

/// One per communicator. For the thread whose turn it is, unless a function says otherwise.
class LaunchBinder {
 public:
  /// The name in `source` outlives this. `far_ranks` is the number of ranks whose memory is not mapped here.
  LaunchBinder(const Settings& settings, std::shared_ptr<const AutomaticChoice> choice, Rank rank, int ranks,
               int far_ranks, LogSource source);

  /// The launch of the call that was bound last. Executors take it by reference, because to copy it would cost a small
  /// call 20 to 30 ns.
  const Launch& launch() const { return launch_; }
  Launch& launch() { return launch_; }

  /// Binds what does not depend on where the buffers are, by the plans of `plans`. Returns the size of a block.
  Bytes bind(const CallArguments& arguments, const Call& call, PlanCache* plans);
  /// Binds the rest of a call whose buffers are host memory, and remembers the call.
  void bind_host_buffers(const CallArguments& arguments, const Call& call, Bytes block);
  /// Binds the operation that the user made, which is a function or a scalar. The product of a scalar and the input
  /// goes where the result will be, if that is as large as the input, else into memory of the binder's.
  void bind_reduction(const CallArguments& arguments, const Call& call);
  /// Whether far ranks can get large messages straight from the buffers, because nothing overwrites these before they
  /// have been read.
  bool may_lend(const CallArguments& arguments) const;

  // What follows is for a program that makes the same small call again and again. To check, describe and plan it anew
  // would cost more than to run it.

  /// Whether this call can be bound to what the last one was bound to, by bind_again() instead of all the above. For
  /// the API's thread, while no operation runs.
  bool is_repeat(const CallArguments& arguments, const Call& last) const;
  /// Whether the call has the same buffers, too, which then need no check.
  bool has_same_buffers(const CallArguments& arguments) const {
    return arguments.send == last_.send && arguments.recv == last_.recv && has_same_root(arguments);
  }
  bool has_same_root(const CallArguments& arguments) const { return arguments.root == last_.root; }
  /// Changes the last call's root, for a repeat with another root.
  void change_root(const CallArguments& arguments, Call* call);
  void bind_again(const CallArguments& arguments, const Call& call) {
    launch_.input = static_cast<const std::byte*>(arguments.send);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps compilers from joining the two loads, see is_repeat()
    launch_.output = static_cast<std::byte*>(arguments.recv);
    launch_.fingerprint = fingerprint_of(call);
  }
  /// Makes the next call be bound anew.
  void forget() { can_repeat_ = false; }

  /// Whether all-reduces of this size add all operands of an element at once and in rank order, so that several packed
  /// into one give the same bits.
  bool adds_in_rank_order(Bytes block) const {
    return is_deterministic(*plans_.choice(Collective::kAllReduce, block).algorithm);
  }

  PlanCache& plans() { return plans_; }
  const PlanCache& plans() const { return plans_; }
  /// Memory of the caller's that is often used, so that peers may read it directly if they can. Any thread.
  MemoryRanges& registered() { return registered_; }
  const MemoryRanges& registered() const { return registered_; }
  /// The size of private memory, in bytes.
  std::uint64_t bytes() const { return plans_.bytes() + scaled_.capacity(); }

 private:
  Plan find_plan(const CallArguments& arguments, const Call& call, Bytes block, PlanCache* plans) const;
  bool may_take_one_pass(const Plan& plan) const {
    return plan.one_pass && launch_.wire == launch_.type && launch_.ragged == nullptr;
  }
  bool copies(Bytes block) const;
  bool exceeds_cache(Collective collective, Bytes block) const;
  bool may_peers_read_input(const CallArguments& arguments) const;
  void remember(const CallArguments& arguments, Bytes block);

  const int ranks_;
  const int far_ranks_;
  const bool network_;  // some ranks are reached by tcp
  const bool shares_inputs_;
  const bool deterministic_;
  PlanCache plans_;
  MemoryRanges registered_;
  Launch launch_;
  // What follows belongs to the call that launch_ is bound to, if that needs it.
  RaggedTiling ragged_;
  UserReduceFunction fold_;
  std::vector<std::byte> scaled_;  // inputs multiplied by a scalar
  // The last call, if can_repeat_.
  bool can_repeat_ = false;
  CallArguments last_;
  Bytes last_block_{0};
};

// The arguments were stored one by one just before. Compilers join comparisons of neighbours to one of twice the width,
// which would wait until those stores have left the store buffer (16 of 90 ns).
inline bool LaunchBinder::is_repeat(const CallArguments& arguments, const Call& last) const {
  const int differ = (arguments.type ^ last_.type) | (arguments.op ^ last_.op) | (arguments.wire ^ last_.wire);
  return can_repeat_ && differ == 0 && arguments.count == last_.count && arguments.collective == last_.collective &&
         arguments.blocks == nullptr && arguments.agreed == 0 &&
         (arguments.root == last_.root || plans_.recall(last.collective, last_block_, arguments.root) != nullptr);
}

}  // namespace tutti
