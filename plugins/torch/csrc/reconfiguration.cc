#include "reconfiguration.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace tutti_torch {
namespace {

constexpr const char* kPrefix = "tutti:";

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));  // 0 would be for ever
}

[[noreturn]] void fail(const std::string& sentence) {
  C10_THROW_ERROR(DistBackendError, "tutti: reconfigure: " + sentence);
}

std::string used(const Attempt& attempt) {
  return c10::str("the uuid ", attempt.uuid, " was already used; each attempt takes a new one");
}

/// After an attempt the Store says why its uuid is of no more use. If it cannot, that changes nothing for the members.
void close_attempt(c10d::Store& store, const std::string& key, const Attempt& attempt, const std::string& sentence) {
  if (attempt.rank != 0) return;
  try {
    publish_refusal(store, key, "reconfigure: " + sentence);
  } catch (const std::exception&) {
  }
}

/// The first member's part. That a uuid is new is seen in the Store, which outlives the processes.
Ids claim(c10d::Store& store, const std::string& key, const Attempt& attempt) {
  const std::string mine = c10::str(attempt.members.front(), "/", std::random_device()());
  const std::vector<std::uint8_t> wanted(mine.begin(), mine.end());
  if (store.compareSet("claim", {}, wanted) != wanted) {
    publish_refusal(store, key, "reconfigure: " + used(attempt));
    fail(used(attempt));
  }
  return publish_ids(store, key);
}

Ids await_ids(c10d::Store& store, const std::string& key, const Attempt& attempt, Clock::time_point end) {
  const std::chrono::milliseconds limit = until(end);
  try {
    store.wait({key}, limit);
  } catch (const std::exception& error) {
    fail(c10::str("timed out: the first of the new members, ", attempt.members.front(), ", has not come within ",
                  limit.count(), " ms (", error.what(), ")"));
  }
  return read_ids(store, key);
}

/// A join is no agreement: if a rank dies in the last moment, it may have succeeded for some only. A shrink is one, and
/// if nobody is missing after it, all have joined.
void agree(Joined& joined, const JoinRequest& request, std::chrono::milliseconds limit) {
  if (request.size == 1) return;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.joinTimeoutSeconds = std::chrono::duration<double>(limit).count();
  config.device = TUTTI_NO_DEVICE;
  tuttiComm_t agreed = nullptr;
  joined.collectives->run("reconfigure", [&](tuttiComm_t comm) {
    return tuttiCommShrink(comm, nullptr, 0, &agreed, &config, TUTTI_SHRINK_DEFAULT);
  });
  joined.collectives = std::make_shared<Endpoint>(agreed);
  int size = 0;
  static_cast<void>(tuttiCommCount(agreed, &size));
  if (size != request.size) fail(c10::str("of ", request.size, " ranks ", size, " were left when all had joined"));
}

void abort(const Joined& joined) {
  for (const std::shared_ptr<Endpoint>& endpoint : {joined.collectives, joined.receiver, joined.sender}) {
    if (endpoint) endpoint->abort();
  }
}

Joined join_and_agree(const Ids& ids, const JoinRequest& request, Clock::time_point end) {
  Joined joined = join_by(ids, request);
  try {
    agree(joined, request, until(end));
    return joined;
  } catch (const std::exception&) {
    abort(joined);
    throw;
  }
}

}  // namespace

std::string make_handle(int rank) {
  std::random_device random;
  char text[64];
  static_cast<void>(std::snprintf(text, sizeof text, "%s%08d:%08x%08x", kPrefix, rank, random(), random()));
  return text;
}

Attempt make_attempt(std::int64_t uuid, const Handles& handles, const std::string& own) {
  Attempt attempt{uuid, {}, 0};
  std::visit([&](const auto& given) { attempt.members.assign(given.begin(), given.end()); }, handles);
  std::vector<std::string> sorted = attempt.members;
  std::sort(sorted.begin(), sorted.end());
  if (std::holds_alternative<std::unordered_set<std::string>>(handles)) attempt.members = sorted;
  const auto refuse = [](const std::string& sentence) {
    C10_THROW_ERROR(ValueError, "tutti: reconfigure: " + sentence);
  };
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) refuse("the handle " + *twice + " is there twice");
  for (const std::string& handle : attempt.members) {
    if (handle.rfind(kPrefix, 0) != 0) refuse("\"" + handle + "\" is no handle of a tutti group");
  }
  const auto place = std::find(attempt.members.begin(), attempt.members.end(), own);
  if (place == attempt.members.end()) refuse("this rank's own handle, " + own + ", is not among the new members'");
  attempt.rank = static_cast<int>(place - attempt.members.begin());
  return attempt;
}

bool Attempt::includes(const std::vector<std::string>& others) const {
  const auto is_member = [&](const std::string& other) {
    return std::find(members.begin(), members.end(), other) != members.end();
  };
  return !others.empty() && std::all_of(others.begin(), others.end(), is_member);
}

Joined carry_out(const Attempt& attempt, const c10::intrusive_ptr<c10d::Store>& store, JoinRequest request) {
  const auto end = Clock::now() + request.join_timeout;
  request.rank = attempt.rank;
  request.size = static_cast<int>(attempt.members.size());
  c10d::PrefixStore own(c10::str("tutti/reconfigure/", attempt.uuid), store);
  const std::string key = "ids/" + attempt.members.front();
  const Ids ids = attempt.rank == 0 ? claim(own, key, attempt) : await_ids(own, key, attempt, end);
  request.join_timeout = until(end);
  try {
    const Joined joined = join_and_agree(ids, request, end);
    close_attempt(own, key, attempt, used(attempt));
    return joined;
  } catch (const std::exception& error) {
    close_attempt(own, key, attempt, c10::str("this attempt has failed: ", error.what()));
    throw;
  }
}

}  // namespace tutti_torch
