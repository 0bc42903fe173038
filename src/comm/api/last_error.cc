#include "comm/api/last_error.h"

#include <string>
#include <utility>

#include "core/thread_value.h"

namespace tutti {

namespace {

/// Copies of a status share its text, so none of this needs memory.
struct Record {
  Status last;
  const void* object = nullptr;
  Status held;
  std::string text;
};

Record& record() noexcept { return value_of_thread<Record>(); }

}  // namespace

int remember_error(const Status& status, const void* object) noexcept {
  Record& mine = record();
  mine.last = status;
  mine.object = object;
  return static_cast<int>(status.code());
}

const char* last_error(const void* object) noexcept {
  const Record& mine = record();
  const bool concerns_another = object != nullptr && mine.object != nullptr && object != mine.object;
  return concerns_another || mine.last.ok() ? "no error" : mine.last.text().c_str();
}

const char* hold_text(const Status& status) noexcept {
  Record& mine = record();
  mine.held = status;
  return mine.held.text().c_str();
}

const char* hold_text(std::string text) {
  Record& mine = record();
  mine.text = std::move(text);
  return mine.text.c_str();
}

}  // namespace tutti
