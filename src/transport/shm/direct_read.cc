#include "transport/shm/direct_read.h"

#include <sys/uio.h>
#include <unistd.h>

#include <random>
#include <set>
#include <utility>

#include "core/mutex.h"

namespace tutti {
namespace {

/// The pages that endpoints of this process have written their offers into. Never destroyed: endpoints may outlive
/// static objects.
struct OwnPages {
  Mutex mutex;
  std::set<const DirectPage*> pages TUTTI_GUARDED_BY(mutex);
  static OwnPages& get() {
    static OwnPages* const instance = new OwnPages;
    return *instance;
  }
};

bool is_of_this_process(const DirectPage* page) {
  const MutexLock lock(OwnPages::get().mutex);
  return OwnPages::get().pages.contains(page);
}

/// Keeps all reads and writes before it before all that come after it, as every other thread and process sees them.
void full_fence() {
#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer knows no fences, and g++ warns of that
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

DirectReads::DirectReads(Rank self, std::vector<DirectPage*> pages)
    : self_(self), pages_(std::move(pages)), tried_(pages_.size()), sources_(pages_.size()) {}

DirectReads::~DirectReads() {
  if (token_ == nullptr) return;
  const MutexLock lock(OwnPages::get().mutex);
  OwnPages::get().pages.erase(pages_[index(self_)]);
}

void DirectReads::offer() {
  if (token_ != nullptr) return;
  std::random_device random;
  token_ = std::make_unique<std::uint64_t>(std::uint64_t{random()} << 32 | random());
  DirectPage& own = *pages_[index(self_)];
  {
    const MutexLock lock(OwnPages::get().mutex);
    OwnPages::get().pages.insert(&own);
  }
  own.process.store(::getpid(), std::memory_order_relaxed);
  own.token.store(*token_, std::memory_order_relaxed);
  own.token_address.store(reinterpret_cast<std::uintptr_t>(token_.get()), std::memory_order_relaxed);
  own.offered.store(1, std::memory_order_release);  // pairs with the acquire in try_offer_once()
}

void DirectReads::revoke() {
  pages_[index(self_)]->revoked.store(1, std::memory_order_release);  // pairs with the load in read()
  full_fence();  // the caller may write into the buffers next; nobody may see that before `revoked`
}

bool DirectReads::is_read_by(Rank reader) const {
  const std::uint64_t bits = pages_[index(reader)]->reads[index(self_) / 64].load(
      std::memory_order_relaxed);  // nothing else is read because of the bit, so it needs no order
  return (bits >> index(self_) % 64 & 1) != 0;
}

void DirectReads::try_offer(Rank writer) {
  tried_[index(writer)] = true;
  const DirectPage& page = *pages_[index(writer)];
  // The load in try_offer_once() comes before these. The writer may change its page at any time, so each field is
  // loaded once, and what is checked here is what is used.
  const Source offer{page.process.load(std::memory_order_relaxed), page.token.load(std::memory_order_relaxed),
                     page.token_address.load(std::memory_order_relaxed)};
  if (offer.process <= 0 || (offer.process == ::getpid() && !is_of_this_process(&page))) return;
  sources_[index(writer)] = offer;
  std::uint64_t found = 0;
  if (!read(writer, offer.token_address, &found, sizeof found)) {
    sources_[index(writer)] = Source{};
    return;
  }
  pages_[index(self_)]->reads[index(writer) / 64].fetch_or(std::uint64_t{1} << index(writer) % 64,
                                                           std::memory_order_relaxed);
}

bool DirectReads::read(Rank writer, std::uint64_t address, void* destination, std::size_t bytes) const {
  const Source& source = sources_[index(writer)];
  if (source.process == 0) return false;
  auto* at = static_cast<std::byte*>(destination);
  while (bytes != 0) {
    std::uint64_t token = 0;
    const iovec here[] = {{&token, sizeof token}, {at, bytes}};
    const iovec there[] = {{reinterpret_cast<void*>(source.token_address), sizeof token},
                           {reinterpret_cast<void*>(address), bytes}};
    const ssize_t got = ::process_vm_readv(source.process, here, 2, there, 2, 0);
    if (got <= static_cast<ssize_t>(sizeof token) || token != source.token) return false;
    const std::size_t came = static_cast<std::size_t>(got) - sizeof token;
    at += came;
    address += came;
    bytes -= came;
  }
  // This is looked at after the copy, because a writer that writes into its buffer again has revoked it before.
  full_fence();
  return pages_[index(writer)]->revoked.load(std::memory_order_acquire) == 0;  // pairs with revoke()
}

}  // namespace tutti
