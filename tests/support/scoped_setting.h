// A variable of the environment that is set for a scope.
#pragma once

#include <cstdlib>
#include <string>

namespace tutti::test {

/// Sets an environment variable for a scope. Only while no other thread runs.
class ScopedSetting {
 public:
  ScopedSetting(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, was_set_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedSetting() { was_set_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  ScopedSetting(const ScopedSetting&) = delete;
  ScopedSetting& operator=(const ScopedSetting&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

}  // namespace tutti::test
