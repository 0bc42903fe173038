// The operations that users make: mulsum (a scalar of each rank's own times its contribution) and custom (a callback).
#pragma once

#include "names.h"

namespace tutti::perf {

/// What rank `rank` multiplies by: 1 or 2 in turn as in nccl-tests; for booleans false on every third rank.
int scalar_of(const TypeName& type, int rank);

/// A row's operation as the library knows it, made and destroyed with the row. A built-in operation is itself.
class RowOperation {
 public:
  RowOperation() = default;
  ~RowOperation();
  RowOperation(const RowOperation&) = delete;
  RowOperation& operator=(const RowOperation&) = delete;

  /// All ranks make the same operations in the same order.
  tuttiResult_t make(Operation op, const TypeName& type, int rank, tuttiComm_t comm);
  tuttiRedOp_t handle() const { return handle_; }

 private:
  tuttiRedOp_t handle_ = tuttiSum;
  tuttiComm_t comm_ = nullptr;  ///< of a user-made operation
};

}  // namespace tutti::perf
