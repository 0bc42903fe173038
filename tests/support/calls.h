// Calls and the boards that they are posted on, for tests of what reads them.
#pragma once

#include <cstdint>
#include <memory>

#include "core/call_board.h"

namespace tutti::test {

inline std::unique_ptr<CallBoard> empty_board() {
  // As in a fresh segment: zero bytes.
  return std::unique_ptr<CallBoard>(new CallBoard());
}

inline Call call_number(std::uint64_t sequence, std::uint64_t count = 10) {
  Call call;
  call.sequence = sequence;
  call.count = count;
  call.collective = Collective::kAllReduce;
  call.type = DataType::kFloat32;
  call.op = RedOp::kMax;
  return call;
}

}  // namespace tutti::test
