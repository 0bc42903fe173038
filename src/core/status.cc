#include "core/status.h"

#include <cerrno>
#include <cstring>

namespace tutti {

const char* name_of(Code code) {
  switch (code) {
    case Code::kOk:
      return "success";
    case Code::kUnhandledCudaError:
      return "unhandled CUDA error";
    case Code::kSystemError:
      return "system error";
    case Code::kInternalError:
      return "internal error";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kRemoteError:
      return "remote error";
    case Code::kInProgress:
      return "in progress";
    case Code::kTimeout:
      return "timeout";
    case Code::kMismatch:
      return "mismatch between ranks";
    case Code::kAborted:
      return "aborted";
    case Code::kUnsupported:
      return "unsupported";
  }
  return "unknown result code";
}

const std::string& Status::text() const {
  static const std::string kNone;
  return failure_ ? failure_->text : kNone;
}

std::string errno_text() { return errno_text(errno); }

std::string errno_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);  // the GNU form: may return its own constant string
}

}  // namespace tutti
