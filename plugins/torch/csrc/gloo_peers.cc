#include "gloo_peers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;

/// A rank that has not come after this time is looked for among Gloo's; then after longer and longer times.
constexpr std::chrono::milliseconds kFirstLook{1000};
constexpr std::chrono::milliseconds kLongestPause{10000};

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
  const auto end = Clock::now() + request.join_timeout;
  std::chrono::milliseconds pause = kFirstLook;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (are_there(store, keys, std::clamp(left, std::chrono::milliseconds(1), pause))) return {};
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (store.check({keys[i]})) continue;
      if (makes_it_of_gloo(store, ranks[i])) return of_gloo(ranks[i]);
      if (left <= pause) return late(ranks[i], request);
    }
    pause = std::min(2 * pause, kLongestPause);
  }
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
  publish_refusal(store, ids_key, wrong);
  raise(wrong);
}

void announce(c10d::Store& store, const JoinRequest& request, const std::string& ids_key) {
  store.set(announcement(request.rank), std::vector<std::uint8_t>{1});
  const std::string wrong = await_keys(store, request, {0}, {ids_key});
  try {
    store.deleteKey(announcement(request.rank));  // a later group of the same name must not meet it
  } catch (const std::exception&) {               // a store that cannot delete
  }
  if (!wrong.empty()) raise(wrong);
}

}  // namespace tutti_torch
