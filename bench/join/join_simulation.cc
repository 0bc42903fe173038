#include "join_simulation.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/join/dial_pause.h"
#include "comm/membership/process_order.h"
#include "comm/messages/board_message.h"
#include "net/frame_codec.h"
#include "net/handshake.h"
#include "sample_member.h"

namespace tutti::bench {
namespace {

constexpr std::size_t kDialsAtOnce = 8;  // MembershipLinker's
constexpr std::size_t kHandshakeBytes = Handshake::kHelloSize + Handshake::kChallengeSize + Handshake::kProofSize;

std::size_t framed(std::size_t payload) { return FrameCodec::kHeaderSize + payload + FrameCodec::kMacSize; }
template <class Message>
std::size_t size_of(const Message& message) {
  return framed(encode(message).size());
}

std::set<Rank> ranks_before(int end) {
  std::set<Rank> ranks;
  for (Rank rank{0}; rank.value < end; ++rank) ranks.insert(rank);
  return ranks;
}

/// The processes, their service threads and cores, and the links of their hosts.
class Cluster {
 public:
  using Process = std::uint32_t;

  Cluster(int ranks, const JoinNetwork& network, const JoinCosts& costs)
      : network_(network), costs_(costs), threads_(static_cast<std::size_t>(ranks)) {
    const std::size_t hosts = (threads_.size() + per_host() - 1) / per_host();
    links_.resize(hosts);
    cores_.assign(network.one_machine ? 1 : hosts,
                  std::vector<Microseconds>(static_cast<std::size_t>(network.cores_of_host)));
  }

  using Task = std::function<void(Microseconds at)>;
  /// The service thread of the process does this once it is free, after `at`. It takes `cost`, and then the task runs.
  void work(Process process, Microseconds at, Microseconds cost, Task task) {
    events_.push({at, number_++, process, cost, std::move(task)});
  }
  /// The sender's thread sends a message at `at`. The receiver's takes it, which costs `more` than messages do, and
  /// then the task runs there.
  void send(Process from, Process to, Microseconds at, std::size_t bytes, Task task, Microseconds more = {}) {
    messages += 1;
    this->bytes += static_cast<std::int64_t>(bytes);
    const Microseconds sending = costs_.send + costs_.send_byte * static_cast<double>(bytes);
    const Microseconds sent = take_core(from, at, sending);
    const Microseconds there = carry(from, to, sent, bytes);
    work(to, there, costs_.receive + costs_.receive_byte * static_cast<double>(bytes) + more, std::move(task));
  }
  Microseconds latency(Process from, Process to) const { return is_near(from, to) ? Microseconds{} : network_.latency; }
  /// Runs until nothing is left to do, and returns when the last task ended.
  Microseconds run() {
    Microseconds last{};
    while (!events_.empty()) {
      Event next = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      const Microseconds done = take_core(next.process, next.at, next.cost);
      last = std::max(last, done);
      next.task(done);
    }
    return last;
  }

  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  Microseconds busy(Process process) const { return threads_[process].busy; }

 private:
  struct Event {
    Microseconds at;
    std::uint64_t number;
    Process process;
    Microseconds cost;
    Task task;
    bool operator<(const Event& other) const { return std::tie(other.at, other.number) < std::tie(at, number); }
  };
  struct Thread {
    Microseconds free{};  // from when on it has nothing to do
    Microseconds busy{};  // processor time
  };
  std::size_t per_host() const { return static_cast<std::size_t>(network_.ranks_of_host); }
  std::size_t host_of(Process process) const { return process / per_host(); }
  bool is_near(Process a, Process b) const { return network_.one_machine || host_of(a) == host_of(b); }

  /// Returns when the thread has done this.
  Microseconds take_core(Process process, Microseconds at, Microseconds cost) {
    Thread& thread = threads_[process];
    auto& cores = cores_[network_.one_machine ? 0 : host_of(process)];
    const auto core = std::min_element(cores.begin(), cores.end());
    thread.free = std::max({at, thread.free, *core}) + cost;
    thread.busy += cost;
    *core = thread.free;
    return thread.free;
  }

  Microseconds carry(Process from, Process to, Microseconds at, std::size_t bytes) {
    if (is_near(from, to)) return at;
    Microseconds& link = links_[host_of(from)];
    link = std::max(link, at) + Microseconds(static_cast<double>(bytes) / network_.bytes_per_us);
    return link + network_.latency;
  }

