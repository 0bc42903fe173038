// Memory of several devices that one store reaches: what is announced to all ranks of a communicator is written once,
// and each rank reads it on its own device.
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
  kMulticast = 1,  ///< by a multicast object: each rank has a mirror on its device
  kMapped = 2,  ///< by a second address of one memory: all ranks read it, of whatever devices. A check for one device.
};

/// What all ranks do, of what each would; kInvalidArgument: they were not told the same. `numbers`: what the
/// communicator calls them, empty: the same.
Status choose_mirrors(std::span<const MulticastKind> wishes, std::span<const int> numbers, MulticastKind* kind);

/// The mirrors of one communicator's ranks, which are all of one process. Zero at first.
class MulticastBuffer {
 public:
  /// `devices`: by rank. All mirrors are there then, or none. May wait for running kernels.
  static Status make(DeviceMappings& mappings, MulticastKind kind, std::vector<int> devices, Bytes bytes,
                     std::unique_ptr<MulticastBuffer>* made);
  ~MulticastBuffer();
  MulticastBuffer(const MulticastBuffer&) = delete;
  MulticastBuffer& operator=(const MulticastBuffer&) = delete;

  MulticastKind kind() const { return kind_; }
  /// For loads of a rank's kernels; and for their stores, which reach all mirrors.
  std::byte* to_read(Rank rank) const { return static_cast<std::byte*>(copy_of(rank).read); }
  std::byte* to_write(Rank rank) const { return static_cast<std::byte*>(copy_of(rank).written); }
  /// Device memory that the rank's mirror takes.
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
  std::vector<int> devices_;  // by rank, or each once
  Bytes bytes_;               // of each copy
  DeviceMappings::Handle object_ = 0;
  std::vector<Copy> copies_;  // by rank, or one for all
};

}  // namespace tutti
