// How an operation ended, as one number. Also for device code, which has no texts.
#pragma once

namespace tutti {

/// Values equal tuttiResult_t.
enum class Code : int {
  kOk = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
  kMismatch = 9,
  kAborted = 10,
  kUnsupported = 11,
};

const char* name_of(Code code);

}  // namespace tutti
