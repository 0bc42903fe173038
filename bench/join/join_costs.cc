#include "join_costs.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/join/rank_places.h"
#include "comm/membership/member_table.h"
#include "comm/membership/process_order.h"
#include "core/clock.h"
#include "heap.h"
#include "net/acceptor.h"
#include "net/dialer.h"
#include "root_load.h"
#include "sample_member.h"
#include "tutti/tutti.h"

namespace tutti::bench {
namespace {

constexpr int kConnections = 2000;
constexpr int kAtOnce = 8;  // as in a join
constexpr int kMessages = 20'000;
constexpr std::size_t kLongBytes = 4 << 20;
constexpr int kLongMessages = 32;
constexpr int kRootRanks = 4096;
constexpr int kPlayers = 4;
constexpr int kStarts = 32;

void check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.text().c_str());
  std::exit(1);
}

Microseconds thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// A loop in a thread of its own.
class LoopThread {
 public:
  LoopThread() {
    check(loop_.open(), "an event loop");
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  EventLoop& loop() { return loop_; }
  void run(const std::function<void()>& task) { loop_.call(task, std::chrono::seconds(60)); }
  /// The processor time that the thread has used so far.
  Microseconds used() {
    Microseconds used{};
    run([&used] { used = thread_time(); });
    return used;
  }

 private:
  EventLoop loop_;
  std::thread thread_;
};

/// Two ends that connect over the loopback and send each other messages, as two hubs do.
class TwoEnds {
 public:
  TwoEnds() {
    check(random_bytes(id_), "random bytes");
    check(random_bytes(secret_), "random bytes");
    PendingConnections::Callbacks callbacks;
    callbacks.lookup = [this](Role, const KeyId&, Key* secret) {
      *secret = secret_;
      return true;
    };
    callbacks.admit = [this](const std::shared_ptr<Connection>& connection) { admit(connection); };
    callbacks.expected = [](const Socket&) { return true; };
    callbacks.lack = [](const Status& why) { check(why, "a connection"); };
    acceptor_.run([&] {
      pending_ = std::make_unique<PendingConnections>(acceptor_.loop(), std::move(callbacks));
      check(Acceptor::listen_tcp(acceptor_.loop(), *pending_, 0, 0, &listener_), "a port");
    });
  }
  ~TwoEnds() {
    dialler_.run([this] { close(made_); });
    acceptor_.run([this] {
      close(accepted_);
      listener_.reset();
      pending_.reset();
    });
  }
  TwoEnds(const TwoEnds&) = delete;
  TwoEnds& operator=(const TwoEnds&) = delete;

  void connect(JoinCosts* costs) {
    const Microseconds dialled = dialler_.used();
    const Microseconds accepted = acceptor_.used();
    dialler_.run([this] {
      for (int i = 0; i < kAtOnce; ++i) dial();
    });
    wait_for(ready_, kConnections);
    costs->dial = (dialler_.used() - dialled) / kConnections;
    costs->accept = (acceptor_.used() - accepted) / kConnections;
  }

  /// Sends so many messages to the acceptor's end over one connection, a few at a time.
  void send(int count, std::size_t bytes, Microseconds* send, Microseconds* receive) {
    const std::vector<std::byte> payload(bytes);
    const Microseconds sent = dialler_.used();
    const Microseconds received = acceptor_.used();
    received_.store(0, std::memory_order_relaxed);
    for (int i = 0; i < count; i += kAtOnce) {
      dialler_.run([&] {
        for (int k = 0; k < kAtOnce; ++k) made_.front()->send(MessageType::kMemberEvents, payload);
      });
      wait_for(received_, i + kAtOnce);
    }
    *send = (dialler_.used() - sent) / count;
    *receive = (acceptor_.used() - received) / count;
  }

