#include "device/cuda_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti {

namespace {

/// cuDeviceGetCount, which fails while nobody has called cuInit.
using CountDevices = int (*)(int* count);

/// How many libraries were loaded so far. This costs a lock and a load, while to look for a library by its name takes
/// microseconds.
std::uint64_t libraries_loaded() {
  std::uint64_t loaded = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = info->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

/// Returns nullptr if nobody has loaded the driver's library. Once found, it is kept loaded.
CountDevices find_library() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<CountDevices>(::dlsym(library, "cuDeviceGetCount"));
}

}  // namespace

// Several threads may find the library at the same time; they store the same.
bool cuda_is_in_use() {
  static std::atomic<bool> used{false};               // needs no order, as nothing is read because of it
  static std::atomic<CountDevices> library{nullptr};  // release once it is found, pairs with the acquire below
  static std::atomic<std::uint64_t> looked_at{0};     // libraries at the last look; needs no order
  if (used.load(std::memory_order_relaxed)) return true;
  CountDevices count = library.load(std::memory_order_acquire);
  if (count == nullptr) {
    const std::uint64_t loaded = libraries_loaded();
    if (looked_at.load(std::memory_order_relaxed) == loaded) return false;
    count = find_library();
    looked_at.store(loaded, std::memory_order_relaxed);
    if (count == nullptr) return false;
    library.store(count, std::memory_order_release);
  }
  int devices = 0;
  if (count(&devices) != 0 || devices == 0) return false;
  used.store(true, std::memory_order_relaxed);
  return true;
}

// The signs are those of Linux's driver, of WSL's and of those of systems on a chip.
bool cuda_is_installed() {
  constexpr const char* kSigns[] = {"/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg", "/dev/nvhost-ctrl-gpu",
                                    "/dev/nvmap"};
  static const bool installed =
      std::any_of(std::begin(kSigns), std::end(kSigns), [](const char* sign) { return ::access(sign, F_OK) == 0; });
  return installed || cuda_is_in_use();
}

}  // namespace tutti
