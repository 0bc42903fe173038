#include "comm/split.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/create.h"
#include "comm/membership/unique_id.h"
#include "core/costs_file.h"
#include "core/log.h"
#include "net/crypto.h"

namespace tutti {

namespace {

struct Wish {
  std::int32_t color = -1;
  std::int32_t key = 0;
};

/// What each rank sends to its group: whether it is ready. The first rank sends the id as well, but not its secret,
/// because ranks of other colors get the offers, too.
struct Offer {
  IdBytes id{};
  std::int32_t code = 0;
};

template <class T>
Status gather_all(Communicator& parent, const T& mine, std::vector<T>* all) {
  all->resize(static_cast<std::size_t>(parent.ranks()));
  CallArguments arguments;
  arguments.collective = Collective::kSplit;
  arguments.send = &mine;
  arguments.recv = all->data();
  arguments.count = sizeof(T);
  arguments.type = static_cast<int>(DataType::kUint8);
  return parent.run(&arguments);
}

/// The parent's ranks of the color, in the order of the new ranks.
std::vector<int> members(const std::vector<Wish>& wishes, int color) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < wishes.size(); ++rank)
    if (wishes[rank].color == color) ranks.push_back(static_cast<int>(rank));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return ranks;
}

/// Makes and serves the id of a group, on its first rank. `shown` is what the others need of it.
Status serve_id(Communicator& parent, const Settings& settings, IdBytes* shown) {
  const auto secret_of = [&](const KeyId& nonce, Key* secret) {
    return parent.membership().secret_of_child(nonce, secret);
  };
  IdBytes whole{};
  TUTTI_TRY(make_unique_id(settings, &whole, secret_of));
  UniqueId id;
  TUTTI_TRY(UniqueId::decode(whole, &id));
  id.secret = Key{};
  *shown = id.encode();
  return {};
}

Status complete_id(Communicator& parent, const IdBytes& shown, IdBytes* whole) {
  UniqueId id;
  TUTTI_TRY(UniqueId::decode(shown, &id));
  TUTTI_TRY(parent.membership().secret_of_child(id.nonce, &id.secret));
  *whole = id.encode();
  return {};
}

/// The end of each text that comes from the parent.
constexpr const char* kDuringSplit = "during the split";

/// Fails if the parent knows why the join of a group cannot succeed any more: the parent has failed, or a rank of the
/// group has died or left.
Status check_parent(Communicator& parent, const std::vector<int>& group) {
  if (parent.failures().failed()) return parent.failures().status();
  const FailureCause cause = parent.membership().cause();
  if (cause.code != Code::kOk)
    return fail(cause.code, "{} (told by rank {}) {}", cause.text, cause.from.value, kDuringSplit);
  // Deaths come first, because a rank may have left because of one.
  for (const Liveness end : {Liveness::kDead, Liveness::kLeft}) {
    for (const int rank : group) {
      if (parent.membership().liveness(Rank{rank}) != end) continue;
      return fail(Code::kRemoteError, "{} {}", parent.membership().describe_end(Rank{rank}), kDuringSplit);
    }
  }
  return {};
}

/// A join knows its ranks by their numbers in the new communicator, and the caller knows them by the parent's. So this
/// adds the parent's numbers.
Status in_numbers_of_parent(const Status& why, const std::vector<int>& group) {
  constexpr std::size_t kMostShown = 32;
  if (why.code() != Code::kTimeout || group.size() > kMostShown) return why;
  return fail(why.code(),
              "{} (ranks of the new communicator, which are rank {} of the one that is split; rank {} serves it)",
              why.text(), fmt::join(group, ", "), group.front());
}

/// Looks at the parent while the join of a split lasts, and explains the join's failure by what the parent knows. For
/// the API's thread.
class SplitMonitor {
 public:
  SplitMonitor(Communicator& parent, const std::vector<int>& group) : parent_(parent), group_(group) {}

  /// Fails if the join cannot succeed any more.
  Status check() {
    TUTTI_TRY(check_parent(parent_, group_));
    look_for_late_ranks();
    return {};
  }

