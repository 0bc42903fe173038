#include "chaos/work.h"

#include <chrono>
#include <thread>
#include <vector>

namespace tutti::chaos {
namespace {

using cases::Case;
using cases::Kind;
using cases::Trial;

/// The work of one rank on one communicator.
class Worker {
 public:
  Worker(Caller& caller, const Place& place, Chance& common, Chance& own)
      : caller_(caller), place_(place), common_(common), own_(own), patterns_(place.rank, place.ranks) {}

  bool step() {
    if (own_.is_in(1, 6)) std::this_thread::sleep_for(std::chrono::microseconds(own_.below(2000)));
    const int die = common_.below(20);
    if (die < 10) return call_one();
    if (die < 12) return call_barrier();
    if (die < 15) return call_group();
    if (die < 18) return call_on_stream();
    return work_on_split();
  }
  bool call_one() { return call_one(some_case()); }
  bool call_one(const Case& one) {
    Trial trial(one, &patterns_);
    return make(text_of(trial.asked()), [&] { return trial.issue(place_.comm); }) && check(trial);
  }

 private:
  bool call_barrier() {
    return make("barrier", [&] { return tuttiBarrier(place_.comm, nullptr); });
  }

  /// Every call is made, and the group ended, also after one of them has failed.
  bool call_group() {
    std::vector<Trial> trials;
    const int count = common_.between(2, 6);
    for (int i = 0; i < count; ++i) trials.emplace_back(some_case(), &patterns_);
    if (!make("group start", [] { return tuttiGroupStart(); })) return false;
    bool done = true;
    for (Trial& trial : trials)
      done = make("in a group, " + text_of(trial.asked()), [&] { return trial.issue(place_.comm); }) && done;
    done = make("group end", [] { return tuttiGroupEnd(); }) && done;
    for (const Trial& trial : trials) done = done && check(trial);
    return done;
  }

  bool call_on_stream() {
    std::vector<Trial> trials;
    const int count = common_.between(1, 4);
    for (int i = 0; i < count; ++i) trials.emplace_back(some_case(), &patterns_);
    tuttiStream_t stream = nullptr;
    if (!caller_.make("stream", nullptr, [&] { return tuttiStreamCreate(&stream); })) return false;
    bool done = true;
    for (Trial& trial : trials)
      done = done && make("on a stream, " + text_of(trial.asked()), [&] { return trial.issue(place_.comm, stream); });
    done = make("the end of a stream", [&] { return tuttiStreamSynchronize(stream); }) && done;
    for (const Trial& trial : trials) done = done && check(trial);
    return caller_.make("stream destroy", nullptr, [&] { return tuttiStreamDestroy(stream); }) && done;
  }

  bool work_on_split() {
    const int colors = common_.between(1, 3);
    const std::uint64_t seed = common_.draw();
    const auto color = static_cast<int>(cases::dice(seed, 0, static_cast<std::uint64_t>(place_.rank)) %
                                        static_cast<std::uint64_t>(colors));
    Place part;
    const int key = common_.is_in(1, 2) ? place_.rank : -place_.rank;
    if (!make("split", [&] { return tuttiCommSplit(place_.comm, color, key, &part.comm, nullptr); })) return false;
    ++caller_.board().splits;
    (void)tuttiCommCount(part.comm, &part.ranks);
    (void)tuttiCommUserRank(part.comm, &part.rank);
    Chance common(seed, static_cast<std::uint64_t>(color) + 1);
    Worker worker(caller_, part, common, own_);
    bool done = true;
    for (int calls = common.between(1, 4); calls > 0 && done; --calls) done = worker.call_one();
    if (!done && own_.is_in(1, 2)) return (void)tuttiCommAbort(part.comm), false;
    return caller_.make("destroy of a split", nullptr, [&] { return tuttiCommDestroy(part.comm); }) && done;
  }

  Case some_case() {
    constexpr int kTypes = tuttiBool + 1;
    constexpr int kMost[] = {8, 40, 40, 3000, 3000, 60'000};
    Case one;
    do {
      one.kind = static_cast<Kind>(common_.below(cases::kKinds));
    } while (caller_.plan().shortages && (one.kind == Kind::kAllGatherV || one.kind == Kind::kAllToAllV));
    one.type = static_cast<tuttiDataType_t>(common_.below(kTypes));
    one.op = static_cast<cases::Operation>(common_.below(tuttiBitXor + 1));
    if (!cases::is_defined(one.op, one.type)) one.op = cases::Operation::kMax;
    one.handle = static_cast<tuttiRedOp_t>(one.op);
    one.root = common_.below(place_.ranks);
    one.count = static_cast<std::size_t>(common_.below(kMost[common_.below(6)]));
    one.seed = common_.draw() % 1'000'000;
    one.layout = {own_.is_in(1, 3), static_cast<std::size_t>(own_.below(16)), static_cast<std::size_t>(own_.below(16))};
    return one;
  }

  template <class Call>
  bool make(const std::string& what, const Call& call) {
    return caller_.make(what, place_.comm, call);
  }
  bool check(const Trial& trial) {
    if (trial.is_right()) return ++caller_.board().exact, true;
    caller_.complain("a wrong result: " + text_of(trial.asked()) + ", rank " + std::to_string(place_.rank) + " of " +
                     std::to_string(place_.ranks));
    return false;
  }

  Caller& caller_;
  const Place place_;
  Chance& common_;
  Chance& own_;
  cases::Patterns patterns_;
};

}  // namespace

bool work(Caller& caller, const Place& place, Chance common, Chance& own) {
  Worker worker(caller, place, common, own);
  bool done = true;
  for (int steps = common.between(3, 12); steps > 0 && done; --steps) done = worker.step();
  return done;
}

bool call(Caller& caller, const Place& place, const Case& one) {
  Chance none(0, 0);
  return Worker(caller, place, none, none).call_one(one);
}

}  // namespace tutti::chaos
