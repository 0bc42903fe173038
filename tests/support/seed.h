// Chance in tests: a failure can be repeated.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace tutti::test {

/// TEST_SEED of the environment, else another one in each process. Who draws from it says it in a SCOPED_TRACE of
/// seed_text().
inline std::uint32_t test_seed() {
  static const std::uint32_t seed = [] {
    const char* const given = std::getenv("TEST_SEED");
    return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  }();
  return seed;
}
inline std::string seed_text() { return "again with TEST_SEED=" + std::to_string(test_seed()); }

}  // namespace tutti::test
