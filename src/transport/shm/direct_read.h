// Direct reads: a rank reads a peer's private memory where Linux lets it (process_vm_readv, "cross memory
// attach"), so that the peer need not copy it into shared memory first.
//
// Whether that works is tried, not assumed. A writer offers its memory by publishing its process and the address of a
// random token. A reader that finds the token there says so in its own page, and only then does the writer send by
// reference. So it does not matter that a process has different numbers in different containers. The reader keeps the
// offer, so that a writer cannot change it later, and looks for the token again with every read, so that it never reads
// a process that got the number of one that has ended. An offer from another process must not name the reader's own:
// the rank would read its own memory and pass it on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/units.h"

namespace tutti {

/// Part of a rank's control page in shared memory, zero-initialised. Only the page's owner writes it.
struct DirectPage {
  static constexpr std::size_t kMostRanks = 4096;
  std::atomic<std::int32_t> process;
  std::atomic<std::uint32_t> offered;  // 1: `process`, `token` and `token_address` are set
  std::atomic<std::uint32_t> revoked;  // 1: what was sent by reference may have changed since
  std::atomic<std::uint64_t> token;
  std::atomic<std::uint64_t> token_address;
  std::atomic<std::uint64_t> reads[kMostRanks / 64];  // bit w: the owner can read rank w's memory
};

/// One endpoint's part in direct reads, as writer and as reader. One thread at a time.
class DirectReads {
 public:
  /// `pages` are by rank, this rank's included; they outlive this object.
  DirectReads(Rank self, std::vector<DirectPage*> pages);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  /// Writer: publishes what readers need to try. Cheap if it was done before.
  void offer();
  /// Writer: whether the rank has shown that it can read this rank's memory.
  bool is_read_by(Rank reader) const;

  /// Writer: to be called before a call that failed gives its buffers back. Readers then get nothing more from this
  /// rank by reference.
  void revoke();

  /// Reader: tries the writer's offer, once. Costs one load if there is nothing to do.
  void try_offer_once(Rank writer) {
    if (!tried_[index(writer)] &&
        pages_[index(writer)]->offered.load(std::memory_order_acquire) != 0)  // pairs: offer()
      try_offer(writer);
  }
  /// Reader: copies from the writer's memory. Returns false if it is not there or may have changed, because the process
  /// has ended, gave the memory back, or revoked it.
  bool read(Rank writer, std::uint64_t address, void* destination, std::size_t bytes) const;

 private:
  /// A writer's offer, read once and found true. `process` is 0 if there is none.
  struct Source {
    pid_t process = 0;
    std::uint64_t token = 0;
    std::uint64_t token_address = 0;
  };
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  void try_offer(Rank writer);

  Rank self_;
  std::vector<DirectPage*> pages_;
  std::vector<bool> tried_;               // by rank: whether its offer was tried
  std::vector<Source> sources_;           // by rank
  std::unique_ptr<std::uint64_t> token_;  // in private memory, where readers look for it
};

}  // namespace tutti
