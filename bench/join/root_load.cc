#include "root_load.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/join/dial_pause.h"
#include "comm/messages/messages.h"
#include "comm/messages/unique_id.h"
#include "heap.h"
#include "net/dialer.h"
#include "sample_member.h"
#include "tutti/tutti.h"

namespace tutti::bench {
namespace {

/// Shared by all processes; relaxed, but for `started`, which the players acquire, since these are only counts.
struct Page {
  std::atomic<bool> started{false};
  std::atomic<int> born{0};     // players
  std::atomic<int> named{0};    // ranks that know where the table comes from, so all have joined
  std::atomic<int> gone{0};     // ranks that were let go
  std::atomic<int> dropped{0};  // dials that failed, and connections that ended before the root had said anything
  std::atomic<int> failed{0};
};

constexpr int kRanksOfHost = 8;

/// One rank, as the root sees it.
class PlayedRank : public std::enable_shared_from_this<PlayedRank> {
 public:
  PlayedRank(EventLoop& loop, Page& page, const UniqueId& id, std::vector<DialTarget> targets, JoinMessage join)
      : loop_(loop), page_(page), id_(id), targets_(std::move(targets)), join_(std::move(join)) {}

  /// When its turn comes, as a rank of another host would; ranks of the root's host dial at once.
  void dial_in_turn() {
    if (targets_.front().socket_name.empty())
      return dial_later(dial_pause(join_.member.rank, join_.ranks, std::chrono::hours(1)));
    dial();
  }

 private:
  void dial() {
    dialer_ = std::make_shared<Dialer>(loop_, targets_, Role::kJoin, id_.nonce, id_.secret,
                                       [weak = weak_from_this()](const Status&, std::shared_ptr<Connection> made) {
                                         if (const auto self = weak.lock()) self->dialed(std::move(made));
                                       });
    dialer_->start();
  }

  void dial_later(std::chrono::nanoseconds pause) {
    loop_.after(pause, [self = shared_from_this()] { self->dial(); });
  }

  void dialed(std::shared_ptr<Connection> made) {
    if (!made) return retry();
    root_ = std::move(made);
    ConnectionEvents events;
    events.on_message = [weak = weak_from_this()](MessageType type, ByteView) {
      if (const auto self = weak.lock()) self->take(type);
      return Status();
    };
    events.on_close = [weak = weak_from_this()](const Status& why) {
      const auto self = weak.lock();
      if (self) self->heard_ ? self->fail(why.text()) : self->retry();
    };
    root_->set_limit(std::size_t{64} * 1024 * 1024);
    root_->set_events(std::move(events));
    root_->send(MessageType::kJoin, encode(join_));
  }

  void retry() {
    page_.dropped.fetch_add(1, std::memory_order_relaxed);
    dial_later(std::min(++retries_, 8) * std::chrono::milliseconds(50));
  }

  void take(MessageType type) {
    heard_ = true;
    if (type == MessageType::kFailure) return fail("the join failed");
    if (type == MessageType::kTable || type == MessageType::kTableSource) {
      page_.named.fetch_add(1, std::memory_order_relaxed);
      root_->send(MessageType::kReady, encode(ReadyMessage{true}));
    }
    if (type != MessageType::kGo) return;
    loop_.post([root = std::move(root_)] { root->close(); });
    page_.gone.fetch_add(1, std::memory_order_relaxed);
  }

  void fail(const std::string& why) {
    if (page_.failed.fetch_add(1, std::memory_order_relaxed) == 0)
      std::fprintf(stderr, "rank %d: %s\n", join_.member.rank.value, why.c_str());
  }

  EventLoop& loop_;
  Page& page_;
  const UniqueId& id_;
  const std::vector<DialTarget> targets_;
  const JoinMessage join_;
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Connection> root_;
  bool heard_ = false;
  int retries_ = 0;
};

/// Players dial different addresses, because the system has ports for some 14,000 connections to one.
void play(Page& page, const UniqueId& id, bool tcp, int player, int players, int ranks) {
  EventLoop loop;
  if (!loop.open().ok()) std::abort();
  std::vector<DialTarget> targets(1);
  if (!id.socket_name(&targets[0].socket_name).ok()) std::abort();
  if (tcp) targets = tcp_targets({loopback(player + 1)}, id.port, false);
  std::vector<std::shared_ptr<PlayedRank>> played;
  for (Rank rank{ranks * player / players}; rank.value < ranks * (player + 1) / players; ++rank)
    played.push_back(
        std::make_shared<PlayedRank>(loop, page, id, targets, sample_join(rank, ranks, kRanksOfHost, id.addresses)));
  page.born.fetch_add(1, std::memory_order_relaxed);
  while (!page.started.load(std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  loop.post([&] {
    for (const auto& rank : played) rank->dial_in_turn();
  });
  std::thread end_watch([&] {
    while (page.gone.load(std::memory_order_relaxed) < ranks && page.failed.load(std::memory_order_relaxed) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // The last connections end by themselves; a loop that stops now would leave them to the end of the process.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    loop.stop();
  });
  loop.run();
  end_watch.join();
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

struct Begin {
  const std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  const double heap = heap_bytes();
};

/// Also ends if a player has failed, or was killed.
RootMark wait_for(Page& page, const std::atomic<int>& count, int wanted, const Begin& begin) {
  while (count.load(std::memory_order_relaxed) < wanted && page.failed.load(std::memory_order_relaxed) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int end = 0; ::waitpid(-1, &end, WNOHANG) > 0;)
      if (end != 0) page.failed.fetch_add(1, std::memory_order_relaxed);
  }
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin.at).count(),
          processor_seconds() - begin.processor};
}

/// Waits for the id, which the root writes into the pipe, and plays the ranks.
[[noreturn]] void run_player(Page& page, int id_pipe, bool tcp, int player, int players, int ranks) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // without the root nobody would say when to begin
  IdBytes bytes;
  UniqueId id;
  if (::read(id_pipe, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  if (!UniqueId::decode(bytes, &id).ok()) std::abort();
  play(page, id, tcp, player, players, ranks);
  std::_Exit(0);
}

}  // namespace

RootLoad measure_root(int ranks, int players, bool tcp) {
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Page& page = *new (memory) Page{};
  int id_pipe[2];
  if (::pipe(id_pipe) != 0) std::abort();
  for (int i = 0; i < players; ++i)
    if (::fork() == 0) run_player(page, id_pipe[0], tcp, i, players, ranks);
  tuttiUniqueId id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) std::abort();
  for (int i = 0; i < players; ++i)
    if (::write(id_pipe[1], &id, sizeof id) != sizeof id) std::abort();
  wait_for(page, page.born, players, Begin());
  const Begin begin;
  page.started.store(true, std::memory_order_release);
  RootLoad load;
  load.joined = wait_for(page, page.named, ranks, begin);
  load.heap_bytes = heap_bytes() - begin.heap;
  load.let_go = wait_for(page, page.gone, ranks, begin);
  for (int end = 0; ::wait(&end) > 0;)
    if (end != 0) page.failed.fetch_add(1, std::memory_order_relaxed);
  load.ended = wait_for(page, page.gone, 0, begin);
  load.dropped = page.dropped.load(std::memory_order_relaxed);
  load.failed = page.failed.load(std::memory_order_relaxed) > 0;
  return load;
}

}  // namespace tutti::bench
