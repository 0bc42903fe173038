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
};

struct JoinRequest {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string name;
  tuttiDataType_t wire_type = tuttiDataTypeMax;
  int deterministic = TUTTI_UNDEF_INT;
};

/// Blocks until all ranks of the group are there.
Joined join(c10d::Store& store, const JoinRequest& request);

}  // namespace tutti_torch
