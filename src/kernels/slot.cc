#include <algorithm>
#include <array>
#include <utility>

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

/// Bytes [at, at + bytes) of a reduction. `sources` is memory for where each source begins.
ReduceArgs part_of(const ReduceArgs& args, std::size_t at, std::size_t bytes, Bytes element, const void** sources) {
  ReduceArgs part = args;
  for (int k = 0; k < args.source_count; ++k) sources[k] = advance(args.sources[k], at);
  part.sources = sources;
  part.destination = advance(args.destination, at);
  if (args.second != nullptr) part.second = advance(args.second, at);
  part.count = bytes / element.value;
  return part;
}

void reduce_through_caches(ReduceKernel kernel, Bytes element, const ReduceArgs& args) {
  const std::size_t bytes = args.count * element.value;
  alignas(64) unsigned char buffer[kPart];
  std::array<const void*, kMostSources> sources;
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t size = std::min(kPart, bytes - at);
    ReduceArgs part = part_of(args, at, size, element, sources.data());
    void* const slot = std::exchange(part.destination, buffer);
    kernel(part);
    copy_by_string(slot, buffer, size);
  }
}

}  // namespace

void reduce_into_slot(ReduceKernel kernel, Bytes element, const ReduceArgs& args, SlotStores& stores) {
  const std::size_t bytes = args.count * element.value;
  ReduceArgs whole = args;
  whole.stream = false;
  // A user's reduction goes through pieces of its own and ends in the same copy.
  if (bytes < kPlainBelow || args.source_count > kMostSources || args.user != nullptr) return kernel(whole);
  stores.fill(bytes, [&](std::size_t at, std::size_t size, bool past_caches) {
    std::array<const void*, kMostSources> sources;
    ReduceArgs part = part_of(whole, at, size, element, sources.data());
    part.stream = past_caches;
    past_caches ? kernel(part) : reduce_through_caches(kernel, element, part);
  });
}

void copy_into_slot(void* slot, void* second, const void* source, Bytes bytes, bool stream, SlotStores& stores) {
  stores.fill(bytes.value, [&](std::size_t at, std::size_t size, bool past_caches) {
    const void* const from = advance(source, at);
    if (second == nullptr) return copy_bytes(advance(slot, at), from, Bytes{size}, past_caches);
    copy_bytes_twice(advance(second, at), advance(slot, at), from, Bytes{size}, stream, past_caches);
  });
}

}  // namespace tutti
