#include "comm/membership/hub.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <set>
#include <utility>

#include "comm/membership/process_membership.h"
#include "core/library_thread.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/wait_until.h"
#include "net/crypto.h"
#include "net/fork_guard.h"

namespace tutti {
namespace {

/// How long the end of a communicator may wait for the service thread.
constexpr std::chrono::milliseconds kEndTimeout{100};
/// For so long a process that ends waits until the others' systems have its goodbyes: see Membership::delivered().
constexpr double kGoodbyeSeconds = 1;
/// How long the end of the process may wait for the service thread. That end destroys what the thread still uses, and
/// on a busy machine the thread may run late.
constexpr std::chrono::milliseconds kExitTimeout{1000};
/// How long a thread waits for the service thread, which never waits for anybody.
constexpr std::chrono::seconds kServiceTimeout{10};

enum class Use : std::uint8_t {
  kAllowed,
  kForked,  ///< in a forked child
  kEnding,  ///< in a process that has begun to exit
};
/// Relaxed, because a forked child has no other thread when it is set, and a call beside exit() may still be served.
std::atomic<Use> use{Use::kAllowed};

}  // namespace

bool hub_usable() { return use.load(std::memory_order_relaxed) == Use::kAllowed; }

bool hub_forked() { return use.load(std::memory_order_relaxed) == Use::kForked; }

Status hub_refusal() {
  if (hub_usable()) return {};
  if (!hub_forked()) return fail(Code::kInvalidUsage, "the process is ending");
  return fail(Code::kInvalidUsage, "this process was forked from one that uses Tutti: it cannot use it before an exec");
}

/// The process's hubs, and what lasts longer than they do. `current` is weak, so that a hub ends with its last user.
/// `hubs` has each hub whose thread has not been joined yet: the current one and those that are ending.
struct HubRegistry {
  Mutex mutex;
  ConditionVariable thread_ended;
  std::weak_ptr<Hub> current TUTTI_GUARDED_BY(mutex);
  std::shared_ptr<Hub> last TUTTI_GUARDED_BY(mutex);                // keeps the hub of a process that ends
  std::vector<std::pair<Hub*, bool>> hubs TUTTI_GUARDED_BY(mutex);  // each with whether its thread has ended
  std::map<std::pair<std::type_index, std::uint64_t>, std::weak_ptr<void>> shared TUTTI_GUARDED_BY(mutex);
  std::map<std::type_index, std::shared_ptr<void>> lasting TUTTI_GUARDED_BY(mutex);
  std::vector<const void*> kept TUTTI_GUARDED_BY(mutex);
  std::map<std::pair<std::string, Rank>, std::uint64_t> rounds TUTTI_GUARDED_BY(mutex);
  std::set<std::string> topics TUTTI_GUARDED_BY(mutex);
  bool handlers_installed TUTTI_GUARDED_BY(mutex) = false;
  /// The process that has the handlers. It is relaxed, because a thread that ends the process while another one
  /// installs them may see either value. It is read without the mutex, which in a child made without fork() may be held
  /// by a thread that is not there.
  std::atomic<pid_t> process{0};

  // It is never destroyed, because the service thread may run while static objects are destroyed.
  static HubRegistry& get() {
    static HubRegistry* const instance = new HubRegistry;
    return *instance;
  }

  Status install_handlers() TUTTI_REQUIRES(mutex) {
    if (handlers_installed && process.load(std::memory_order_relaxed) == ::getpid()) return {};
    process.store(::getpid(), std::memory_order_relaxed);
    if (handlers_installed) return {};  // a child forked without a hub has inherited them
    TUTTI_TRY(install_fork_handlers(before_fork, after_fork, in_child));
    start_crypto();  // goodbyes are authenticated, so our handler must run before libcrypto's, if that has one
    if (std::atexit(at_exit) != 0) return fail(Code::kSystemError, "cannot install an exit handler");
    handlers_installed = true;
    return {};
  }

  static void before_fork() TUTTI_ACQUIRE(get().mutex) { get().mutex.lock(); }
  static void after_fork() TUTTI_RELEASE(get().mutex) { get().mutex.unlock(); }
  static void in_child() TUTTI_REQUIRES(get().mutex) {
    const auto hub = get().current.lock();
    if (hub && hub->has_memberships_.load(std::memory_order_relaxed))
      use.store(Use::kForked, std::memory_order_relaxed);
    get().current.reset();
    get().shared.clear();
    get().hubs.clear();  // their threads are not here, so nothing can be joined or freed safely
  }

