// Status: how every room reports failure. A code and, when it is not ok, one English sentence.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/code.h"

namespace tutti {

/// A code and its text. The text is written where the failure is decided, and logged once: a final failure by
/// FailureHandler, a refused call by the C API. An ok status is one null pointer: cheap to return, never allocates.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : failure_(std::make_shared<Failure>(Failure{code, std::move(text)})) {}

  bool ok() const { return failure_ == nullptr; }
  Code code() const { return failure_ ? failure_->code : Code::kOk; }
  const std::string& text() const;

 private:
  struct Failure {
    Code code;
    std::string text;
  };
  std::shared_ptr<const Failure> failure_;
};

/// A failed status with a formatted text: fail(Code::kSystemError, "connect to rank {}: {}", peer, errno_text()).
template <class... Args>
Status fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// kSystemError, "out of memory": made when the library is loaded, so that it needs none.
const Status& no_memory() noexcept;

/// In a handler: the failure that an exception of any kind is. `where` is said in the text: "a call of a group".
Status what_was_thrown(std::string_view where) noexcept;

/// Text of errno (or of `error`), thread-safe.
std::string errno_text();
std::string errno_text(int error);

}  // namespace tutti

/// Passes a failure up. The only control macro.
#define TUTTI_TRY(expression)                                                                 \
  do {                                                                                        \
    if (::tutti::Status tutti_status = (expression); !tutti_status.ok()) return tutti_status; \
  } while (false)
