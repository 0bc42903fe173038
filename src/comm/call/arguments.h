// A call's arguments as they come from the C API, and the checks that need nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call/user_operation.h"
#include "core/fingerprint.h"
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

/// Raw values: type, op and wire may be anything that fits an int until check_arguments() accepted them.
struct CallArguments {
  static constexpr int kDefaultWire = -1;  ///< the communicator's
  static constexpr int kNoWire = -2;

  Collective collective = Collective::kNone;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = -1;                           ///< -1: the collective has none
  int wire = kDefaultWire;                 ///< the type that float32 travels as in this call
  const UserOperation* user = nullptr;     ///< where `op` is one
  std::uint64_t agreed = 0;                ///< more that all ranks must agree on: goes into the messages' fingerprints
  const BlockArguments* blocks = nullptr;  ///< of the v-forms
  bool on_device = false;                  ///< the call is a kernel's; found by the communicator
  bool staged = false;                     ///< it has device buffers and goes through host memory; likewise
  bool two_levels = false;                 ///< staged, with kernels of the ranks of each host
};

/// Arguments that outlive the call: what they point to, except buffers, is copied.
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

/// Ok, or tuttiInvalidArgument / tuttiUnsupported with a text that names the argument. `in place` is judged by `rank`.
Status check_arguments(const CallArguments& arguments, int rank, int ranks);
/// The same for the v-forms; called by check_arguments.
Status check_blocks(const CallArguments& arguments, int rank, int ranks);

/// Which buffers this rank reads and writes.
bool reads_send(const CallArguments& arguments, int rank);
bool writes_recv(const CallArguments& arguments, int rank);

/// Blocks of `count` elements in the send and receive buffer of a rank that has one: 0, 1 or the number of ranks.
int send_blocks(Collective collective, int ranks);
int recv_blocks(Collective collective, int ranks);
/// Blocks of memory that the buffers of all of a host's `local` ranks take together. The root counts as one of them.
std::size_t host_blocks(Collective collective, int ranks, int local, bool in_place);

/// The call as it is compared between ranks. The arguments have been checked. Written in place: a struct that is copied
/// just after its fields were stored one by one costs a stalled load each time (10 to 20 ns here).
void describe_call(const CallArguments& arguments, std::uint64_t sequence, Call* call);

}  // namespace tutti
