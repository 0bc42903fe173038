#include "comm/join/secret_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "core/mutex.h"
#include "net/descriptor.h"

namespace tutti {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::size_t kLeastBytes = 16;

Status check_owner(int file, const std::string& path) {
  struct stat state {};
  if (::fstat(file, &state) != 0 || !S_ISREG(state.st_mode))
    return fail(Code::kInvalidUsage, "TUTTI_SECRET_FILE {} is not a plain file", path);
  if ((state.st_mode & 077) != 0)
    return fail(Code::kInvalidUsage, "TUTTI_SECRET_FILE {} is open to other users: chmod 600", path);
  if (state.st_uid != ::geteuid())
    return fail(Code::kInvalidUsage,
                "TUTTI_SECRET_FILE {} belongs to user {}, who can read it; this process runs as {}", path, state.st_uid,
                ::geteuid());
  return {};
}

Status read_content(const std::string& path, std::vector<std::byte>* content) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return fail(Code::kInvalidUsage, "cannot open TUTTI_SECRET_FILE {}: {}", path, errno_text());
  TUTTI_TRY(check_owner(file.get(), path));
  content->resize(kMostBytes + 1);
  const ssize_t got = ::read(file.get(), content->data(), content->size());
  if (got < 0) return fail(Code::kInvalidUsage, "cannot read TUTTI_SECRET_FILE {}: {}", path, errno_text());
  const auto size = static_cast<std::size_t>(got);
  if (size < kLeastBytes)
    return fail(Code::kInvalidUsage, "TUTTI_SECRET_FILE {} has less than {} bytes", path, kLeastBytes);
  if (size > kMostBytes)
    return fail(Code::kInvalidUsage, "TUTTI_SECRET_FILE {} has more than {} bytes", path, kMostBytes);
  content->resize(size);
  return {};
}

/// The key of the file that this process read last, and a hash of the file's content.
struct Stretched {
  Mutex mutex;
  bool known TUTTI_GUARDED_BY(mutex) = false;
  Key hash TUTTI_GUARDED_BY(mutex){};
  Key key TUTTI_GUARDED_BY(mutex){};
  /// It is never destroyed, because threads may join while the process ends.
  static Stretched& get() {
    static Stretched* const instance = [] {
      ::pthread_atfork(lock, unlock, unlock);  // a child may join, too
      return new Stretched;
    }();
    return *instance;
  }
  static void lock() TUTTI_ACQUIRE(get().mutex) { get().mutex.lock(); }
  static void unlock() TUTTI_RELEASE(get().mutex) { get().mutex.unlock(); }
};

}  // namespace

Status secret_file_key(const std::string& path, Key* key) {
  std::vector<std::byte> content;
  Status status = read_content(path, &content);
  Key hash;
  if (status.ok()) status = hmac_sha256(bytes_of("tutti secret file"), {content}, &hash);
  if (status.ok()) {
    Stretched& last = Stretched::get();
    const MutexLock lock(last.mutex);
    if (!last.known || !equal_secret(last.hash, hash)) {
      last.known = false;
      status = stretch(content, &last.key);
      last.hash = hash;
      last.known = status.ok();
    }
    if (status.ok()) *key = last.key;
  }
  wipe(content);
  return status;
}

Status mix_secret_file(const std::string& path, UniqueId* id) {
  if (path.empty()) return {};
  Key key;
  TUTTI_TRY(secret_file_key(path, &key));
  const Key carried = id->secret;
  return hmac_sha256(key, {bytes_of("tutti id with file"), carried}, &id->secret);
}

}  // namespace tutti
