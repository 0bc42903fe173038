// The data connector makes the TCP streams of this process's ranks: one for each peer and lane, when somebody wants it.
//
// The higher rank of a pair dials. If the lower one wants the stream, it asks for that over the control connection. A
// data connection passes the handshake of all connections (role kData) and then names the ranks and the lane that it is
// for. After the answer, both ends hand its socket to their endpoints.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/accepted_streams.h"
#include "comm/membership/member_table.h"
#include "comm/membership/membership.h"
#include "comm/messages/data_connection_message.h"
#include "net/connection.h"
#include "net/dialer.h"

namespace tutti {

/// One end of a data connection: where a local rank's streams from a peer for a lane come from.
struct DataConnectionId {
  Rank local = kNoRank;
  Rank peer = kNoRank;
  Lane lane{0};
  auto operator<=>(const DataConnectionId&) const = default;
};

/// Loop thread only, except for accepted().
class DataConnector : public std::enable_shared_from_this<DataConnector> {
 public:
  /// What the connector needs of its process membership.
  struct Callbacks {
    EventLoop& loop;
    KeyId id;
    ProcessId process;
    std::uint16_t port;  ///< the port of this process's hub
    /// Makes the key that connections to that process must prove.
    std::function<Status(const ProcessId& to, Key* key)> key_for;
    /// Sends a request over the control connection.
    std::function<void(const ProcessId& to, const RequestDialMessage& message)> ask;
    std::function<void(Rank from, const FailureCause& cause)> post_cause;
    std::function<bool(const ProcessId& to)> in_touch;  ///< whether the control connection is up
    /// Whether the control connection goes the same way as the data connection and so notices a dead link.
    std::function<bool(const ProcessId& to, const Connection& end)> watches;
  };
  explicit DataConnector(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  /// The table has come. `timeout` says for how many seconds a rank that cannot be reached is tried.
  void open(std::shared_ptr<MemberTable> member_table, const std::vector<Rank>& local_ranks, double timeout, bool tls);
  void remove_local(Rank rank);
  void close();

  /// What has been accepted for a local rank; nullptr if the rank is not one of this process. Call it after open().
  std::shared_ptr<AcceptedStreams> accepted(Rank rank) const;
  /// A rank wants the next stream. It had `taken` so many, so the next one may have come by now.
  void want(const DataConnectionId& end, std::uint32_t taken);
  /// This process can take no connections, so whoever waits for one fails because of `why`.
  void end_waits(const Status& why);
  /// Takes over an accepted data connection.
  void serve(const std::shared_ptr<Connection>& connection);
  Status take_ask(const ProcessId& from, ByteView payload);
  /// The control connection to a process is new, so what was asked for and did not come is asked for again.
  void ask_again(const ProcessId& process);

 private:
  struct End {
    bool wanted = false;        // somebody waits for a stream, which is on its way
    bool silent = false;        // the peer's host accepts connections, but nobody answers
    std::uint32_t streams = 0;  // how many were made
    int late_tries = 0;         // since the time to give up
    Clock::time_point give_up{};
    std::shared_ptr<Dialer> dialer;
    std::shared_ptr<Connection> connection;  // it is open, and waits for the answer
    EventLoop::TimerId timer = 0;            // for the answer, or the next try
  };

  bool worth_it(const DataConnectionId& id) const;
  Clock::time_point deadline_from_now() const;
  void ask(const DataConnectionId& id, const End& end);
  void begin_dial(const DataConnectionId& id, End& end);
  void dial(const DataConnectionId& id);
  void dial_late(const DataConnectionId& id);
  void dialed(const DataConnectionId& id, const Status& why, const std::shared_ptr<Connection>& connection);
  Status take_opened(const DataConnectionId& id, MessageType type, ByteView payload);
  void dial_failed(const DataConnectionId& id, const Status& why, bool silent = false);
  void retry_later(const DataConnectionId& id, End& end);
  void cannot_reach(const DataConnectionId& id, const Status& why);
  Status take_open(Connection* from, MessageType type, ByteView payload);
  void arrived(const DataConnectionId& id, TcpStream stream);
  void drop(End& end);
  std::vector<DialTarget> targets_for(Rank peer) const;
  void refuse(Connection* connection);

  Callbacks callbacks_;
  std::shared_ptr<MemberTable> member_table_;
  double timeout_ = 0;
  bool tls_ = false;
  std::map<Rank, std::shared_ptr<AcceptedStreams>> accepted_;  // by local rank
  std::map<DataConnectionId, End> ends_;
  std::map<Connection*, std::shared_ptr<Connection>> unnamed_;  // accepted, have not said yet which they are
};

}  // namespace tutti
