#include "comm/last_error.h"

namespace tutti {

namespace {

struct Record {
  std::string text = "no error";
  const void* object = nullptr;
  std::string held;
};

Record& record() {
  static thread_local Record mine;
  return mine;
}

}  // namespace

int remember_error(const Status& status, const void* object) {
  Record& mine = record();
  mine.text = status.text();
  mine.object = object;
  return static_cast<int>(status.code());
}

const char* last_error(const void* object) {
  const Record& mine = record();
  return object == nullptr || object == mine.object ? mine.text.c_str() : "no error";
}

const char* hold_text(std::string text) {
  Record& mine = record();
  mine.held = std::move(text);
  return mine.held.c_str();
}

}  // namespace tutti
