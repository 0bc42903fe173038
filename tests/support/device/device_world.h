// Ranks of one process with links in "device" memory, which is memory of the host here.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "executor/device/device_binding.h"
#include "support/device/host_grid.h"
#include "support/sanitized.h"

namespace tutti::test {

/// What the ranks have for messages to all. One memory is the mirror of all ranks' devices: a processor has no store
/// that lands in several.
enum class Mirrors {
  kNone,
  kMulticast,  ///< as by a multicast object; read and written at one address
  kMapped,     ///< by ordinary stores; read at another address, where nothing can be written
};

/// The thread sanitizer does not see that two addresses are of one memory: under it there is one.
class MirrorMemory {
 public:
  MirrorMemory(Mirrors kind, std::size_t bytes) : bytes_(bytes) {
    if (kind == Mirrors::kNone) return;
    const int descriptor = ::memfd_create("tutti-test-mirror", MFD_CLOEXEC);
    if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) std::abort();
    written_ = map(descriptor, PROT_READ | PROT_WRITE);
    read_ = kind == Mirrors::kMapped && !kThreadSanitized ? map(descriptor, PROT_READ) : written_;
    ::close(descriptor);
  }
  ~MirrorMemory() {
    if (read_ != written_) ::munmap(read_, bytes_);
    if (written_ != nullptr) ::munmap(written_, bytes_);
  }
  MirrorMemory(const MirrorMemory&) = delete;
  MirrorMemory& operator=(const MirrorMemory&) = delete;

  std::byte* to_read() const { return read_; }
  std::byte* to_write() const { return written_; }

 private:
  std::byte* map(int descriptor, int protection) const {
    void* const memory = ::mmap(nullptr, bytes_, protection, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(memory);
  }

  std::size_t bytes_;
  std::byte* read_ = nullptr;
  std::byte* written_ = nullptr;
};

class DeviceWorld {
 public:
  explicit DeviceWorld(const DeviceGeometry& geometry, Mirrors mirrors = Mirrors::kNone)
      : geometry_(geometry),
        is_multicast_(mirrors == Mirrors::kMulticast),
        multicast_(mirrors, geometry.mirror_bytes()) {
    for (int r = 0; r < geometry.ranks; ++r) {
      arenas_.push_back(std::make_unique<Arena>(geometry.arena_bytes()));
      reports_.push_back(std::make_unique<DeviceReport>());
    }
  }

  const DeviceGeometry& geometry() const { return geometry_; }
  DeviceReport& report(int rank) { return *reports_[static_cast<std::size_t>(rank)]; }
  /// Nanoseconds that a wait may last; 0: for ever.
  void set_limit(std::uint64_t limit) { limit_ = limit; }

  DevicePlace place(int rank) {
    DevicePlace place;
    place.links.set_geometry(geometry_);
    place.links.single_process = true;
    place.links.rank = rank;
    place.links.mirror = multicast_.to_read();
    place.links.to_mirrors = multicast_.to_write();
    place.links.multimem = is_multicast_;
    for (int r = 0; r < geometry_.ranks; ++r) place.links.arenas[r] = arenas_[static_cast<std::size_t>(r)]->begin();
    place.watch = DeviceWatch{place.links.stop(), &report(rank), limit_};
    place.number = number_.fetch_add(1, std::memory_order_relaxed);
    return place;
  }

  /// Slots of links to `rank`, whose last message was lent by its writer; a multicast's count where the writer is it.
  int lent_slots(int rank) {
    const DeviceLinks links = place(rank).links;
    int lent = 0;
    for (std::uint32_t block = 0; block < geometry_.blocks; ++block)
      for (int writer = 0; writer < geometry_.ranks; ++writer)
        for (std::uint32_t slot = 0; slot < geometry_.slots; ++slot)
          lent += links.mark(DeviceRoute{rank, writer}, links.sections(block), slot)->lent != 0 ? 1 : 0;
    return lent;
  }

  /// All links stand at this position, as after as many messages.
  void start_at(std::uint64_t position) {
    for (int rank = 0; rank < geometry_.ranks; ++rank) {
      const DeviceLinks links = place(rank).links;
      for (std::uint32_t block = 0; block < geometry_.blocks; ++block) start_at(links, block, position);
    }
  }

 private:
  class Arena {
   public:
    explicit Arena(std::size_t bytes) : memory_(bytes + DeviceGeometry::kAlign) {}
    std::byte* begin() {
      const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
      return memory_.data() + (DeviceGeometry::kAlign - address % DeviceGeometry::kAlign);
    }

   private:
    std::vector<std::byte> memory_;
  };

  void start_at(const DeviceLinks& links, std::uint32_t block, std::uint64_t position) {
    LinkTable* const table = links.table(block);
    for (int peer = 0; peer < geometry_.ranks; ++peer) {
      table->sent[peer] = table->received[peer] = table->multicast[peer] = LinkEnd{position, position};
      *links.head(DeviceRoute{links.rank, peer}, links.sections(block), LinkSide::kWriter) = position;
      *links.released(links.rank, peer, false, links.sections(block)) = LinkEnd{position, position};
      *links.released(links.rank, peer, true, links.sections(block)) = LinkEnd{position, position};
    }
  }

  DeviceGeometry geometry_;
  bool is_multicast_;
  MirrorMemory multicast_;
  std::uint64_t limit_ = 0;
  std::atomic<std::uint64_t> number_{1};  // of the next call; needs no order
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<DeviceReport>> reports_;
};

}  // namespace tutti::test
