// Device memory of the stand-in that other processes map: memfds, which they find through /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support/device/stand_in_driver.h"

namespace tutti::test {

namespace {
struct Exported {
  std::uint64_t magic = 0x7475747469646576;
  std::int64_t process = 0;
  std::int64_t descriptor = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t id = 0;
};
static_assert(sizeof(Exported) <= sizeof(DeviceDriver::Handle));

Status map(int descriptor, std::size_t bytes, void** memory) {
  *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (*memory != MAP_FAILED) return {};
  ::close(descriptor);
  return fail(Code::kUnhandledCudaError, "mapping device memory: {}", errno_text());
}
}  // namespace

void StandInDriver::be_seen_as(int gpu) { first_gpu_ = gpu; }

Status StandInDriver::identify(int device, Identity* identity) {
  count("identify");
  TUTTI_TRY(failure("identify"));
  identity->uuid[0] = static_cast<std::byte>(std::max(first_gpu_.load(), 0) + device + 1);
  identity->concurrent_processes = mps_;
  return {};
}

Status StandInDriver::take_shared(std::size_t bytes, int device, void** memory) {
  const std::size_t whole = round_up(bytes, 4096);
  const int descriptor = ::memfd_create("tutti-test-device", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(whole)) != 0)
    return fail(Code::kUnhandledCudaError, "allocate: {}", errno_text());
  TUTTI_TRY(map(descriptor, whole, memory));
  const std::lock_guard lock(mutex_);
  memories_[static_cast<const std::byte*>(*memory)] =
      Memory{whole, device, nullptr, descriptor, false, false, ++last_memory_};
  return {};
}

void StandInDriver::unmap(void* memory, std::size_t bytes, int descriptor) {
  ::munmap(memory, bytes);
  ::close(descriptor);
}

std::size_t StandInDriver::mappings() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(memories_.begin(), memories_.end(), [](const auto& item) { return item.second.foreign; }));
}

DeviceDriver::Place StandInDriver::place_of(const void* memory, Allocation* allocation) {
  *allocation = Allocation{};
  const Place place = place_of(memory);
  if (place.device < 0) return place;
  const std::lock_guard lock(mutex_);
  const std::byte* begin = nullptr;
  if (const Memory* const known = find(memory, &begin); known != nullptr) {
    const bool exportable = known->device >= 0 && !known->pooled && !known->foreign;
    *allocation = Allocation{const_cast<std::byte*>(begin), known->bytes, known->id, known->device, exportable};
  } else {
    *allocation = Allocation{static_cast<std::byte*>(const_cast<void*>(memory)), 1, 0, place.device, true};
  }
  return place;
}

Status StandInDriver::export_memory(int, void* memory, Handle* handle) {
  count("export_memory");
  TUTTI_TRY(failure("export_memory"));
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(static_cast<const std::byte*>(memory));
  if (found == memories_.end() || found->second.descriptor < 0 || found->second.foreign)
    return fail(Code::kUnhandledCudaError, "export_memory: invalid argument");
  Exported exported;
  exported.process = ::getpid();
  exported.descriptor = found->second.descriptor;
  exported.bytes = found->second.bytes;
  exported.address = reinterpret_cast<std::uintptr_t>(memory);
  exported.id = found->second.id;
  std::memcpy(handle->data(), &exported, sizeof exported);
  return {};
}

// As a driver does: what lay at that address of the other process before has to be closed first.
bool StandInDriver::is_in_the_way(const Memory& memory, const std::uint64_t (&origin)[3]) {
  return memory.foreign && memory.origin[0] == origin[0] && memory.origin[1] == origin[1] &&
         memory.origin[2] != origin[2];
}

Status StandInDriver::open_memory(int device, const Handle& handle, void** memory) {
  count("open_memory");
  TUTTI_TRY(failure("open_memory"));
  Exported exported;
  std::memcpy(&exported, handle.data(), sizeof exported);
  if (exported.magic != Exported{}.magic || exported.process == ::getpid())
    return fail(Code::kUnhandledCudaError, "open_memory: invalid resource handle");
  const std::uint64_t origin[] = {static_cast<std::uint64_t>(exported.process), exported.address, exported.id};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, known] : memories_)
      if (is_in_the_way(known, origin)) return fail(Code::kUnhandledCudaError, "open_memory: already mapped");
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", exported.process, exported.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat state {};
  if (descriptor < 0 || ::fstat(descriptor, &state) != 0 || static_cast<std::uint64_t>(state.st_size) != exported.bytes)
    return fail(Code::kUnhandledCudaError, "open_memory: {}", errno_text());
  TUTTI_TRY(map(descriptor, exported.bytes, memory));
  const std::lock_guard lock(mutex_);
  Memory& made = memories_[static_cast<const std::byte*>(*memory)];
  made = Memory{exported.bytes, device, nullptr, descriptor, true, false, ++last_memory_};
  std::copy_n(origin, 3, made.origin);
  return {};
}

Status StandInDriver::close_memory(int, void* memory) {
  count("close_memory");
  ++waits_for_kernels_;
  const CallLock call = begin_waiting_call();
  return give_back(memory);
}

}  // namespace tutti::test
