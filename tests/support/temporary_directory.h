// A directory of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tutti::test {

/// Gone with the object, and all in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/tutti-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool empty() const { return std::filesystem::is_empty(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::test
