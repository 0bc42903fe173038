// Covers core/costs_file.cc.
// Costs as text, and which are in force.
#include "core/costs_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tutti {
namespace {

TEST(CostsFile, WhatIsWrittenIsRead) {
  Costs costs;
  costs.shm.latency = 1;
  costs.tcp.wire_kib = 8'192'000;
  costs.tcp.long_overhead = 7;
  costs.cores = 64;
  costs.cache_bytes = 1 << 30;
  Costs read;
  ASSERT_TRUE(parse_costs(costs_text(costs), "text", &read).ok());
  EXPECT_EQ(read, costs);
}

TEST(CostsFile, OnlyWhatIsNamedChanges) {
  Costs costs;
  ASSERT_TRUE(parse_costs("# measured somewhere\n\nstep 12 # ps\n", "text", &costs).ok());
  EXPECT_EQ(costs.step, 12);
  costs.step = Costs{}.step;
  EXPECT_EQ(costs, Costs{});
}

TEST(CostsFile, WhatCannotBeReadIsSaidAndChangesNothing) {
  for (const char* text : {"step", "step x", "step -1", "step 1 2", "step 99999999999999999999", "nothing 1", "cores 0",
                           "shm.latency 1\nstep 1.5"}) {
    Costs costs;
    const Status status = parse_costs(text, "there", &costs);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.text().find("there"), std::string::npos) << status.text();
    EXPECT_EQ(costs, Costs{}) << text;
  }
}

class CostsInForce : public testing::Test {
 protected:
  CostsInForce() {
    char name[] = "/tmp/tutti-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    if (const char* old = std::getenv("XDG_CACHE_HOME")) old_ = old;
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~CostsInForce() override {
    old_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", old_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static Costs in_force(const std::string& setting) {
    Settings settings;
    settings.costs = setting;
    Costs costs;
    const Status status = costs_in_force(settings, &costs);
    EXPECT_TRUE(status.ok()) << status.text();
    return costs;
  }
  std::string folder_, old_;
};

TEST_F(CostsInForce, TheCacheServesAutoAlone) {
  const Time builtin = Costs{}.step;
  EXPECT_EQ(in_force("auto").step, builtin) << "there is no cache yet";
  ASSERT_TRUE(costs_cache_path().starts_with(folder_ + "/tutti/costs-")) << costs_cache_path();
  write(costs_cache_path(), "step 77\ncores 3\n");
  EXPECT_EQ(in_force("auto").step, 77);
  EXPECT_EQ(in_force("auto").cores, 3);
  EXPECT_EQ(in_force("builtin").step, builtin);
  EXPECT_GE(in_force("builtin").cores, 1);
}

TEST_F(CostsInForce, ADamagedCacheIsNoError) {
  write(costs_cache_path(), "step 77\ngarbage\n");
  EXPECT_EQ(in_force("auto").step, Costs{}.step);
}

TEST_F(CostsInForce, AFileThatIsNamedMustBeThere) {
  Settings settings;
  settings.costs = folder_ + "/none";
  Costs costs;
  EXPECT_EQ(costs_in_force(settings, &costs).code(), Code::kInvalidArgument);
  write(settings.costs, "step 5\n");
  EXPECT_EQ(in_force(settings.costs).step, 5);
}

}  // namespace
}  // namespace tutti
