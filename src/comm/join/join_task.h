// One rank's join, from the id to the membership.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"
#include "comm/messages/unique_id.h"
#include "core/mutex.h"
#include "net/dialer.h"
#include "net/host_identity.h"

namespace tutti {

/// Runs in the hub's loop; the joining thread waits in run().
class JoinTask : public std::enable_shared_from_this<JoinTask> {
 public:
  JoinTask(std::shared_ptr<Hub> hub, const JoinRequest& request, const UniqueId& id);
  /// Blocks until the join has succeeded or failed, but at most a little longer than its deadline, even if the service
  /// thread is held up. `in_vain` (may be empty) is asked now and then while no root has accepted this rank; if it
  /// returns true, the join ends.
  Status run(const BeforeReady& before_ready, const std::function<bool()>& in_vain, JoinResult* result);
  /// What became of the id. Call it after run().
  IdService service() const {
    const MutexLock lock(mutex_);
    return service_;
  }

 private:
  enum class Stage { kRunning, kLinked, kDone };
  class Ending;

  // Loop thread.
  void start();
  void dial_in_turn();
  void dial();
  void dial_later(std::chrono::nanoseconds pause);
  void dialed(const Status& why, std::shared_ptr<Connection> connection);
  bool was_dropped();
  void listen_to_root();
  void send_join();
  Status on_message(MessageType type, ByteView payload);
  Status take_missing(ByteView payload);
  void linked(const Status& why);
  void send_ready();
  Status take_go(ByteView payload);
  void report(const Status& why);
  void report_unreached();
  void answer_why();
  void end_with_own_failure_later();
  void on_deadline();
  void warn_of_missing();
  void arm_timers();
  void finish(const Status& why);
  Member self() const;
  void set_stage(Stage stage);
  void set_service(IdService service);
  void give_up_in_vain();
  template <class Step>
  void run_step(const Step& step);

  // Joining thread.
  Status run_stages(const BeforeReady& before_ready, const std::function<bool()>& in_vain, JoinResult* result);
  bool is_taken_in();
  Status wait_while(Stage stage);
  std::chrono::milliseconds look_pause() const;
  bool ends_soon(Stage stage);
  bool is_linked() const {
    const MutexLock lock(mutex_);
    return stage_ == Stage::kLinked;
  }

  const std::shared_ptr<Hub> hub_;
  const JoinRequest request_;
  const UniqueId id_;
  HostIdentity host_;
  std::shared_ptr<ProcessMembership> process_membership_;
  std::shared_ptr<MembershipLinker>
      linker_;  // set while this join would have to take the rank out of the membership again
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Connection> root_;
  bool ready_ = false;  // the root knows that this rank is connected to its neighbours
  bool ended_ = false;
  bool all_fail_ = false;  // the root has announced that the join fails on all ranks
  bool reported_ = false;  // the root knows of this rank's failure and answers
  Status own_failure_;
  std::string missing_;  // the ranks for which the root waits, as it has last said
  int refusals_ = 0;     // of dials
  int drops_ = 0;        // of connections, after their handshake and before the root has said anything
  bool heard_ = false;   // the root has said something on this connection
  bool told_ = false;    // the loop knows that JoinRequest::check has ended the join; used by the joining thread only
  EventLoop::TimerId deadline_timer_ = 0;
  EventLoop::TimerId warn_timer_ = 0;

  mutable Mutex mutex_;  // guards what the loop's thread and the joining thread share
  ConditionVariable changed_;
  Stage stage_ TUTTI_GUARDED_BY(mutex_) = Stage::kRunning;
  IdService service_ TUTTI_GUARDED_BY(mutex_) = IdService::kSilent;
  Status status_ TUTTI_GUARDED_BY(mutex_);
  JoinResult outcome_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