  /// The hub's last user is gone. It waits for the hub's thread, but not for long if that is held up.
  static void retire(Hub* hub) {
    if (hub_forked()) return;                         // the child's copy has no thread; its memory stays
    if (!hub->thread_.joinable()) return delete hub;  // it never began, and the registry does not know it
    HubRegistry& registry = get();
    const bool from_service = hub->loop_.inside();
    hub->loop_.stop();
    if (from_service) return;
    MutexLock lock(registry.mutex);
    registry.wait_for_end(hub, kEndTimeout, &lock);
    lock.unlock();
    registry.reap();
  }

  /// Waits for the end of this hub's thread, or of all threads if it is nullptr. False if they have not ended in time.
  bool wait_for_end(const Hub* hub, std::chrono::milliseconds timeout, MutexLock* lock) TUTTI_REQUIRES(mutex) {
    const Clock::time_point end = Clock::now() + timeout;
    while (!ended(hub) && thread_ended.wait_until(*lock, end)) continue;
    return ended(hub);
  }

  bool ended(const Hub* hub) const TUTTI_REQUIRES(mutex) {
    if (hub == nullptr) return all_ended();
    for (const auto& [item, done] : hubs)
      if (item == hub) return done;
    return true;  // somebody else has reaped it
  }

  bool all_ended() const TUTTI_REQUIRES(mutex) {
    return std::all_of(hubs.begin(), hubs.end(), [](const auto& item) { return item.second; });
  }

  /// Joins and frees the hubs whose thread has ended.
  void reap() {
    while (Hub* const hub = take_ended()) {
      hub->thread_.join();
      delete hub;
    }
  }

  Hub* take_ended() {
    const MutexLock lock(mutex);
    const auto found = std::find_if(hubs.begin(), hubs.end(), [](const auto& item) { return item.second; });
    if (found == hubs.end()) return nullptr;
    Hub* const hub = found->first;
    hubs.erase(found);
    return hub;
  }

  void thread_done(const Hub* hub) {
    const MutexLock lock(mutex);
    for (auto& [item, done] : hubs)
      if (item == hub) done = true;
    thread_ended.notify_all();
  }

  /// The process ends in order, which peers must not take for a death. Nothing is freed, because other threads may
  /// still run.
  static void at_exit() {
    HubRegistry& registry = get();
    if (hub_forked() || registry.process.load(std::memory_order_relaxed) != ::getpid()) return;
    std::shared_ptr<Hub> hub;
    {
      const MutexLock lock(registry.mutex);
      use.store(Use::kEnding, std::memory_order_relaxed);
      hub = registry.last = registry.current.lock();
    }
    if (hub) end_with_process(hub);
    MutexLock lock(registry.mutex);  // waits for hubs that have just lost their last user
    registry.wait_for_end(nullptr, kExitTimeout, &lock);
    const auto ending = std::move(registry.lasting);
    lock.unlock();
    registry.reap();
  }

