// Covers core/text_file.cc.
#include "core/text_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "support/inherited_descriptors.h"

namespace tutti {
namespace {

class TextFile : public ::testing::Test {
 protected:
  ~TextFile() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  const std::string path_ = ::testing::TempDir() + "text_file_" + std::to_string(::getpid());
};

TEST_F(TextFile, IsReadUpToALimit) {
  write("one\ntwo");
  EXPECT_EQ(read_text_file(path_, 100), "one\ntwo");
  EXPECT_EQ(read_text_file(path_, 5), "one\nt");
  EXPECT_EQ(read_text_file(path_, 0), "");
  write("");
  EXPECT_EQ(read_text_file(path_, 100), "");
}

TEST_F(TextFile, ThatCannotBeReadIsNothing) {
  EXPECT_FALSE(read_text_file(path_, 100));
  EXPECT_FALSE(read_text_file(std::filesystem::temp_directory_path(), 100)) << "a folder";
}

TEST_F(TextFile, IsNotInheritedByProgramsThatAreStartedMeanwhile) {
  write(std::string(100'000, 'x'));
  const int usual = test::inherited_descriptors();
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) EXPECT_TRUE(read_text_file(path_, 100'000));
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(test::inherited_descriptors(), usual);
  over = true;
  reader.join();
}

}  // namespace
}  // namespace tutti
