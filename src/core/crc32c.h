// CRC32C: the Castagnoli checksum (RFC 3720, appendix B.4), which processors compute by an instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// The checksum of what `seed` is the checksum of, followed by `bytes`; seed 0: of `bytes` alone. So
/// crc32c(crc32c(0, a), b) is that of a and b in a row. Any thread, any alignment.
std::uint32_t crc32c(std::uint32_t seed, std::span<const std::byte> bytes);

/// One way to compute it. All give the same; the tests compare them.
struct Crc32cMethod {
  const char* name;  ///< "sse4.2", "arm", "table"
  bool (*usable)();  ///< whether this processor has what it needs
  std::uint32_t (*compute)(std::uint32_t seed, std::span<const std::byte> bytes);
};
/// All that are compiled in, best first; the last is always usable.
std::span<const Crc32cMethod> crc32c_methods();

}  // namespace tutti
