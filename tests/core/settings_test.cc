// Covers core/settings.cc.
#include "core/settings.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <set>
#include <string>

#include "support/scoped_setting.h"
#include "support/temporary_directory.h"

namespace tutti::test {
namespace {

TEST(ParseBytes, AcceptsUnitsAndDecimals) {
  const std::pair<const char*, std::size_t> cases[] = {
      {"0", 0},       {"8", 8},      {"64K", 65536}, {"64k", 65536},   {"1.5M", 1572864}, {"2G", 2147483648u},
      {"4KiB", 4096}, {"4KB", 4096}, {"7B", 7},      {"0x1000", 4096}, {"+8", 8}};
  for (const auto& [text, expected] : cases) {
    Bytes bytes;
    EXPECT_TRUE(parse_bytes(text, &bytes).ok()) << text;
    EXPECT_EQ(bytes.value, expected) << text;
  }
}

// The program that uses the library has chosen its locale, perhaps one with a decimal comma.
TEST(ParseBytes, ADecimalPointIsOneInEveryLocale) {
  const TemporaryDirectory folder;
  const std::string make = "localedef -c -i de_DE -f UTF-8 " + folder.file("de_DE.UTF-8") + " > /dev/null 2>&1";
  const ScopedSetting path("LOCPATH", folder.path());
  if (std::system(make.c_str()) != 0 || std::setlocale(LC_NUMERIC, "de_DE.UTF-8") == nullptr)
    GTEST_SKIP() << "localedef cannot make the locale de_DE";
  const bool has_comma = std::localeconv()->decimal_point[0] == ',';
  const ScopedSetting timeout("TUTTI_TIMEOUT", "0.5");
  Bytes bytes;
  const Status parsed = parse_bytes("1.5M", &bytes);
  Settings settings;
  const Status read = read_settings(&settings);
  std::setlocale(LC_NUMERIC, "C");
  EXPECT_TRUE(has_comma);
  EXPECT_TRUE(parsed.ok()) << parsed.text();
  EXPECT_EQ(bytes.value, 1572864u);
  EXPECT_TRUE(read.ok()) << read.text();
  EXPECT_EQ(settings.timeout_seconds, 0.5);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "8X", "1KK", "nan", "1e30", "8 K", "4iB", "+-1", "0x", "1,5M"}) {
    Bytes bytes{17};
    const Status status = parse_bytes(text, &bytes);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_EQ(bytes.value, 17u) << "set on success only";
  }
}

TEST(Settings, DefaultsAreThoseOfTheTable) {
  Settings settings;
  std::set<std::string> names;
  for (const SettingInfo& info : setting_table()) {
    EXPECT_TRUE(info.parse(info.initial, &settings).ok()) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " is listed twice";
    EXPECT_STRNE(info.meaning, "");
  }
  const Settings initial;
  EXPECT_EQ(initial.timeout_seconds, 600);
  EXPECT_EQ(initial.join_timeout_seconds, 600);
  EXPECT_EQ(initial.reconnect_seconds, 10);
  EXPECT_EQ(initial.shm_slot_bytes, Bytes{256 * 1024});
  EXPECT_EQ(initial.shm_slots, 4u);
  EXPECT_EQ(initial.unexpected_bytes, Bytes{std::size_t{4} << 30});
  EXPECT_EQ(initial.algorithm, "auto");
  EXPECT_EQ(initial.costs, "auto");
  EXPECT_EQ(initial.simd, "auto");
  EXPECT_TRUE(initial.cma);
  EXPECT_EQ(initial.transport, TransportKind::kAuto);
  EXPECT_EQ(initial.multicast, MulticastMode::kAuto);
  EXPECT_EQ(initial.two_levels_from, Bytes{64 * 1024});
  EXPECT_EQ(initial.log_level, LogLevel::kWarn);
  EXPECT_EQ(initial.spin_microseconds, -1);
}

struct BadValue {
  const char* name;
  const char* value;
};

TEST(Settings, BadValuesAreErrorsThatNameVariableAndValue) {
  const BadValue cases[] = {
      {"TUTTI_TRANSPORT", "pigeon"},   {"TUTTI_TIMEOUT", "-1"},     {"TUTTI_TIMEOUT", "soon"},
      {"TUTTI_LOG", "loud"},           {"TUTTI_PORT_RANGE", "9-1"}, {"TUTTI_PORT_RANGE", "1-70000"},
      {"TUTTI_SHM_SLOTS", "3"},        {"TUTTI_SHM_SLOTS", "1"},    {"TUTTI_SHM_SLOT_BYTES", "1"},
      {"TUTTI_PROGRESS_CORES", "a"},   {"TUTTI_SIMD", "mmx"},       {"TUTTI_SPIN_US", "-2"},
      {"TUTTI_PROGRESS_CORES", "3-1"}, {"TUTTI_MULTICAST", "on"},   {"TUTTI_TWO_LEVELS", "on"}};
  for (const BadValue& one : cases) {
    const ScopedSetting setting(one.name, one.value);
    Settings settings;
    const Status status = read_settings(&settings);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << one.name;
    EXPECT_NE(status.text().find(one.name), std::string::npos) << status.text();
    EXPECT_NE(status.text().find(one.value), std::string::npos) << status.text();
  }
}

TEST(Settings, GoodValuesArrive) {
  const ScopedSetting ports("TUTTI_PORT_RANGE", "20000-20010");
  const ScopedSetting cores("TUTTI_PROGRESS_CORES", "0,2-3");
  const ScopedSetting interfaces("NCCL_SOCKET_IFNAME", "^docker");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "0.25");
  const ScopedSetting multicast("TUTTI_MULTICAST", "mapped");
  const ScopedSetting levels("TUTTI_TWO_LEVELS", "off");
  Settings settings;
  ASSERT_TRUE(read_settings(&settings).ok());
  EXPECT_EQ(settings.port_first, 20000);
  EXPECT_EQ(settings.port_last, 20010);
  EXPECT_EQ(settings.progress_cores, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(settings.socket_interface, "^docker") << "falls back to NCCL's variable";
  EXPECT_EQ(settings.socket_interface_source, "NCCL_SOCKET_IFNAME") << "which errors name, then";
  const ScopedSetting own("TUTTI_SOCKET_IFNAME", "eth");
  ASSERT_TRUE(read_settings(&settings).ok());
  EXPECT_EQ(settings.socket_interface, "eth");
  EXPECT_EQ(settings.socket_interface_source, "TUTTI_SOCKET_IFNAME");
  EXPECT_EQ(settings.timeout_seconds, 0.25);
  EXPECT_EQ(settings.multicast, MulticastMode::kMapped);
  EXPECT_FALSE(settings.two_levels_from.has_value());
}

}  // namespace
}  // namespace tutti::test