  const JoinNetwork& network_;
  const JoinCosts& costs_;
  std::vector<Thread> threads_;
  std::vector<std::vector<Microseconds>> cores_;  // by host: from when on each is free
  std::vector<Microseconds> links_;               // by host: from when on it is free
  std::priority_queue<Event> events_;
  std::uint64_t number_ = 0;
};

using Process = Cluster::Process;

class JoinSimulation {
 public:
  JoinSimulation(int ranks, const JoinNetwork& network, const JoinCosts& costs, const MemberList& members,
                 std::size_t table_bytes)
      : costs_(costs),
        order_(members, kMeshProcesses),
        cluster_(ranks, network, costs),
        states_(order_.size()),
        table_bytes_(framed(table_bytes)),
        sizes_{.join = size_of(sample_join(Rank{0}, ranks, network.ranks_of_host, members[Rank{0}].host->addresses)),
               .missing = size_of(MissingMessage{text_of(ranks_before(ranks))}),
               .source = size_of(TableSourceMessage{members[Rank{0}]}),
               .ready = size_of(ReadyMessage{true}),
               .go = size_of(GoMessage{{}, ""})} {}

  JoinReport run() {
    for (Process process = 0; process < states_.size(); ++process) join(process);
    cluster_.run();
    report_.root_busy = cluster_.busy(kRoot);
    report_.messages = cluster_.messages;
    report_.bytes = cluster_.bytes;
    return report_;
  }

 private:
  static constexpr Process kRoot = 0;
  struct State {
    bool has_table = false;
    std::size_t unlinked = 0;
    std::vector<Process> to_dial{};
    std::vector<Process> early{};  // connected to this one before it had the table
  };
  struct Sizes {
    std::size_t join, missing, source, ready, go;
  };

  void join(Process process) {
    const Microseconds begin = cluster_.latency(process, kRoot) == Microseconds{}
                                   ? Microseconds{}
                                   : Microseconds(dial_pause(Rank{static_cast<std::int32_t>(process)},
                                                             static_cast<int>(states_.size()), std::chrono::hours(1)));
    const Microseconds way = 3 * cluster_.latency(process, kRoot);  // to connect, and until the proof is there
    cluster_.work(process, begin, costs_.start + costs_.dial, [=, this](Microseconds at) {
      count(kHandshakeBytes + sizes_.join + sizes_.missing + sizes_.source, 3);
      report_.root_bytes += static_cast<std::int64_t>(Handshake::kChallengeSize + sizes_.missing + sizes_.source);
      cluster_.work(kRoot, at + way, costs_.root_join, [this](Microseconds joined) {
        if (++joined_ == states_.size()) all_joined(joined);
      });
    });
  }

  /// The root sends each process the message that names where its table comes from, one after the other. JoinCosts has
  /// the processor time of that in root_join.
  void all_joined(Microseconds at) {
    report_.joined = at;
    cluster_.work(kRoot, at, costs_.take_table, [this](Microseconds ordered) {
      begin(kRoot, ordered);
      Microseconds sent = ordered;
      for (Process process = 1; process < states_.size(); ++process) {
        sent += costs_.send;
        const Process parent = static_cast<Process>(*order_.parent(process));
        cluster_.work(process, sent + cluster_.latency(kRoot, process), costs_.receive,
                      [=, this](Microseconds heard) { dial(process, parent, heard); });
      }
      report_.table_sent = sent;
    });
  }

  void dial(Process from, Process to, Microseconds at) {
    const Microseconds way = 3 * cluster_.latency(from, to);
    cluster_.work(from, at, costs_.dial, [=, this](Microseconds dialled) {
      count(kHandshakeBytes + framed(sizeof(ProcessId)), 1);
      cluster_.work(to, dialled + way, costs_.accept, [=, this](Microseconds accepted) {
        if (states_[to].has_table)
          greet(to, from, accepted);
        else
          states_[to].early.push_back(from);
      });
    });
  }

  /// The dialled one speaks first: it passes the table on to its children, and says that it is there.
  void greet(Process from, Process to, Microseconds at) {
    const bool is_child = order_.parent(to) == from;
    if (order_.host_parent(to) == from) count(framed(sizeof(SegmentMessage::bytes)), 1);
    if (is_child)
      cluster_.send(
          from, to, at, table_bytes_, [=, this](Microseconds ready) { begin(to, ready); }, costs_.take_table);
    cluster_.send(from, to, at, framed(0), [=, this](Microseconds got) {
      linked(to, got);
      cluster_.send(to, from, got, framed(0), [=, this](Microseconds answered) { linked(from, answered); });
      dial_next(to, got);
    });
  }

  void begin(Process process, Microseconds at) {
    State& state = states_[process];
    state.has_table = true;
    report_.table = std::max(report_.table, at);
    const std::vector<std::size_t> neighbours = order_.neighbours(process);
    state.unlinked = neighbours.size();
    note_connections(neighbours.size());
    for (const std::size_t other : neighbours)
      if (other < process && order_.parent(process) != other) state.to_dial.push_back(static_cast<Process>(other));
    for (std::size_t i = 0; i < kDialsAtOnce; ++i) dial_next(process, at);
    for (const Process early : std::exchange(state.early, {})) greet(process, early, at);
  }

  void dial_next(Process process, Microseconds at) {
    State& state = states_[process];
    if (state.to_dial.empty()) return;
    const Process next = state.to_dial.back();
    state.to_dial.pop_back();
    dial(process, next, at);
  }

