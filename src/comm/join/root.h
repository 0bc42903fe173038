// The root serves unique ids. It collects the ranks that join by an id, checks that they fit together, spreads the
// table of all ranks, and lets all ranks go at once. If the join fails, it gives all of them the first cause.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/membership/hub.h"
#include "comm/messages/messages.h"
#include "comm/messages/unique_id.h"
#include "net/acceptor.h"

namespace tutti {

/// One id, from its creation until all its ranks have had their answer. Loop thread only.
class RootSession : public std::enable_shared_from_this<RootSession> {
 public:
  /// Called once, when nobody needs the session any more. `answer` is for ranks that come later.
  using Ended = std::function<void(const Status& answer)>;

  RootSession(EventLoop& loop, const UniqueId& id, Ended ended);
  /// Listens on the unix socket that is named by the secret.
  Status open(PendingConnections& pending);
  void serve(const std::shared_ptr<Connection>& connection);
  void stop();
  /// Ends the session as if the id were used up, if nobody has joined yet.
  void withdraw();
  /// Ends a join that has begun and has not ended. All its ranks get `why`.
  void fail_join(const Status& why);
  /// Ends the join unless it has ended, whether or not it has begun. All its ranks get `why`, also those that come
  /// later.
  void cancel(const Status& why);
  /// Ok while ranks can join; else what a rank that comes now gets.
  Status answer() const;

  const Key& secret() const { return id_.secret; }

 private:
  enum class State { kCollecting, kLinking, kDone, kFailed };
  using Agreed = std::vector<AgreedSetting>;
  /// There may be a hundred thousand.
  struct Joined {
    Member member;
    std::uint64_t timeout_ms = 0;
    const Agreed* agreed = nullptr;  ///< in agreed_
    Connection* connection = nullptr;
    bool mapped = false;
    EventLoop::TimerId deadline = 0;
  };

  Status on_message(Connection* from, MessageType type, ByteView payload);
  void on_close(Connection* connection);
  Status take_join(Connection* from, ByteView payload);
  Status take_ready(Connection* from, ByteView payload);
  Status take_failure(ByteView payload);
  Status take_late(Connection* from, ByteView payload);
  bool fits(const JoinMessage& join);
  void add(JoinMessage join, Connection* from);
  void complete();
  void send_table(const TableMessage& table);
  bool settings_agree();
  void all_ready();
  void on_deadline(Rank rank);
  void end_late(const Status& why, Rank answered);
  void fail_late();
  void fail_all(const Status& why);
  void send_to_all(MessageType type, ByteView payload);
  void report_missing();
  void end_if_idle();
  void end();
  void await_all();
  Joined* joined_by(const Connection* connection);
  std::string name(const Member& member) const;

  EventLoop& loop_;
  UniqueId id_;
  Ended ended_;
  State state_ = State::kCollecting;
  Status failure_;
  Status late_;
  std::unique_ptr<Acceptor> acceptor_;
  std::map<Connection*, std::shared_ptr<Connection>> connections_;
  std::map<Rank, Joined> joined_;
  std::set<Agreed> agreed_;  // what ranks have said, once each: if all agree, there is one
  std::set<Rank> awaited_;   // ranks that have not joined while it collects, and then those that are not ready
  std::set<Rank> silent_;    // of these, the ones that were asked why and have not answered
  std::string costs_text_;   // rank 0's
  std::map<const Connection*, Rank> by_connection_;  // the key in joined_
  std::set<Rank> answered_;                          // ranks that have got the failure
  std::int32_t ranks_ = 0;
  EventLoop::TimerId missing_timer_ = 0;
  EventLoop::TimerId answer_timer_ = 0;  // while ranks are asked why they are not ready
  EventLoop::TimerId end_timer_ = 0;
};

/// All ids of a process. Loop thread only.
class RootService final : public HubService {
 public:
  static constexpr Role kRole = Role::kJoin;
  explicit RootService(Hub& hub) : hub_(hub) {}
  ~RootService() override;
  /// Starts to serve the id. `user` keeps the hub for as long as the id is served.
  Status add(const UniqueId& id, std::shared_ptr<Hub> user);
  /// Ends the service of the id, if nobody has joined by it.
  void withdraw(const KeyId& id);
  /// Ends the join by the id, unless it has ended. Its ranks get `why`, also those that come later.
  void cancel(const KeyId& id, const Status& why);
  /// Ok while ranks can join by an id that this process has made; else what a rank that comes now gets.
  Status answer(const KeyId& id) const;
  bool find_secret(const KeyId& id, Key* secret) const override;
  void serve(const std::shared_ptr<Connection>& connection) override;
  /// Ranks are expected while an id is served, and for a while afterwards, when they get what became of it.
  Expected expects(const Arrival& arrival) const override;
  /// Ends all joins that have begun.
  void fail_all(const Status& why) override;

 private:
  struct Past {
    KeyId id;
    Key secret;
    Status answer;
  };
  struct Active {
    std::shared_ptr<RootSession> session;
    std::shared_ptr<Hub> user;
  };
  void ended(const KeyId& id, const Status& answer);
  const Past* find_past(const KeyId& id) const;
  Hub& hub_;
  std::map<KeyId, Active> active_;
  std::deque<Past> past_;
  Clock::time_point last_failure_{};
};

}  // namespace tutti
