// Direct reads: a rank reads a peer's private memory where Linux lets it (process_vm_readv, "cross memory
// attach"), instead of the peer copying it into shared memory first.
//
// Nobody believes that it works: a writer offers its memory by publishing its process and the address of a random
// token; a reader that finds the token there says so in its own page, and only then does the writer send by reference.
// So it does not matter whose process number means what in which container. The reader keeps what it found: it looks
// for the token again with every read, so that a process that got the number of one that has ended is not read, and a
// writer cannot change its mind. Nor can a writer of another process name this one: a rank would read its own memory
// and pass it on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/units.h"

namespace tutti {

/// Part of a rank's control page in shared memory, zero-initialised. Each field is written by its owner only.
struct DirectPage {
  static constexpr std::size_t kMostRanks = 4096;
  std::atomic<std::int32_t> process;
  std::atomic<std::uint32_t> offered;  // 1: the fields around it are there
  std::atomic<std::uint32_t> revoked;  // 1: what was sent by reference may have changed since
  std::atomic<std::uint64_t> token;
  std::atomic<std::uint64_t> token_address;
  std::atomic<std::uint64_t> reads[kMostRanks / 64];  // bit w: the owner can read rank w's memory
};

/// One endpoint's part. One thread at a time.
class DirectReads {
 public:
  /// `pages` by rank, this rank's included; they outlive this.
  DirectReads(Rank self, std::vector<DirectPage*> pages);
  ~DirectReads();
  DirectReads(const DirectReads&) = delete;
  DirectReads& operator=(const DirectReads&) = delete;

  /// Writer: publishes what readers need to try. Cheap when it was done before.
  void offer();
  /// Writer: whether the rank has shown that it can read this rank's memory.
  bool is_read_by(Rank reader) const;

  /// Writer: before a call that failed gives its buffers back. Readers then get nothing more from this rank by
  /// reference.
  void revoke();

  /// Reader: tries the writer's offer, once. One load when there is nothing to do.
  void try_offer_once(Rank writer) {
    if (!tried_[index(writer)] &&
        pages_[index(writer)]->offered.load(std::memory_order_acquire) != 0)  // pairs: offer()
      try_offer(writer);
  }
  /// Reader: copies from the writer's memory. False: it is not there, or not what it was (the process has ended, gave
  /// the memory back, or revoked it).
  bool read(Rank writer, std::uint64_t address, void* destination, std::size_t bytes) const;

 private:
  /// A writer's offer, read once and found true. No process: there is none.
  struct Source {
    pid_t process = 0;
    std::uint64_t token = 0;
    std::uint64_t token_address = 0;
  };
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  void try_offer(Rank writer);

  Rank self_;
  std::vector<DirectPage*> pages_;
  std::vector<bool> tried_;               // by rank
  std::vector<Source> sources_;           // by rank
  std::unique_ptr<std::uint64_t> token_;  // in private memory: what readers look for
};

}  // namespace tutti
