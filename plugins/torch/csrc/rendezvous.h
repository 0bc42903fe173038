// How the ranks of a process group become communicators: Tutti's unique ids travel through torch's Store.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "endpoint.h"

namespace tutti_torch {

struct Joined {
  std::shared_ptr<Endpoint> collectives;
  std::shared_ptr<Endpoint> receiver;  // rank r of 2n, see post_office.h
  std::shared_ptr<Endpoint> sender;    // rank n + r of 2n
  std::string token;                   // the same on all ranks, and no other group's
  std::string name;                    // for logs
};

struct JoinRequest {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};       // of operations
  std::chrono::milliseconds join_timeout{0};  // of the join itself
  std::string name;
  tuttiDataType_t wire_type = tuttiDataTypeMax;
  int deterministic = TUTTI_UNDEF_INT;
  bool may_meet_gloo = false;  // see gloo_peers.h
};

/// Rank 0 makes these, and the others need them to join.
struct Ids {
  tuttiUniqueId collectives;
  tuttiUniqueId transfers;
  std::uint64_t token;
};

/// Rank 0: makes ids and puts them into the Store, or the reason why there are none.
Ids publish_ids(c10d::Store& store, const std::string& key);
/// Rank 0: whoever reads `key` from now on gets this sentence as an error.
void publish_refusal(c10d::Store& store, const std::string& key, const std::string& sentence);
/// The others: raises rank 0's sentence if there are no ids. Waits as long as the Store does.
Ids read_ids(c10d::Store& store, const std::string& key);
/// Blocks until all ranks have joined by these ids.
Joined join_by(const Ids& ids, const JoinRequest& request);
/// Blocks until all ranks of a new group are there.
Joined join(c10d::Store& store, const JoinRequest& request);

}  // namespace tutti_torch