  void linked(Process process, Microseconds at) {
    if (--states_[process].unlinked != 0) return;
    report_.linked = std::max(report_.linked, at);
    count(sizes_.ready, 1);
    cluster_.work(kRoot, at + cluster_.latency(process, kRoot), costs_.root_let_go, [this](Microseconds ready) {
      if (++ready_ == states_.size()) let_all_go(ready);
    });
  }

  /// The processor time of sending is in root_let_go.
  void let_all_go(Microseconds at) {
    Microseconds sent = at;
    for (Process process = 0; process < states_.size(); ++process) {
      sent += costs_.send;
      count(sizes_.go, 1);
      report_.root_bytes += static_cast<std::int64_t>(sizes_.go);
      const Microseconds latency = cluster_.latency(kRoot, process);
      cluster_.work(process, sent + latency, costs_.receive + costs_.take_go, [=, this](Microseconds gone) {
        report_.ended = std::max(report_.ended, gone);
        cluster_.work(kRoot, gone + latency, costs_.root_end, [](Microseconds) {});
      });
    }
  }

  void count(std::size_t bytes, int messages) {
    cluster_.bytes += static_cast<std::int64_t>(bytes);
    cluster_.messages += messages;
  }
  void note_connections(std::size_t connections) {
    report_.most_connections = std::max(report_.most_connections, connections);
    if (report_.fewest_connections == 0 || connections < report_.fewest_connections)
      report_.fewest_connections = connections;
  }

  const JoinCosts& costs_;
  const ProcessOrder order_;
  Cluster cluster_;
  std::vector<State> states_;
  const std::size_t table_bytes_;
  const Sizes sizes_;
  std::size_t joined_ = 0;
  std::size_t ready_ = 0;
  JoinReport report_;
};

class LeaveSimulation {
 public:
  LeaveSimulation(int ranks, const JoinNetwork& network, const JoinCosts& costs, const MemberList& members)
      : order_(members, kMeshProcesses), cluster_(ranks, network, costs), states_(order_.size()) {}

  /// A rank that comes shows its board to its neighbours, and says goodbye to them once all have come.
  LeaveReport run() {
    for (Process process = 0; process < states_.size(); ++process) {
      states_[process].awaited = order_.children(process).size();
      tell_neighbours(process, {}, kBoard, [](Process, Microseconds) {});
      if (states_[process].awaited == 0)
        cluster_.work(process, {}, {}, [=, this](Microseconds at) { rise(process, at); });
    }
    const Microseconds ended = cluster_.run();
    return {.ended = ended, .messages = cluster_.messages, .bytes = cluster_.bytes};
  }

 private:
  struct State {
    std::size_t awaited = 0;
    bool knows = false;
  };

  /// All below have come.
  void rise(Process process, Microseconds at) {
    const auto parent = order_.parent(process);
    if (!parent) return spread(process, at);
    const Process above = static_cast<Process>(*parent);
    cluster_.send(process, above, at, kAll, [=, this](Microseconds heard) {
      if (--states_[above].awaited == 0) rise(above, heard);
    });
  }

  void spread(Process process, Microseconds at) {
    if (std::exchange(states_[process].knows, true)) return;
    tell_neighbours(process, at, kAll, [this](Process to, Microseconds heard) { spread(to, heard); });
    tell_neighbours(process, at, kGoodbye, [](Process, Microseconds) {});
  }

  template <class Heard>
  void tell_neighbours(Process process, Microseconds at, std::size_t bytes, const Heard& heard) {
    for (const std::size_t other : order_.neighbours(process)) {
      const Process to = static_cast<Process>(other);
      cluster_.send(process, to, at, bytes, [to, heard](Microseconds then) { heard(to, then); });
    }
  }

  const std::size_t kAll = size_of(FinishingMessage{1, true});
  const std::size_t kGoodbye = size_of(MemberEventsMessage{{{Rank{0}, MemberEventKind::kFinalized, 1, ""}}});
  const std::size_t kBoard = size_of(BoardMessage{Rank{0}, {}, {{}, {}, {}}});
  const ProcessOrder order_;
  Cluster cluster_;
  std::vector<State> states_;
};

}  // namespace

JoinReport simulate_join(int ranks, const JoinNetwork& network, const JoinCosts& costs) {
  const TableMessage table = sample_table(ranks, network.ranks_of_host);
  const MemberList members(table.members);
  const std::size_t table_bytes = encode(table).size();
  JoinReport report = JoinSimulation(ranks, network, costs, members, table_bytes).run();
  report.table_bytes = table_bytes;
  return report;
}

LeaveReport simulate_leave(int ranks, const JoinNetwork& network, const JoinCosts& costs) {
  const MemberList members(sample_table(ranks, network.ranks_of_host).members);
  return LeaveSimulation(ranks, network, costs, members).run();
}

}  // namespace tutti::bench
