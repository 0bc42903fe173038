#include "transport/direct_read.h"

#include <sys/uio.h>
#include <unistd.h>

#include <random>
#include <utility>

namespace tutti {

DirectReads::DirectReads(Rank self, std::vector<DirectPage*> pages)
    : self_(self), pages_(std::move(pages)), tried_(pages_.size()) {}

void DirectReads::offer() {
  if (token_ != nullptr) return;
  std::random_device random;
  token_ = std::make_unique<std::uint64_t>(std::uint64_t{random()} << 32 | random());
  DirectPage& own = *pages_[index(self_)];
  own.process.store(::getpid(), std::memory_order_relaxed);
  own.token.store(*token_, std::memory_order_relaxed);
  own.token_address.store(reinterpret_cast<std::uintptr_t>(token_.get()), std::memory_order_relaxed);
  own.offered.store(1, std::memory_order_release);  // pairs with the acquire in look()
}

bool DirectReads::is_read_by(Rank reader) const {
  const std::uint64_t bits = pages_[index(reader)]->reads[index(self_) / 64].load(
      std::memory_order_relaxed);  // the bit says all there is to say
  return (bits >> index(self_) % 64 & 1) != 0;
}

void DirectReads::try_offer(Rank writer) {
  tried_[index(writer)] = true;
  const DirectPage& page = *pages_[index(writer)];
  std::uint64_t found = 0;
  const std::uint64_t address = page.token_address.load(std::memory_order_relaxed);  // ordered by look()
  if (!read(writer, address, &found, sizeof found) || found != page.token.load(std::memory_order_relaxed)) return;
  pages_[index(self_)]->reads[index(writer) / 64].fetch_or(std::uint64_t{1} << index(writer) % 64,
                                                           std::memory_order_relaxed);
}

bool DirectReads::read(Rank writer, std::uint64_t address, void* destination, std::size_t bytes) const {
  const pid_t process = pages_[index(writer)]->process.load(std::memory_order_relaxed);
  auto* at = static_cast<std::byte*>(destination);
  while (bytes != 0) {
    iovec here{at, bytes};
    iovec there{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) return false;
    at += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  // Looked at after the copy: whoever writes into the buffer again has revoked it before.
  return pages_[index(writer)]->revoked.load(std::memory_order_acquire) == 0;  // pairs with revoke()
}

}  // namespace tutti
