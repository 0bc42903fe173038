// A call's arguments as they come from the C API, and the checks that need no other rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call/user_operation.h"
#include "core/fingerprint.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "executor/executor.h"

namespace tutti {

/// The blocks of a call whose blocks differ in size, as views of the caller's arrays.
struct BlockArguments {
  BlockTable send;
  BlockTable recv;
};

/// These are raw values: type, op and wire may be anything that fits an int until check_arguments() has accepted them.
struct CallArguments {
  static constexpr int kDefaultWire = -1;  ///< the wire type of the communicator
  static constexpr int kNoWire = -2;

  Collective collective = Collective::kNone;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = -1;                        ///< -1 if the collective has none
  int wire = kDefaultWire;              ///< the type that float32 travels as in this call
  const UserOperation* user = nullptr;  ///< the operation, if `op` is one that the user made
  std::uint64_t agreed = 0;             ///< what else all ranks must agree on; it goes into the messages' fingerprints
  const BlockArguments* blocks = nullptr;  ///< the blocks of a v-form
  bool on_device = false;                  ///< a kernel runs the call; the communicator finds that out
  bool staged = false;      ///< the call has device buffers and goes through host memory; found out likewise
  bool two_levels = false;  ///< it is staged, and kernels connect the ranks of each host
  /// The allocations that the buffers are parts of, if a kernel runs the call and uses them.
  DeviceRange send_memory = {};
  DeviceRange recv_memory = {};
};

/// Arguments that outlive the call, because what they point to is copied, except buffers.
class OwnedArguments {
 public:
  OwnedArguments() = default;
  OwnedArguments(const CallArguments& arguments, std::shared_ptr<const UserOperation> user);

  const CallArguments& get() const { return arguments_; }
  void stage() { arguments_.staged = true; }
  void place(bool on_device) { arguments_.on_device = on_device; }

 private:
  struct Arrays {
    std::vector<std::size_t> values;
    BlockArguments blocks;
  };
  CallArguments arguments_;
  std::shared_ptr<const UserOperation> user_;
  std::unique_ptr<Arrays> arrays_;
};

/// Returns ok, or tuttiInvalidArgument or tuttiUnsupported with a text that names the argument. What is in place
/// depends on `rank`.
Status check_arguments(const CallArguments& arguments, int rank, int ranks);
/// The part of check_arguments() that is for the v-forms.
Status check_blocks(const CallArguments& arguments, int rank, int ranks);

/// Which buffers this rank reads and writes.
bool reads_send(const CallArguments& arguments, int rank);
bool writes_recv(const CallArguments& arguments, int rank);

/// How many blocks of `count` elements the send and the receive buffer of a rank have, if it has that buffer: 0, 1 or
/// the number of ranks.
int send_blocks(Collective collective, int ranks);
int recv_blocks(Collective collective, int ranks);
/// How many blocks of memory the buffers of all of a host's `local` ranks take together. The root counts as one of
/// these ranks.
std::size_t host_blocks(Collective collective, int ranks, int local, bool in_place);

/// Describes the call as it is compared between ranks. The arguments have been checked. It writes to `call` in place,
/// because to copy a struct just after its fields were stored one by one stalls a load each time (10 to 20 ns here).
void describe_call(const CallArguments& arguments, std::uint64_t sequence, Call* call);

}  // namespace tutti
