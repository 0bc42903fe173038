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
  static Costs in_force(const std::string& setting, const LocalNetwork& network = {}) {
    Settings settings;
    settings.costs = setting;
    Costs costs;
    const Status status = costs_in_force(settings, network, &costs);
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

TEST_F(CostsInForce, ANetworkIsKnownByItsCardOrByWhatWasMeasured) {
  const LocalNetwork unknown{"eth0-10.1.0.0-16", 0}, card{"eth0-10.1.0.0-16", 100'000}, other{"eth1-10.2.0.0-16", 0};
  EXPECT_EQ(in_force("auto", unknown), in_force("auto"));
  EXPECT_EQ(in_force("auto", card).network_wire_kib, 81'920);
  EXPECT_EQ(in_force("auto", card).network_latency, kUsualNetworkLatency);
  EXPECT_EQ(in_force("builtin", card), in_force("builtin"));
  ASSERT_EQ(network_costs_path(card), folder_ + "/tutti/network-eth0-10.1.0.0-16");
  write(network_costs_path(card), "network.latency 7000000\nnetwork.wire_kib 90000\n");
  for (const LocalNetwork& network : {unknown, card}) {
    EXPECT_EQ(in_force("auto", network).network_wire_kib, 90'000);
    EXPECT_EQ(in_force("auto", network).network_latency, 7'000'000);
  }
  EXPECT_EQ(in_force("auto", other).network_wire_kib, 0);
  const Costs slow = in_force("auto", LocalNetwork{"eth2-10.3.0.0-16", 1});
  Costs read;
  EXPECT_TRUE(parse_costs(costs_text(slow), "text", &read).ok())
      << "a text of costs holds the rate of the slowest card";
  EXPECT_EQ(in_force("auto").network_wire_kib, 0) << "there is no network, and no file for none";
  write(network_costs_path(card), "garbage\n");
  EXPECT_EQ(in_force("auto", card).network_wire_kib, 81'920);
}

TEST_F(CostsInForce, AFileThatIsNamedMustBeThere) {
  Settings settings;
  settings.costs = folder_ + "/none";
  Costs costs;
  EXPECT_EQ(costs_in_force(settings, {}, &costs).code(), Code::kInvalidArgument);
  write(settings.costs, "step 5\n");
  EXPECT_EQ(in_force(settings.costs).step, 5);
}

}  // namespace
}  // namespace tutti