  /// Says the goodbyes and stops the thread, which should not be in libcrypto while that is destroyed (start_crypto()).
  /// The hub stays, because its users may never release it.
  static void end_with_process(const std::shared_ptr<Hub>& hub) {
    HubRegistry& registry = get();
    hub->loop_.call([hub] { hub->say_goodbyes(); }, kEndTimeout);
    (void)wait_until([hub] { return hub->delivered(); }, Deadline::in(kGoodbyeSeconds),
                     WaitPace::naps(std::chrono::milliseconds{1}));
    hub->loop_.stop();
    MutexLock lock(registry.mutex);
    const bool ended = registry.wait_for_end(hub.get(), kExitTimeout, &lock);
    std::erase_if(registry.hubs, [&](const auto& item) { return item.first == hub.get(); });
    if (ended) hub->thread_.join();
  }
};

bool wait_for_no_hub(std::chrono::milliseconds timeout) {
  HubRegistry& registry = HubRegistry::get();
  MutexLock lock(registry.mutex);
  const bool ended = registry.wait_for_end(nullptr, timeout, &lock);
  lock.unlock();
  registry.reap();
  return ended;
}

std::shared_ptr<void> Hub::share(std::type_index type, std::uint64_t comm_id,
                                 const std::function<std::shared_ptr<void>()>& make) {
  HubRegistry& registry = HubRegistry::get();
  const MutexLock lock(registry.mutex);
  std::erase_if(registry.shared, [](const auto& item) { return item.second.expired(); });
  std::weak_ptr<void>& known = registry.shared[{type, comm_id}];
  std::shared_ptr<void> object = known.lock();
  if (!object) known = object = make();
  return object;
}

Status Hub::lasting(std::type_index type, const std::function<std::shared_ptr<void>()>& make, void** object) {
  HubRegistry& registry = HubRegistry::get();
  const MutexLock lock(registry.mutex);
  TUTTI_TRY(registry.install_handlers());
  std::shared_ptr<void>& known = registry.lasting[type];
  if (!known) known = make();
  *object = known.get();
  return {};
}

void Hub::keep_until_exit(const void* object) {
  HubRegistry& registry = HubRegistry::get();
  const MutexLock lock(registry.mutex);
  registry.kept.push_back(object);
}

std::uint64_t Hub::next_round(const std::string& url, Rank rank) {
  HubRegistry& registry = HubRegistry::get();
  const MutexLock lock(registry.mutex);
  return ++registry.rounds[{url, rank}];
}

bool Hub::first_time(const std::string& topic) {
  HubRegistry& registry = HubRegistry::get();
  const MutexLock lock(registry.mutex);
  return registry.topics.insert(topic).second;
}

Hub::Hub() = default;
Hub::~Hub() = default;

Status Hub::acquire(const Settings& settings, std::shared_ptr<Hub>* hub) {
  TUTTI_TRY(hub_refusal());
  HubRegistry& registry = HubRegistry::get();
  registry.reap();
  MutexLock lock(registry.mutex);
  TUTTI_TRY(hub_refusal());  // the exit may have begun meanwhile
  *hub = registry.current.lock();
  if (*hub) return {};
  // The last hub may still be closing its port.
  registry.wait_for_end(nullptr, kEndTimeout, &lock);
  *hub = registry.current.lock();
  if (*hub) return {};
  TUTTI_TRY(registry.install_handlers());
  const std::shared_ptr<Hub> made(new Hub, HubRegistry::retire);
  TUTTI_TRY(made->open(settings));
  Hub* const raw = made.get();
  registry.hubs.emplace_back(raw, false);
  if (const Status started = start_thread(
          "tutti-hub", [raw] { raw->run(); }, &raw->thread_);
      !started.ok()) {
    registry.hubs.pop_back();
    return started;
  }
  registry.current = *hub = made;
  return {};
}

Status Hub::open(const Settings& settings) {
  owner_ = ::getpid();
  TUTTI_TRY(random_bytes(process_));
  TUTTI_TRY(local_addresses(settings.socket_interface, settings.socket_interface_source, &addresses_));
  TUTTI_TRY(loop_.open());
  chosen_interfaces_ = !settings.socket_interface.empty();
  PendingConnections::Callbacks callbacks;
  callbacks.lookup = [this](Role role, const KeyId& id, Key* secret) { return lookup(role, id, secret); };
  callbacks.admit = [this](const std::shared_ptr<Connection>& connection) { admit(connection); };
  callbacks.expected = [this](const Socket& connected) { return expects(connected); };
  callbacks.lack = [this](const Status& why) { fail_joins(why); };
  pending_ = std::make_unique<PendingConnections>(loop_, std::move(callbacks));
  TUTTI_TRY(Acceptor::listen_unix(loop_, *pending_, socket_name(process_), &unix_acceptor_));
  const Status tcp = Acceptor::listen_tcp(loop_, *pending_, settings.port_first, settings.port_last, &tcp_acceptor_);
  if (tcp.ok()) {
    // Another program may have the port at such an address, and a peer that dials it must not take that program for
    // this one.
    if (!tcp_acceptor_->serves_ipv6()) std::erase_if(addresses_, [](const IpAddress& at) { return at.family == 6; });
    port_ = tcp_acceptor_->port();
    return {};
  }
  if (settings.port_first != 0)
    return fail(tcp.code(), "TUTTI_PORT_RANGE={}-{}: {}", settings.port_first, settings.port_last, tcp.text());
  log(LogLevel::kInfo, {}, "{}: only ranks of this host can join", tcp.text());  // a sandbox without a network
  return {};
}

void Hub::run() {
  loop_.run([this](const Status& why) { fail_all(why); });
  unix_acceptor_.reset();
  tcp_acceptor_.reset();
  pending_.reset();
  services_.clear();
  for (const auto& [id, membership] : memberships_) membership->drop_joins();
  memberships_.clear();
  loop_.close();
  HubRegistry::get().thread_done(this);
}

bool Hub::lookup(Role role, const KeyId& id, Key* secret) {
  if (const auto service = services_.find(role); service != services_.end())
    return service->second->find_secret(id, secret);
  if (role != Role::kControl && role != Role::kData) return false;
  const auto found = memberships_.find(id);
  if (found == memberships_.end()) return false;
  return found->second->key_for(process_, secret).ok();
}

/// Whether a service or a process membership expects the connection: at the addresses that other processes have or, if
/// a service says so, at any.
bool Hub::expects(const Socket& connected) const {
  Arrival arrival;
  std::uint32_t scope = 0;
  arrival.known = connected.own(&arrival.own, &arrival.port) && connected.peer(&arrival.other, &scope);
  Expected where = Expected::kNowhere;
  for (const auto& [role, service] : services_) where = std::max(where, service->expects(arrival));
  for (const auto& [id, membership] : memberships_)
    if (membership->expects_tcp()) where = std::max(where, Expected::kAtHub);
  if (where != Expected::kAtHub || !chosen_interfaces_) return where != Expected::kNowhere;
  return arrival.known && std::find(addresses_.begin(), addresses_.end(), arrival.own) != addresses_.end();
}

void Hub::admit(const std::shared_ptr<Connection>& connection) {
  const auto service = services_.find(connection->handshake().role());
  if (service != services_.end()) return service->second->serve(connection);
  admit_to_membership(connection);
}

void Hub::admit_to_membership(const std::shared_ptr<Connection>& connection) {
  const auto found = memberships_.find(connection->handshake().key_id());
  if (found == memberships_.end()) return connection->close();
  if (found->second->tls() && connection->in_clear()) {
    log(LogLevel::kWarn, {}, "a connection was refused: it is not encrypted, and TUTTI_TLS=on");
    return connection->close();
  }
  if (connection->handshake().role() == Role::kData) return found->second->connector().serve(connection);
  found->second->serve(connection);
}

void Hub::fail_joins(const Status& why) {
  const auto memberships = memberships_;  // a copy, because a join that ends removes its membership
  for (const auto& [id, membership] : memberships) {
    membership->fail_join(why);
    membership->connector().end_waits(why);
  }
  for (const auto& [role, service] : services_) service->fail_all(why);
}

void Hub::fail_all(const Status& why) {
  const Status failure = fail(Code::kSystemError, "its service thread left something undone: {}", why.text());
  const auto memberships = memberships_;
  for (const auto& [id, membership] : memberships) membership->fail_all(failure);
  for (const auto& [role, service] : services_) service->fail_all(failure);
}

Status Hub::ask(std::function<Status(const std::shared_ptr<Hub>& there)> task) {
  const auto answer = std::make_shared<Status>(fail(Code::kInvalidUsage, "the process is ending"));
  const bool answered = loop_.call(
      [weak = weak_from_this(), task = std::move(task), answer] {
        try {
          if (const auto there = weak.lock()) *answer = task(there);
        } catch (...) {
          *answer = what_was_thrown("the service thread");
        }
      },
      kServiceTimeout);
  if (answered) return *answer;
  return fail(Code::kTimeout, "the service thread of this process does not answer");
}

std::shared_ptr<ProcessMembership> Hub::membership(const KeyId& id, const Key& secret) {
  has_memberships_.store(true, std::memory_order_relaxed);
  const auto found = memberships_.find(id);
  if (found != memberships_.end()) return found->second;
  return memberships_.emplace(id, std::make_shared<ProcessMembership>(*this, id, secret)).first->second;
}

void Hub::drop_membership(const KeyId& id) {
  memberships_.erase(id);
  has_memberships_.store(!memberships_.empty(), std::memory_order_relaxed);
}

void Hub::say_goodbyes() {
  for (const auto& [id, membership] : memberships_) membership->say_all_goodbyes();
}

bool Hub::delivered() {
  const auto all = std::make_shared<std::atomic<bool>>(true);  // relaxed: the end of the call orders it
  const auto look = [self = shared_from_this(), all] {
    for (const auto& [id, membership] : self->memberships_)
      if (!membership->delivered()) all->store(false, std::memory_order_relaxed);
  };
  loop_.call(look, kEndTimeout);
  return all->load(std::memory_order_relaxed);
}

}  // namespace tutti
