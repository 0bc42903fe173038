// A call's arguments as they come from the C API, and the checks that need nobody else.
#pragma once

#include <cstddef>

#include "core/fingerprint.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"

namespace tutti {

/// Raw values: type and op may be anything that fits an int until check_arguments() accepted them.
struct CallArguments {
  Collective collective = Collective::kNone;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = -1;  ///< -1: the collective has none
};

/// Ok, or tuttiInvalidArgument / tuttiUnsupported with a text that names the argument. `in place` is judged by `rank`.
Status check_arguments(const CallArguments& arguments, int rank, int ranks);

/// Whether the collective has an operation.
bool reduces(Collective collective);

/// Blocks of `count` elements in the send and receive buffer: 1 or the number of ranks.
int send_blocks(Collective collective, int ranks);
int recv_blocks(Collective collective, int ranks);

/// The call as it is compared between ranks. The arguments have been checked.
Call call_of(const CallArguments& arguments, std::uint64_t sequence);

}  // namespace tutti
