#include "comm/split.h"

#include <algorithm>
#include <vector>

#include "comm/child.h"
#include "comm/create.h"
#include "comm/messages/unique_id.h"
#include "comm/parent_monitor.h"
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
  IdBytes whole{};
  TUTTI_TRY(make_child_id(parent, settings, &whole));
  UniqueId id;
  TUTTI_TRY(UniqueId::decode(whole, &id));
  id.secret = Key{};
  *shown = id.encode();
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

}  // namespace

Status split(Communicator& parent, int color, int key, const tuttiConfig_t* config,
             std::shared_ptr<Communicator>* comm) {
  if (color < 0 && color != TUTTI_SPLIT_NOCOLOR)
    return fail(Code::kInvalidArgument, "split: color {} is neither 0 or more nor TUTTI_SPLIT_NOCOLOR", color);
  CreateOptions options = options_of_child(parent);
  TUTTI_TRY(apply_config(config, &options));
  std::vector<Wish> wishes;
  TUTTI_TRY(gather_all(parent, Collective::kSplit, Wish{color, key}, &wishes));
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
  const Status gathered = gather_all(parent, Collective::kSplit, mine, &offers);
  TUTTI_TRY(ready);  // this rank's own error comes before what the others made of it
  TUTTI_TRY(gathered);
  if (group.empty()) return {};
  for (const int rank : group) {
    const auto code = static_cast<Code>(offers[static_cast<std::size_t>(rank)].code);
    if (code != Code::kOk) return fail(code, "split: rank {} could not take part in color {}", rank, color);
  }
  TUTTI_TRY(complete_id(parent, offers[static_cast<std::size_t>(group.front())].id, &request.id));
  ParentMonitor monitor(parent, group, "split");
  request.check = [&monitor] { return monitor.check(); };
  const Status made = create_prepared(request, options, comm);
  if (!made.ok()) return monitor.judge(in_numbers_of_parent(made, group));
  parent.descendants().add(*comm, group);
  return {};
}

}  // namespace tutti