 private:
  static void wait_for(const std::atomic<int>& count, int wanted) {
    const Deadline deadline = Deadline::in(60);
    while (count.load(std::memory_order_relaxed) < wanted) {
      if (deadline.passed()) check(fail(Code::kTimeout, "{} of {} came", count.load(), wanted), "what was sent");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  static void close(std::vector<std::shared_ptr<Connection>>& connections) {
    for (const auto& connection : connections) connection->close();
    connections.clear();
  }

  void dial() {
    if (dialled_++ >= kConnections) return;
    auto& dialer = dialers_.emplace_back(std::make_shared<Dialer>(
        dialler_.loop(), tcp_targets({loopback(1)}, listener_->port(), false), Role::kControl, id_, secret_,
        [this](const Status& why, std::shared_ptr<Connection> connection) {
          check(why, "a connection");
          ConnectionEvents events;
          events.on_message = [this](MessageType, ByteView) {  // the other end has the first message
            ready_.fetch_add(1, std::memory_order_relaxed);
            dial();
            return Status();
          };
          connection->set_events(std::move(events));
          connection->send(MessageType::kIntroduce, encode(IntroduceMessage{}));
          made_.push_back(std::move(connection));
        }));
    dialer->start();
  }

  void admit(const std::shared_ptr<Connection>& connection) {
    ConnectionEvents events;
    events.on_message = [this, raw = connection.get()](MessageType type, ByteView) {
      if (type == MessageType::kIntroduce) raw->send(MessageType::kLinked, {});
      received_.fetch_add(1, std::memory_order_relaxed);
      return Status();
    };
    connection->set_limit(2 * kLongBytes);
    connection->set_events(std::move(events));
    accepted_.push_back(connection);
  }

  KeyId id_{};
  Key secret_{};
  LoopThread acceptor_;
  LoopThread dialler_;
  std::unique_ptr<PendingConnections> pending_;
  std::unique_ptr<Acceptor> listener_;
  std::vector<std::shared_ptr<Connection>> accepted_;
  std::vector<std::shared_ptr<Connection>> made_;
  std::vector<std::shared_ptr<Dialer>> dialers_;
  int dialled_ = 0;
  std::atomic<int> ready_{0};     // relaxed: counts alone
  std::atomic<int> received_{0};  // relaxed: counts alone
};

Microseconds process_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Median of processes that join alone.
Microseconds measure_start() {
  std::vector<Microseconds> times(kStarts);
  for (Microseconds& time : times) {
    int results[2];
    if (::pipe(results) != 0) std::abort();
    if (::fork() == 0) {
      const Microseconds begin = process_time();
      tuttiUniqueId id;
      tuttiComm_t comm = nullptr;
      if (tuttiGetUniqueId(&id) != tuttiSuccess || tuttiCommInitRank(&comm, 1, id, 0) != tuttiSuccess) std::_Exit(1);
      const Microseconds used = process_time() - begin;
      if (::write(results[1], &used, sizeof used) != sizeof used) std::_Exit(1);
      std::_Exit(0);
    }
    ::close(results[1]);
    if (::read(results[0], &time, sizeof time) != sizeof time) std::abort();
    ::close(results[0]);
    ::wait(nullptr);
  }
  std::nth_element(times.begin(), times.begin() + kStarts / 2, times.end());
  return times[kStarts / 2];
}

}  // namespace

void measure_table(int ranks, int ranks_of_host, JoinCosts* costs) {
  const std::vector<IpAddress> addresses(2);
  TableMessage table;
  for (Rank rank{0}; rank.value < ranks; ++rank) table.members.push_back(sample_member(rank, ranks_of_host, addresses));
  const std::vector<std::byte> bytes = encode(table);
  const Microseconds begin = thread_time();
  TableMessage taken;
  check(decode(bytes, &taken), "the table");
  const double heap = heap_bytes();
  const MemberTable known(taken);
  const MemberList& members = known.members();
  const ProcessOrder order(members, kMeshProcesses);
  costs->bytes_of_rank = (heap_bytes() - heap) / ranks;
  const std::vector<std::byte> kept(bytes.begin(), bytes.end());
  const Microseconds ordered = thread_time();
  const std::vector<int> hosts = hosts_of(members, {});
  const std::vector<int> processes = processes_of(order, members.size());
  const int cores = ranks_per_core_of(members) + cores_of_same_boot(Rank{0}, members);
  const Microseconds end = thread_time();
  if (hosts.size() != processes.size() || cores < 2 || kept.empty()) std::abort();  // nothing may be left out
  costs->take_table = ordered - begin;
  costs->take_go = end - ordered;
}

JoinCosts measure_join_costs() {
  JoinCosts costs;
  costs.start = measure_start();
  const RootLoad root = measure_root(kRootRanks, kPlayers, true);
  if (root.failed) check(fail(Code::kInternalError, "see above"), "the joins of the measurement");
  const auto of_rank = [](double seconds) { return Microseconds(std::chrono::duration<double>(seconds)) / kRootRanks; };
  costs.root_join = of_rank(root.joined.processor);
  costs.root_let_go = of_rank(root.let_go.processor - root.joined.processor);
  costs.root_end = of_rank(root.ended.processor - root.let_go.processor);
  TwoEnds ends;
  ends.connect(&costs);
  ends.send(kMessages, 16, &costs.send, &costs.receive);
  Microseconds send{}, receive{};
  ends.send(kLongMessages, kLongBytes, &send, &receive);
  costs.send_byte = send / kLongBytes;
  costs.receive_byte = receive / kLongBytes;
  return costs;
}

}  // namespace tutti::bench
