// A rank of a library in a comparison: joins, then carries out the leader's orders until it may leave.
//   contestant_LIBRARY MEMORY LIFE GROUP [RANK]    (paths of stage.h; started by tutti-perf --compare alone)
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "player.h"
#include "race/core_use.h"

namespace tutti::peers {
namespace {

constexpr int kSpins = 200;
constexpr int kSlice = 60000;  // milliseconds of sleep at once: waking up disturbs who runs

/// Rank r on the r-th core that this process may use, before anything is allocated or started.
bool pin(int rank) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  int left = rank % std::max(CPU_COUNT(&usable), 1);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

/// Touched, because the first touch of a page is not what is measured.
float* allocate(std::size_t elements) {
  const std::size_t bytes = std::max<std::size_t>(elements, 1) * sizeof(float);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 0, bytes);
  return static_cast<float*>(memory);
}

class Contestant {
 public:
  explicit Contestant(const Seat& seat) : seat_(seat), report_(seat.group().reports[seat.rank()]) {}

  int play() {
    report_.process = getpid();
    const bool joined = guarded([&] { return join(); });
    end_order();
    if (!joined) return 1;
    for (std::uint32_t known = 0;;) {
      const std::uint32_t orders = seat_.group().orders.load(std::memory_order_acquire);
      if (orders == known) {
        sleep_while(seat_.group().orders, known, kSlice);
        continue;
      }
      known = orders;
      const Order order = seat_.group().order;
      if (order.task == Task::kLeave) break;
      guarded([&] { return order.task == Task::kCheck ? check(order) : time(order); });
      end_order();
    }
    player_->leave();
    return 0;
  }

 private:
  /// A library may throw.
  template <class Work>
  bool guarded(const Work& work) {
    bool good = false;
    try {
      good = work();
    } catch (const std::exception& error) {
      text_ = error.what();
    }
    report_.failed = !good;
    if (!good) std::snprintf(report_.text, sizeof report_.text, "%s", text_.c_str());
    return good;
  }

  void end_order() {
    const auto ranks = static_cast<std::uint32_t>(seat_.ranks());
    if ((seat_.group().done.fetch_add(1, std::memory_order_acq_rel) + 1) % ranks == 0) wake_all(seat_.group().done);
  }

  bool join() {
    player_ = make_player(seat_, &text_);
    if (player_ == nullptr) return false;
    send_ = allocate(seat_.stage().most_sent);
    recv_ = allocate(seat_.stage().most_received);
    if (send_ == nullptr || recv_ == nullptr) return text_ = "there is no memory for the buffers", false;
    for (std::size_t i = 0; i < seat_.stage().most_sent; ++i) send_[i] = race::input(seat_.rank(), i);
    if (seat_.rank() != 0) return true;
    seat_.group().offers = player_->offers();
    std::snprintf(seat_.group().name, sizeof seat_.group().name, "%s", player_->name().c_str());
    return true;
  }

  bool run(const Order& order, int turn) {
    const int root = race::is_rooted(order.what) ? (order.root + turn) % seat_.ranks() : 0;
    return player_->run({order.what, send_, recv_, order.count, root}, &text_);
  }

  bool check(const Order& order) {
    const std::size_t blocks = race::is_joined(order.what) ? static_cast<std::size_t>(seat_.ranks()) : 1;
    const std::size_t elements = order.what == race::Contested::kBarrier ? 0 : order.count * blocks;
    std::fill_n(recv_, elements, -1.0F);
    if (order.what == race::Contested::kBroadcast && seat_.rank() == order.root) std::copy_n(send_, elements, recv_);
    if (!run(order, 0)) return false;
    report_.wrong = 0;
    if (race::is_for_root(order.what) && seat_.rank() != order.root) return true;
    for (std::size_t i = 0; i < elements; ++i) {
      const float right = race::expected(order.what, seat_.rank(), seat_.ranks(), order.count, i, order.root);
      report_.wrong += recv_[i] == right ? 0 : 1;
    }
    return true;
  }

  /// The first operation brings the caches back and is not timed.
  bool time(const Order& order) {
    bool good = run(order, 0);
    seat_.meet(!player_->polls());
    const race::CoreUse begin = race::CoreUse::now();
    for (int i = 0; i < order.iterations && good; ++i) good = run(order, i);
    const race::CoreUse end = race::CoreUse::now();
    report_.begin = begin.wall;
    report_.end = end.wall;
    report_.disturbed = seat_.is_pinned() && player_->polls() && race::CoreUse::was_disturbed(begin, end);
    return good;
  }

  const Seat& seat_;
  Report& report_;
  std::unique_ptr<Player> player_;
  float* send_ = nullptr;
  float* recv_ = nullptr;
  std::string text_;
};

int run(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "%s is started by tutti-perf --compare\n", argv[0]), 2;
  Stage* const stage = open_stage(argv[1], argv[2]);
  if (stage == nullptr) return std::fprintf(stderr, "%s: %s: %s\n", argv[0], argv[1], std::strerror(errno)), 1;
  const int group = std::atoi(argv[3]);
  const int rank = argc > 4 ? std::atoi(argv[4]) : launched_rank();
  if (group < 0 || group >= kMostGroups || rank < 0 || rank >= stage->ranks) {
    return std::fprintf(stderr, "%s: there is no rank %d of group %d\n", argv[0], rank, group), 1;
  }
  if (stage->pinned && is_bound() && !pin(rank)) return std::fprintf(stderr, "%s: cannot bind to a core\n", argv[0]), 1;
  const Seat seat(stage, group, rank);
  return Contestant(seat).play();
}

}  // namespace

void Seat::meet(bool asleep) const {
  const std::uint32_t meeting = group_->meetings.load(std::memory_order_acquire);
  if (group_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks())) {
    group_->arrived.store(0, std::memory_order_relaxed);
    group_->meetings.store(meeting + 1, std::memory_order_release);
    if (asleep) wake_all(group_->meetings);
    return;
  }
  for (int spins = 0; group_->meetings.load(std::memory_order_acquire) == meeting; ++spins) {
    if (asleep) {
      sleep_while(group_->meetings, meeting, kSlice);
    } else if (spins >= kSpins) {
      sched_yield();
    }
  }
}

bool Seat::gather(const std::string& mine, std::vector<std::string>* all) const {
  if (mine.size() > kMailBytes) return false;
  Letter& letter = stage_->letters[rank_];
  letter.bytes = static_cast<std::uint32_t>(mine.size());
  std::memcpy(letter.content, mine.data(), mine.size());
  meet();
  all->clear();
  for (int rank = 0; rank < ranks(); ++rank)
    all->emplace_back(stage_->letters[rank].content, stage_->letters[rank].bytes);
  meet();
  return true;
}

}  // namespace tutti::peers

int main(int argc, char** argv) {
  const int code = tutti::peers::run(argc, argv);
  std::fflush(nullptr);
  _exit(code);  // some libraries' destructors wait for peers that are gone
}
