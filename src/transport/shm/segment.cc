#include "transport/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <utility>

#include "net/descriptor.h"

namespace tutti {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// It is mapped with MAP_NORESERVE, because a segment is far larger than what is touched of it.
Status map_shared(int descriptor, Bytes bytes, std::byte** data) {
  void* address = ::mmap(nullptr, bytes.value, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (address == MAP_FAILED) {
    const char* hint = errno == ENOMEM ? " (address space limit: see ulimit -v and vm.max_map_count)" : "";
    return fail(Code::kSystemError, "cannot map {} bytes of shared memory: {}{}", bytes.value, errno_text(), hint);
  }
  *data = static_cast<std::byte*>(address);
  return {};
}

}  // namespace

Status Segment::create(Bytes bytes, std::shared_ptr<Segment>* segment) {
  if (bytes.value == 0) return fail(Code::kInternalError, "a segment of 0 bytes");
  Descriptor descriptor(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) {
    const char* hint = errno == EMFILE ? " (see ulimit -n)" : "";
    return fail(Code::kSystemError, "cannot create shared memory (memfd): {}{}", errno_text(), hint);
  }
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes.value)) != 0) {
    const char* hint = errno == EFBIG ? " (see ulimit -f)" : "";
    return fail(Code::kSystemError, "cannot size shared memory to {} bytes: {}{}", bytes.value, errno_text(), hint);
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0)
    return fail(Code::kSystemError, "cannot seal shared memory: {}", errno_text());
  std::byte* data = nullptr;
  TUTTI_TRY(map_shared(descriptor.get(), bytes, &data));
  segment->reset(new Segment(descriptor.release(), data, bytes));
  return {};
}

Status Segment::adopt(int descriptor, Bytes bytes, std::shared_ptr<Segment>* segment) {
  Descriptor owned(descriptor);
  struct stat found {};
  if (::fstat(owned.get(), &found) != 0)
    return fail(Code::kSystemError, "cannot examine a peer's shared memory: {}", errno_text());
  if (!S_ISREG(found.st_mode) || found.st_nlink != 0)
    return fail(Code::kSystemError, "a peer's shared memory is not an anonymous memory file");
  // If it were made of huge pages that nobody has reserved, the first touch could raise a signal.
  struct statfs system {};
  if (::fstatfs(owned.get(), &system) != 0 || system.f_type != TMPFS_MAGIC)
    return fail(Code::kSystemError, "a peer's shared memory is not made of ordinary pages");
  if (static_cast<std::size_t>(found.st_size) != bytes.value)
    return fail(Code::kSystemError, "a peer's shared memory has {} bytes, not {}", found.st_size, bytes.value);
  const int seals = ::fcntl(owned.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(Code::kSystemError, "a peer's shared memory is not sealed against changes of its size");
  std::byte* data = nullptr;
  TUTTI_TRY(map_shared(owned.get(), bytes, &data));
  segment->reset(new Segment(owned.release(), data, bytes));
  return {};
}

std::shared_ptr<Segment> Segment::part(std::shared_ptr<Segment> whole, Bytes front, Bytes offset, Bytes bytes) {
  const std::size_t size = whole->size().value;
  const auto holds = [size](Bytes from, Bytes length) {
    return from.value <= size && length.value <= size - from.value;
  };
  if (!holds(offset, bytes) || !holds(front, kFrontBytes)) return nullptr;
  std::shared_ptr<Segment> made(new Segment(-1, whole->data() + offset.value, bytes));
  made->front_ = whole->data() + front.value;
  made->whole_ = std::move(whole);
  return made;
}

Segment::~Segment() {
  if (whole_) return;
  ::munmap(data_, size_.value);
  ::close(descriptor_);
}

}  // namespace tutti
