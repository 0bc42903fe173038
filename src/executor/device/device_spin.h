// Waiting inside a kernel. Every loop that waits for a peer can be stopped, ends by itself at a deadline, and tells the
// host whom it waits for. For host and device.
#pragma once

#include <cstdint>

#include "core/code.h"
#include "core/units.h"
#include "device/device_word.h"
#include "transport/device/device_link.h"

namespace tutti {

/// Host memory through which a rank's kernels and the host talk to each other. It is zeroed once; a failure is final.
struct DeviceReport {
  std::uint64_t stop = 0;                         ///< the host sets it to make all blocks give up
  std::uint64_t ended_waits = 0;                  ///< grows when a wait that was reported has ended
  std::uint64_t waiting[kMaxDeviceBlocks] = {};   ///< by block: the rank long waited for plus one, or 0
  std::uint64_t failures[kMaxDeviceBlocks] = {};  ///< by block: code and rank, see pack()
  std::uint64_t ended[kMaxDeviceBlocks] = {};     ///< by block: the number of the newest call that it has ended

  TUTTI_HD static std::uint64_t pack(Code code, std::int32_t peer) {
    return static_cast<std::uint64_t>(code) << 32 | static_cast<std::uint32_t>(peer + 1);
  }
  static Code code_of(std::uint64_t failure) { return static_cast<Code>(failure >> 32); }
  static Rank rank_of(std::uint64_t failure) { return Rank{static_cast<std::int32_t>(failure & 0xffffffffu) - 1}; }
};

/// What every wait of a kernel looks at besides what it waits for.
struct DeviceWatch {
  std::uint64_t* stop = nullptr;  ///< the word in device memory that stops this rank's blocks
  DeviceReport* report = nullptr;
  std::uint64_t limit = 0;  ///< how many nanoseconds one wait may last; 0 means for ever

  TUTTI_HD TUTTI_APART void fail(std::uint32_t block, Code code, std::int32_t peer) const {
    std::uint64_t* const failure = &report->failures[block];
    if (load_relaxed(failure) == 0) store_relaxed(failure, DeviceReport::pack(code, peer));
    store_relaxed(stop, 1);
  }

  /// When a wait began, as look() knows it. It is 0 until look() has asked the clock. It is even, and becomes odd when
  /// the host learns of the wait.
  using Begin = std::uint64_t;
  static constexpr Begin kGiveUp = ~Begin{0};
  TUTTI_HD static bool is_told(Begin began) { return began % 2 != 0; }

  /// A wait's look at the stop word and, if `far`, at the host's word and the clock. Returns kGiveUp if the wait has to
  /// be given up, which has been reported then.
  TUTTI_HD TUTTI_APART Begin look(std::uint32_t block, std::int32_t peer, bool far, Begin began) const {
    if (load_relaxed(stop) != 0) return kGiveUp;
    if (!far) return began;
    const std::uint64_t now = device_clock();
    if (began == 0) began = now & ~std::uint64_t{1};
    if (load_relaxed(&report->stop) != 0) {
      fail(block, Code::kAborted, peer);
      return kGiveUp;
    }
    const std::uint64_t waited = now - (began & ~std::uint64_t{1});
    if (waited >= kLong) began = tell(block, peer, began);
    if (limit == 0 || waited < limit) return began;
    fail(block, Code::kTimeout, peer);
    return kGiveUp;
  }

  TUTTI_HD void end(std::uint32_t block) const {
    store_relaxed(&report->waiting[block], 0);
    store_relaxed(&report->ended_waits, load_relaxed(&report->ended_waits) + 1);
  }

 private:
  static constexpr std::uint64_t kLong = 1'000'000;

  /// Threads of a block may wait for different ranks; the lowest is reported.
  TUTTI_HD Begin tell(std::uint32_t block, std::int32_t peer, Begin began) const {
    std::uint64_t* const word = &report->waiting[block];
    const std::uint64_t value = static_cast<std::uint64_t>(peer) + 1;
    const std::uint64_t told = load_relaxed(word);
    if (told == 0 || value < told) store_relaxed(word, value);
    return began | 1;
  }
};

/// One wait of one thread.
class DeviceSpin {
 public:
  TUTTI_HD DeviceSpin(const DeviceWatch& watch, std::uint32_t block, std::int32_t peer)
      : watch_(watch), block_(block), peer_(peer) {}

  /// Called after a look that found nothing. Returns false if the wait has to be given up.
  TUTTI_HD bool go_on() {
    device_pause(looks_);
    if (++looks_ % kLooks != 0) return true;
    began_ = watch_.look(block_, peer_, looks_ % (kLooks * kLooks) == 0, began_);
    return began_ != DeviceWatch::kGiveUp;
  }

  /// Called when what was waited for is there.
  TUTTI_HD void end() const {
    if (DeviceWatch::is_told(began_)) watch_.end(block_);
  }

 private:
  // So many polls come between two looks at the stop word, and so many of those looks between two looks at the host's
  // word and the clock. On the host the number is small, because there each poll that finds nothing gives the core
  // away, for milliseconds if the core is busy.
#if defined(__CUDA_ARCH__)
  static constexpr std::uint32_t kLooks = 32;
#else
  static constexpr std::uint32_t kLooks = 4;
#endif

  const DeviceWatch& watch_;
  std::uint32_t block_;
  std::int32_t peer_;
  std::uint32_t looks_ = 0;
  DeviceWatch::Begin began_ = 0;
};

}  // namespace tutti
