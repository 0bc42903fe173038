#include "hostile/scribbler.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::test {
namespace {

struct Stretch {
  std::uint64_t begin, end;
};

std::vector<Stretch> shared_memory() {
  std::vector<Stretch> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("rw-s") == std::string::npos || line.find("memfd:tutti") == std::string::npos) continue;
    std::istringstream text(line);
    Stretch stretch{};
    char dash = 0;
    text >> std::hex >> stretch.begin >> dash >> stretch.end;
    found.push_back(stretch);
  }
  return found;
}

}  // namespace

void Scribbler::run(std::uint64_t seed, unsigned delay_us) {
  constexpr std::array<std::uint64_t, 8> kNumbers{0, 1, 3, 0x7fffffff, 0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX};
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random);
  };
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);  // writes fail where nothing is mapped any more
  bool begun = false;
  while (!stop_.load()) {
    const std::vector<Stretch> shared = shared_memory();
    if (!begun && !shared.empty()) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      begun = true;
      continue;  // other memory may have taken the place of what was found
    }
    for (const Stretch& stretch : shared) {
      for (int burst = 0; burst < 100; ++burst) {
        const std::uint64_t number = draw(2) == 0 ? kNumbers[draw(kNumbers.size())] : random();
        const std::uint64_t width = std::uint64_t{1} << draw(4);
        // What governs the transfers stands in the first pages.
        const std::uint64_t size = draw(2) == 0 ? std::min<std::uint64_t>(stretch.end - stretch.begin, 64 * 1024)
                                                : stretch.end - stretch.begin;
        const std::uint64_t at = stretch.begin + draw(size / width) * width;
        if (::pwrite(memory, &number, width, static_cast<off_t>(at)) > 0) ++written_;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ::close(memory);
}

}  // namespace tutti::test