  /// Returns the failure of the join as the caller should get it.
  Status judge(const Status& why) const {
    if (why.code() == Code::kTimeout) return name_late_rank(in_numbers_of_parent(why, group_));
    // The parent may learn a moment later why the join ended, and knows the ranks by their numbers there.
    constexpr std::chrono::milliseconds kPause{5};
    constexpr int kLooks = 20;
    const bool unnamed = why.code() == Code::kRemoteError && !why.text().ends_with(kDuringSplit);
    for (int look = 0; unnamed && look < kLooks; ++look) {
      if (Status told = check_parent(parent_, group_); !told.ok()) return told;
      std::this_thread::sleep_for(kPause);
    }
    return why;
  }

 private:
  /// A rank that has not come to the join may still be in the exchange before it, because of another rank. That has to
  /// be found out before the deadline, because then the ranks that waited give the parent up.
  void look_for_late_ranks() {
    constexpr std::chrono::milliseconds kShortest{200};
    constexpr std::chrono::milliseconds kLongest{1000};
    const Clock::time_point now = Clock::now();
    if (now - asked_ < std::clamp<Clock::duration>((now - began_) / 4, kShortest, kLongest)) return;
    if (asked_ != began_) late_ = parent_.judge().late_in_last_call(group_);  // by the answers to the last question
    asked_ = now;
    parent_.peers().ask_boards(group_);
  }

  Status name_late_rank(const Status& why) const {
    if (late_.rank == kNoRank || parent_.judge().late_in_last_call(group_).rank == kNoRank) return why;
    return fail(why.code(), "{}; {}", late_.what, why.text());
  }

  Communicator& parent_;
  const std::vector<int>& group_;  // they are ranks of the parent
  const Clock::time_point began_ = Clock::now();
  Clock::time_point asked_ = began_;
  Culprit late_;
};

}  // namespace

Status split(Communicator& parent, int color, int key, const tuttiConfig_t* config,
             std::shared_ptr<Communicator>* comm) {
  if (color < 0 && color != TUTTI_SPLIT_NOCOLOR)
    return fail(Code::kInvalidArgument, "split: color {} is neither 0 or more nor TUTTI_SPLIT_NOCOLOR", color);
  CreateOptions options;
  options.settings = parent.settings();
  options.costs = costs_text(parent.machine().costs);
  if (parent.device_calls().exist()) options.device = parent.device_calls().side()->device();
  TUTTI_TRY(apply_config(config, &options));
  std::vector<Wish> wishes;
  TUTTI_TRY(gather_all(parent, Wish{color, key}, &wishes));
  const std::vector<int> group = color < 0 ? std::vector<int>{} : members(wishes, color);
  options.ranks = static_cast<int>(group.size());
  options.rank = static_cast<int>(std::find(group.begin(), group.end(), parent.rank().value) - group.begin());
  Offer mine;
  JoinRequest request;
  Status ready;
  if (!group.empty()) ready = prepare_join(options, &request);
  if (ready.ok() && !group.empty() && options.rank == 0) ready = serve_id(parent, options.settings, &mine.id);
  if (!ready.ok()) log(LogLevel::kError, parent.log_source(), "split: {}", ready.text());
  mine.code = static_cast<std::int32_t>(ready.code());
  std::vector<Offer> offers;
  const Status gathered = gather_all(parent, mine, &offers);
  TUTTI_TRY(ready);  // this rank's own error comes before what the others made of it
  TUTTI_TRY(gathered);
  if (group.empty()) return {};
  for (const int rank : group) {
    const auto code = static_cast<Code>(offers[static_cast<std::size_t>(rank)].code);
    if (code != Code::kOk) return fail(code, "split: rank {} could not take part in color {}", rank, color);
  }
  TUTTI_TRY(complete_id(parent, offers[static_cast<std::size_t>(group.front())].id, &request.id));
  SplitMonitor monitor(parent, group);
  request.check = [&monitor] { return monitor.check(); };
  const Status made = create_prepared(request, options, comm);
  return made.ok() ? made : monitor.judge(made);
}

}  // namespace tutti
