// The check that each call of a communicator passes before it takes its turn.
#pragma once

#include "comm/call/arguments.h"
#include "comm/call/user_operation.h"
#include "core/settings.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// One per communicator, used by the API's thread. It checks what needs neither the other ranks nor a device.
class CallCheck {
 public:
  CallCheck(const Settings& settings, Rank rank, int ranks)
      : rank_(rank), ranks_(ranks), wire_type_(settings.wire_type), deterministic_(settings.deterministic) {}

  /// The operations made for this communicator.
  UserOperations& operations() { return operations_; }
  /// Resolves what the communicator knows of the arguments (the operation made by the user, the wire type) and checks
  /// them.
  Status resolve_and_check(CallArguments* arguments) const;
  /// Checks arguments that have been resolved.
  Status check(const CallArguments& arguments) const { return check_arguments(arguments, rank_.value, ranks_); }
  Status check(const Transfer& transfer) const;

 private:
  const Rank rank_;
  const int ranks_;
  const int wire_type_;
  const bool deterministic_;
  UserOperations operations_;
};

}  // namespace tutti
