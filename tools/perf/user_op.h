// The operations that users create: mulsum (the sum of contributions, each times a scalar of its rank) and custom (a
// callback).
#pragma once

#include "names.h"

namespace tutti::perf {

/// The scalar of rank `rank`: 1 or 2 in turn as in nccl-tests; for booleans it is false on every third rank.
int scalar_of(const TypeName& type, int rank);

/// A row's operation as the library knows it. Unless it is built in, it is created and destroyed with the row.
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
  tuttiComm_t comm_ = nullptr;  ///< set only for an operation that was created
};

}  // namespace tutti::perf
