// Operations that the library's user made for one communicator.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>

#include "core/types.h"
#include "core/units.h"
#include "executor/executor.h"
#include "kernels/kernels.h"
#include "tutti/tutti.h"

namespace tutti {

/// A plain value. The registry and the calls under way that use it share it.
struct UserOperation {
  /// The function of tuttiRedOpCreateCustom: inout[i] = in[i] op inout[i], where `in` comes from lower ranks.
  using Function = void (*)(const void* in, void* inout, std::size_t count, tuttiDataType_t type, void* user);
  Function function = nullptr;  ///< nullptr for a sum of inputs that are multiplied by a scalar first
  void* user = nullptr;
  bool commutative = true;  ///< whether `function` is commutative; if not, operands are combined in rank order
  DataType scalar_type = DataType::kInt8;
  const void* scalar_place = nullptr;  ///< read when the call runs; if it is nullptr, `scalar` counts
  std::array<std::byte, 8> scalar{};

  /// Ranks must agree on this, too, and not only on the operation's number.
  std::uint64_t kind() const { return function == nullptr ? 1 : commutative ? 2 : 3; }
  const void* scalar_now() const { return scalar_place != nullptr ? scalar_place : scalar.data(); }
};

/// The running call's user-made reduction, as the kernels see it.
struct UserReduceFunction : UserReduction {
  const UserOperation* operation = nullptr;
  DataType type = DataType::kInt8;

  void bind(const UserOperation& made, DataType of) {
    operation = &made;
    type = of;
    element = size_of(of);
    fold = [](const UserReduction& self, const void* in, void* inout, std::size_t count) {
      const auto& own = static_cast<const UserReduceFunction&>(self);
      own.operation->function(in, inout, count, static_cast<tuttiDataType_t>(own.type), own.operation->user);
    };
  }
};

/// The operations of one communicator by their tuttiRedOp_t. Those are numbers in order of creation, so that they agree
/// on all ranks. For the API's thread only.
class UserOperations {
 public:
  /// Returns the new operation's tuttiRedOp_t; 0 if there are no numbers left.
  int add(const UserOperation& operation);
  /// Returns false if there is no such operation. Calls under way keep theirs.
  bool remove(int op) { return operations_.erase(op) == 1; }
  std::shared_ptr<const UserOperation> find(int op) const {
    const auto found = operations_.find(op);
    return found == operations_.end() ? nullptr : found->second;
  }

 private:
  static constexpr int kMost = 0xffff;  // the largest number that a packed call has room for
  std::map<int, std::shared_ptr<const UserOperation>> operations_;
  int next_ = kRedOps;
};

}  // namespace tutti
