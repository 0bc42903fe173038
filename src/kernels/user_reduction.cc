// Reductions made by the library's user: a right fold through a piece of stack.
#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr std::size_t kPiece = 16 * 1024;  // stays in the first cache beside one source

}  // namespace

void reduce_by_user(const ReduceArgs& args) {
  const UserReduction& user = *args.user;
  const std::size_t element = user.element.value;
  const std::size_t step = kPiece / element * element;
  const std::size_t bytes = args.count * element;
  alignas(64) unsigned char piece[kPiece];
  for (std::size_t at = 0; at < bytes; at += step) {
    const std::size_t size = std::min(step, bytes - at);
    const auto source = [&](int k) { return static_cast<const unsigned char*>(args.sources[k]) + at; };
    int k = args.source_count - 1;
    std::memcpy(piece, source(k), size);
    while (k-- > 0) user.fold(user, source(k), piece, size / element);
    // Only now: the destination may be any of the sources.
    copy_bytes(static_cast<unsigned char*>(args.destination) + at, piece, Bytes{size}, false);
    if (args.second != nullptr) {
      copy_bytes(static_cast<unsigned char*>(args.second) + at, piece, Bytes{size}, false);
    }
  }
}

}  // namespace tutti
