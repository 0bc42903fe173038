// The hub is the one control service of a process, shared by its communicators.
//
// It exists while a join, a membership or an id that is served uses it. Its service thread sleeps in the event loop. It
// moves data only after a new connection, over links that no operation uses (comm/link_service.h). The hub does not
// work in a forked child: its descriptors are closed there, and every call is refused.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <typeindex>
#include <vector>

#include "comm/messages/messages.h"
#include "core/settings.h"
#include "net/acceptor.h"
#include "net/event_loop.h"

namespace tutti {

class ProcessMembership;

/// The ends of a connection over TCP that has not said anything yet.
struct Arrival {
  bool known = false;      ///< whether its ends are known
  IpAddress own;           ///< the address at which it came in
  std::uint16_t port = 0;  ///< the port at which it came in
  IpAddress other;         ///< the address from which it came
};

/// Where connections over TCP are expected.
enum class Expected : std::uint8_t {
  kNowhere,
  kAtHub,     ///< at the addresses of this process that other hosts have
  kAnywhere,  ///< at any address
};

/// Serves the connections that come to the hub for one purpose. The hub makes a service, giving itself, when somebody
/// first asks for it. Loop thread only.
class HubService {
 public:
  virtual ~HubService() = default;
  /// The secret that a connection must prove if it names this id. False if there is no such id.
  virtual bool find_secret(const KeyId& id, Key* secret) const = 0;
  /// Takes over a connection that has proved the secret.
  virtual void serve(const std::shared_ptr<Connection>& connection) = 0;
  /// Where a connection with these ends is expected for this service.
  virtual Expected expects(const Arrival& arrival) const = 0;
  /// Ends the joins that wait for connections, because of `why`.
  virtual void fail_all(const Status& /*why*/) {}
};

/// Whether this process was forked from one that had communicators or was joining, so that calls return kInvalidUsage.
/// A child of a process that only served ids starts afresh. Any thread.
bool hub_forked();
/// Whether communicators and streams can be used. They cannot after a fork, and once the process exits. Any thread.
bool hub_usable();
/// Returns why they cannot be used; ok if they can.
Status hub_refusal();

/// Waits until this process has neither hub nor service thread any more. Returns false if it still has one after
/// `timeout`.
bool wait_for_no_hub(std::chrono::milliseconds timeout);

class Hub : public std::enable_shared_from_this<Hub> {
 public:
  /// Gives the process's hub, which is made on first need and ends when the last of these pointers is gone. It takes
  /// ports and interfaces from the `settings` with which it is made. Any thread; blocks for the time of a few system
  /// calls.
  static Status acquire(const Settings& settings, std::shared_ptr<Hub>* hub);

  /// An object of this type that the ranks of this process in one communicator share. The first caller makes it, and it
  /// ends with its last user. Any thread; needs no hub.
  template <class T, class Make>
  static std::shared_ptr<T> shared(std::uint64_t comm_id, const Make& make) {
    return std::static_pointer_cast<T>(
        share(typeid(T), comm_id, [&make]() -> std::shared_ptr<void> { return make(); }));
  }
  /// Gives the one object of this type in the process, which is made on first need. It ends when the process ends in
  /// order, after the goodbyes. Any thread; needs no hub.
  template <class T>
  static Status of_process(T** object) {
    void* found = nullptr;
    TUTTI_TRY(lasting(
        typeid(T), [] { return std::make_shared<T>(); }, &found));
    *object = static_cast<T*>(found);
    return {};
  }
  /// Remembers an object that is never freed, so that a leak checker knows it is meant. Any thread.
  static void keep_until_exit(const void* object);
  /// Counts from 1 how often a rank of this process joins by a URL. Any thread; needs no hub.
  static std::uint64_t next_round(const std::string& url, Rank rank);
  /// True once per process and topic. Any thread; needs no hub.
  static bool first_time(const std::string& topic);

  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  EventLoop& loop() { return loop_; }
  /// Runs a task in the service thread and waits for its answer. Returns kTimeout if that thread, which never waits for
  /// anybody, has not run it in ten seconds; the task may run later, so it owns all that it uses. Any thread.
  Status ask(std::function<Status(const std::shared_ptr<Hub>& there)> task);
  PendingConnections& pending() { return *pending_; }
  const ProcessId& process() const { return process_; }
  std::uint16_t port() const { return port_; }
  const std::vector<IpAddress>& addresses() const { return addresses_; }
  /// Sets where this process serves the id.
  void locate(UniqueId* id) const {
    id->port = port_;
    id->addresses = addresses_;
    if (id->addresses.size() > UniqueId::kMaxAddresses) id->addresses.resize(UniqueId::kMaxAddresses);
  }

  // Loop thread only.
  /// The hub's service of this class, which serves connections that come as Service::kRole.
  template <class Service>
  Service& service() {
    auto known = services_.find(Service::kRole);
    if (known == services_.end()) known = services_.emplace(Service::kRole, std::make_unique<Service>(*this)).first;
    return static_cast<Service&>(*known->second);
  }
  /// The membership of this process's ranks that join by an id, which is made if there is none.
  std::shared_ptr<ProcessMembership> membership(const KeyId& id, const Key& secret);
  void drop_membership(const KeyId& id);

 private:
  friend struct HubRegistry;
  static std::shared_ptr<void> share(std::type_index type, std::uint64_t comm_id,
                                     const std::function<std::shared_ptr<void>()>& make);
  static Status lasting(std::type_index type, const std::function<std::shared_ptr<void>()>& make, void** object);
  Hub();
  Status open(const Settings& settings);
  void run();
  bool expects(const Socket& connected) const;
  bool lookup(Role role, const KeyId& id, Key* secret);
  void admit(const std::shared_ptr<Connection>& connection);
  void admit_to_membership(const std::shared_ptr<Connection>& connection);
  /// Ends the joins of this process's ranks, the joins that services serve, and communicators that wait for a
  /// connection.
  void fail_joins(const Status& why);
  /// Ends the joins and the communicators of this process, because the service thread has left something undone.
  void fail_all(const Status& why);
  /// Says goodbye for all ranks that did not, at the end of the process.
  void say_goodbyes();
  /// Whether the systems of all connected processes have what this one has sent them. Any thread.
  bool delivered();

  EventLoop loop_;
  pid_t owner_ = 0;
  ProcessId process_{};
  std::uint16_t port_ = 0;
  std::vector<IpAddress> addresses_;
  bool chosen_interfaces_ = false;  // the caller chose the interfaces, so connections are taken at these addresses only
  std::unique_ptr<PendingConnections> pending_;
  std::unique_ptr<Acceptor> tcp_acceptor_;
  std::unique_ptr<Acceptor> unix_acceptor_;
  std::map<Role, std::unique_ptr<HubService>> services_;
  std::map<KeyId, std::shared_ptr<ProcessMembership>> memberships_;
  std::atomic<bool> has_memberships_{false};  // relaxed: read by a thread that forks, ordered with joins by its caller
  std::thread thread_;
};

}  // namespace tutti
