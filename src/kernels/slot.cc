#include <algorithm>
#include <array>

#include "kernels/copy.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr std::size_t kPart = 8192;       // stays in the first cache beside its sources
constexpr std::size_t kPlainBelow = 512;  // fewer bytes are stored as fast as they are copied
constexpr int kMostSources = 64;          // more than this many reads a part outweigh how it is stored

const void* advance(const void* pointer, std::size_t bytes) {
  return static_cast<const unsigned char*>(pointer) + bytes;
}
void* advance(void* pointer, std::size_t bytes) { return static_cast<unsigned char*>(pointer) + bytes; }

}  // namespace

void reduce_into_slot(ReduceKernel kernel, Bytes element, const ReduceArgs& args) {
  const std::size_t bytes = args.count * element.value;
  // A user's reduction goes through pieces of its own and ends in the same copy.
  if (bytes < kPlainBelow || args.source_count > kMostSources || args.user != nullptr) return kernel(args);
  alignas(64) unsigned char part[kPart];
  std::array<const void*, kMostSources> sources;
  ReduceArgs piece = args;
  piece.sources = sources.data();
  piece.destination = part;
  piece.stream = false;
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t size = std::min(kPart, bytes - at);
    for (int k = 0; k < args.source_count; ++k) sources[k] = advance(args.sources[k], at);
    if (args.second != nullptr) piece.second = advance(args.second, at);
    piece.count = size / element.value;
    kernel(piece);
    copy_by_string(advance(args.destination, at), part, size);
  }
}

}  // namespace tutti
