// The recovery of a process lets its ranks of a communicator go on after a failure: it runs the agreement with the
// other processes, over the control connections that they have.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "comm/membership/hub.h"
#include "comm/membership/process_listener.h"
#include "comm/membership/process_membership.h"
#include "comm/messages/unique_id.h"
#include "comm/recovery/agreement.h"
#include "comm/recovery/shrink_call.h"

namespace tutti {

/// Loop thread only. The hub and the membership outlive it.
class ProcessRecovery final : public ProcessListener, public std::enable_shared_from_this<ProcessRecovery> {
 public:
  /// Serves ids to those who join by them.
  struct IdServer {
    std::function<Status(const UniqueId& id)> serve;
    std::function<void(const KeyId& id)> withdraw;  ///< does nothing if ranks have joined by the id
  };

  ProcessRecovery(Hub& hub, ProcessMembership& membership, IdServer server);
  /// Ends the calls that wait.
  ~ProcessRecovery() override;

  /// A rank of this process shrinks. The call gets its end in any case, unless this throws.
  void call(const std::shared_ptr<ShrinkCall>& call);
  /// Looks what the threads that call have to say.
  void look_at_calls();

  Status on_message(std::size_t from, MessageType type, ByteView payload) override;
  void on_connected(std::size_t place) override;
  void on_ends() override;
  void on_leave(Rank rank) override;
  void on_failure(const Status& why) override;

 private:
  template <class Step>
  void run(const Step& step);
  void give_up(const Status& why);
  void take_reports();
  void tick();
  Agreement& agreement();
  void perform();
  void perform(const Agreement::SendReport& action);
  void perform(const Agreement::SendOrder& action);
  void perform(const Agreement::MakeId& action);
  void perform(const Agreement::Build& action);
  void perform(const Agreement::End& action);
  void withdraw_id();
  void post_ends();
  void post_left_out(const NumberSet& members);
  void keep_time();
  void end_call(ShrinkCall& call, const Proposal& proposal) const;

  Hub& hub_;
  ProcessMembership& membership_;
  const IdServer server_;
  const Status leaving_;                // made beforehand, because a rank that leaves must not need memory
  std::optional<Agreement> agreement_;  // once it is needed, which is after the join
  NumberSet lost_;                      // the places whose ranks have ended
  NumberSet left_;                      // the ranks of this process that have ended
  std::map<Rank, std::shared_ptr<ShrinkCall>> calls_;
  std::optional<KeyId> served_;  // the id that this process serves
  EventLoop::TimerId tick_timer_ = 0;
  Status failure_;  // a step was left undone, so this process takes part in nothing any more
};

// What a rank's thread asks the recovery of its process. The membership outlives the question.

/// Returns an error if the service thread does not take the call.
Status begin_shrink(Membership& membership, const std::shared_ptr<ShrinkCall>& call);
/// Makes the service thread look at the calls at once. It does so by itself twice a second.
void hurry_shrink(Membership& membership);

}  // namespace tutti
