#include "gloo_peers.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;

/// A rank that has not come after this time is looked for among Gloo's; then after longer and longer times.
constexpr std::chrono::milliseconds kFirstLook{1000};
constexpr std::chrono::milliseconds kLongestPause{10000};
/// So long rank 0 waits until the others have heard of its refusal.
constexpr std::chrono::milliseconds kHearing{5000};

std::string announcement(int rank) { return "tutti/here/" + std::to_string(rank); }

/// Gloo puts what a rank's first device is into the Store, under the rank's number.
bool makes_it_of_gloo(c10d::Store& store, int rank) {
  const std::string number = std::to_string(rank);
  return store.check({"0/rank_" + number}) || store.check({"0/" + number});
}

std::string of_gloo(int rank) {
  return c10::str("rank ", rank,
                  " makes this group of Gloo: there tutti-torch is not installed, or TUTTI_TORCH_AS does ",
                  "not name gloo");
}

std::string late(int rank, const JoinRequest& request) {
  return c10::str("timed out: rank ", rank, " has not come within the ",
                  std::chrono::duration<double>(request.join_timeout).count(), " s that rank ", request.rank,
                  " waited");
}

/// Whether the keys are there before `pause` is over. A Store that fails is an error.
bool are_there(c10d::Store& store, const std::vector<std::string>& keys, std::chrono::milliseconds pause) {
  const auto begin = Clock::now();
  try {
    store.wait(keys, pause);
    return true;
  } catch (const std::exception&) {
    if (Clock::now() - begin < pause / 2) throw;
    return false;
  }
}

/// Blocks until all these ranks have left their keys. Returns what is wrong, if anything is.
std::string await_keys(c10d::Store& store, const JoinRequest& request, const std::vector<int>& ranks,
                       const std::vector<std::string>& keys) {
  // Gloo leaves its keys for ever. Where this rank has some, they are of a group that was made before the switch.
  const bool keys_tell = !makes_it_of_gloo(store, request.rank);
  const auto end = Clock::now() + request.join_timeout;
  std::chrono::milliseconds pause = kFirstLook;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (are_there(store, keys, std::clamp(left, std::chrono::milliseconds(1), pause))) return {};
    std::vector<int> missing;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (!store.check({keys[i]})) missing.push_back(ranks[i]);
    }
    for (const int rank : missing) {
      if (keys_tell && makes_it_of_gloo(store, rank)) return of_gloo(rank);
    }
    if (!missing.empty() && left <= pause) return late(missing.front(), request);
    pause = std::min(2 * pause, kLongestPause);
  }
}

/// Leaves the key where it is if the Store cannot delete.
void remove(c10d::Store& store, const std::string& key) {
  try {
    store.deleteKey(key);
  } catch (const std::exception&) {
  }
}

/// Rank 0's sentence to those who have come. Whoever has read it takes back its announcement. Then the sentence goes,
/// too, because the group may be made again under the same name.
void refuse(c10d::Store& store, const std::vector<std::string>& announcements, const std::string& ids_key,
            const std::string& sentence) {
  publish_refusal(store, ids_key, sentence);
  const auto end = Clock::now() + kHearing;
  const auto is_open = [&](const std::string& key) { return store.check({key}); };
  while (Clock::now() < end && std::any_of(announcements.begin(), announcements.end(), is_open))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  remove(store, ids_key);
}

[[noreturn]] void raise(const std::string& sentence) { C10_THROW_ERROR(DistBackendError, "tutti: " + sentence); }

}  // namespace

void await_announcements(c10d::Store& store, const JoinRequest& request, const std::string& ids_key) {
  std::vector<int> ranks;
  std::vector<std::string> keys;
  for (int rank = 1; rank < request.size; ++rank) {
    ranks.push_back(rank);
    keys.push_back(announcement(rank));
  }
  if (ranks.empty()) return;
  const std::string wrong = await_keys(store, request, ranks, keys);
  if (wrong.empty()) return;
  refuse(store, keys, ids_key, wrong);
  raise(wrong);
}

Ids announce(c10d::Store& store, const JoinRequest& request, const std::string& ids_key) {
  const std::string mine = announcement(request.rank);
  store.set(mine, std::vector<std::uint8_t>{1});
  const auto taken_back = c10::make_scope_exit([&] { remove(store, mine); });
  const std::string wrong = await_keys(store, request, {0}, {ids_key});
  if (!wrong.empty()) raise(wrong);
  return read_ids(store, ids_key);
}

}  // namespace tutti_torch
