// Memory of several devices that one store reaches. What is announced to all ranks of a communicator is written once,
// and each rank reads it in the copy on its own device, which is called its mirror.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/status.h"
#include "core/units.h"
#include "device/device_mappings.h"

namespace tutti {

/// How stores reach the ranks.
enum class MulticastKind : std::uint32_t {
  kNone = 0,       ///< there are no mirrors
  kMulticast = 1,  ///< by a multicast object; each rank has a mirror on its device
  kMapped = 2,     ///< by a second address of one memory, which all ranks read; made for tests on a single device
};

/// Concludes from what each rank would do what all do. Fails with kInvalidArgument if only some have
/// TUTTI_MULTICAST=mapped. `numbers` are the ranks' numbers in the communicator; if empty, they are the same.
Status choose_mirrors(std::span<const MulticastKind> wishes, std::span<const int> numbers, MulticastKind* kind);

/// The mirrors of one communicator's ranks, which are all of one process. They are zeroed.
class MulticastBuffer {
 public:
  /// Makes all mirrors, or none if it fails. `devices` are by rank. May wait for running kernels.
  static Status make(DeviceMappings& mappings, MulticastKind kind, std::vector<int> devices, Bytes bytes,
                     std::unique_ptr<MulticastBuffer>* made);
  ~MulticastBuffer();
  MulticastBuffer(const MulticastBuffer&) = delete;
  MulticastBuffer& operator=(const MulticastBuffer&) = delete;

  MulticastKind kind() const { return kind_; }
  /// The addresses for loads of a rank's kernels, and for their stores, which reach all mirrors.
  std::byte* to_read(Rank rank) const { return static_cast<std::byte*>(copy_of(rank).read); }
  std::byte* to_write(Rank rank) const { return static_cast<std::byte*>(copy_of(rank).written); }
  /// How much device memory the rank's mirror takes.
  Bytes bytes_of(Rank rank) const;

 private:
  struct Copy {
    int device = -1;
    DeviceMappings::Handle memory = 0;
    void* read = nullptr;
    void* written = nullptr;
    bool is_bound = false;
  };
  MulticastBuffer(DeviceMappings& mappings, MulticastKind kind, std::vector<int> devices)
      : mappings_(mappings), kind_(kind), devices_(std::move(devices)) {}
  Status open(Bytes bytes);
  Status open_copy(Copy* copy);
  const Copy& copy_of(Rank rank) const;

  DeviceMappings& mappings_;
  const MulticastKind kind_;
  std::vector<int> devices_;  // by rank; with kMapped each device once
  Bytes bytes_;               // of each copy
  DeviceMappings::Handle object_ = 0;
  std::vector<Copy> copies_;  // by rank; with kMapped one for all
};

}  // namespace tutti
