#include "comm/call/user_operation.h"

namespace tutti {

int UserOperations::add(const UserOperation& operation) {
  constexpr int kNumbers = kMost - kRedOps + 1;
  if (operations_.size() == static_cast<std::size_t>(kNumbers)) return 0;
  // Numbers start again when they are used up. Ranks that create and destroy alike still agree on them.
  while (operations_.count(next_) != 0) next_ = next_ == kMost ? kRedOps : next_ + 1;
  const int op = next_;
  next_ = next_ == kMost ? kRedOps : next_ + 1;
  operations_.emplace(op, std::make_shared<const UserOperation>(operation));
  return op;
}

}  // namespace tutti
