// Under Gloo's name some ranks of a group may make it of Gloo, because they lack the plugin or its switch. Here the
// others look for them while they wait, and raise an error that names them.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rendezvous.h"

namespace tutti_torch {

/// Rank 0: blocks until all others have called announce(). Raises if one makes the group of Gloo, or has not come in
/// time; the others that came get the same sentence from `ids_key`, which is empty again when this returns.
void await_announcements(c10d::Store& store, const JoinRequest& request, const std::string& ids_key);
/// The others: says in the Store that this rank makes the group of tutti, and blocks until rank 0 has put ids under
/// `ids_key`. Raises if rank 0 makes the group of Gloo, has not come in time, or raises.
Ids announce(c10d::Store& store, const JoinRequest& request, const std::string& ids_key);

}  // namespace tutti_torch
