#include "cases/ledger.h"

#include <cstdio>

namespace tutti::cases {
namespace {

constexpr long kShownFailures = 10;

}  // namespace

bool is_representative(tuttiDataType_t type) {
  return type == tuttiInt8 || type == tuttiUint64 || type == tuttiFloat32 || type == tuttiBfloat16 ||
         type == tuttiFloat8e4m3 || type == tuttiBool;
}

bool Ledger::accept(tuttiResult_t code, const std::string& what) {
  if (code == tuttiSuccess) return true;
  std::fprintf(stderr, "rank %d of %d: %s: %s: %s\n", rank_, ranks_, what.c_str(), tuttiGetErrorString(code),
               tuttiGetLastError(comm_));
  ++outcome_.checked;
  ++outcome_.failed;
  usable_ = false;
  return false;
}

void Ledger::note(bool right, const std::string& what) {
  ++outcome_.checked;
  if (right || ++outcome_.failed > kShownFailures) return;
  std::fprintf(stderr, "rank %d of %d: %s: wrong\n", rank_, ranks_, what.c_str());
}

}  // namespace tutti::cases
