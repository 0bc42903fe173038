#include "core/status.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

namespace tutti {
namespace {

// Never destroyed: destructors of the application's objects may make calls while the process ends.
const Status& kNoMemory = *new Status(Code::kSystemError, "out of memory");
const std::string& kNoText = *new std::string;

}  // namespace

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

const std::string& Status::text() const { return failure_ ? failure_->text : kNoText; }

const Status& no_memory() noexcept { return kNoMemory; }

Status what_was_thrown(std::string_view where) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return fail(Code::kSystemError, "out of memory in {}", where);
    } catch (const std::exception& error) {
      return fail(Code::kInternalError, "an exception in {}: {}", where, error.what());
    } catch (...) {
      return fail(Code::kInternalError, "an exception of an unknown kind in {}", where);
    }
  } catch (...) {  // without memory for the text
    return no_memory();
  }
}

std::string errno_text() { return errno_text(errno); }

std::string errno_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);  // the GNU form: may return its own constant string
}

}  // namespace tutti
