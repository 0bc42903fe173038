// Directories and ports for ranks to meet at.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "comm/world.h"
#include "support/ports.h"

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

inline void expect_all_ok(const SharedPage& page, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(page.code(rank), Code::kOk) << "rank " << rank << ": " << page.text(rank);
}

}  // namespace tutti::test
