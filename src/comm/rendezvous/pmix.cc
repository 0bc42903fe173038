#include "comm/rendezvous/pmix.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tutti {
namespace {

// What pmix_common.h declares, as far as it is used here. It is the same in versions 3 to 5.
constexpr std::size_t kNameSize = 256;           // PMIX_MAX_NSLEN + 1
constexpr std::size_t kKeySize = 512;            // PMIX_MAX_KEYLEN + 1
constexpr std::uint32_t kWholeJob = 0xfffffffe;  // PMIX_RANK_WILDCARD
constexpr std::uint8_t kGlobal = 3;              // PMIX_GLOBAL
constexpr int kSuccess = 0, kErrTimeout = -24, kErrUnreachable = -25, kErrNotFound = -46;
enum PmixType : std::uint16_t { kBool = 1, kString = 3, kInt = 6, kUint32 = 14 };

struct Process {
  char job[kNameSize];
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    int integer;
    std::uint32_t uint32;
    void* largest[3];  // as large as an environment variable, which is two pointers and a character
  } data;
};
struct Info {
  char key[kKeySize];
  std::uint32_t flags;
  Value value;
};
static_assert(sizeof(Process) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552);

struct Library {
  int (*init)(Process*, Info*, std::size_t) = nullptr;
  int (*finalize)(const Info*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Process*, const char*, const Info*, std::size_t, Value**) = nullptr;
  const char* (*error_string)(int) = nullptr;
  std::string why_not;
};

template <class Function>
void find(void* handle, const char* name, Function* function, std::string* why_not) {
  *function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (*function == nullptr) *why_not = fmt::format("libpmix.so.2 has no {}", name);
}

Library open_library() {
  Library library;
  void* const handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): it is the text of this thread
    library.why_not = why == nullptr ? "libpmix.so.2 cannot be loaded" : why;
    return library;
  }
  find(handle, "PMIx_Init", &library.init, &library.why_not);
  find(handle, "PMIx_Finalize", &library.finalize, &library.why_not);
  find(handle, "PMIx_Put", &library.put, &library.why_not);
  find(handle, "PMIx_Commit", &library.commit, &library.why_not);
  find(handle, "PMIx_Get", &library.get, &library.why_not);
  find(handle, "PMIx_Error_string", &library.error_string, &library.why_not);
  return library;
}

/// The library is opened once and never closed, because it has threads and hooks of its own.
const Library& library() {
  static const Library opened = open_library();
  return opened;
}

Process process_of(const std::string& job, std::uint32_t rank) {
  Process process{};
  std::strncpy(process.job, job.c_str(), kNameSize - 1);
  process.rank = rank;
  return process;
}

Info info_of(const char* key, PmixType type) {
  Info info{};
  std::strncpy(info.key, key, kKeySize - 1);
  info.value.type = type;
  return info;
}

/// Gets a text. PMIx returns values that the caller frees.
int get_string(const Process& process, const char* key, const Info* info, std::string* text) {
  Value* value = nullptr;
  const int code = library().get(&process, key, info, info == nullptr ? 0 : 1, &value);
  if (code != kSuccess || value == nullptr) return code == kSuccess ? kErrNotFound : code;
  const bool right = value->type == kString && value->data.string != nullptr;
  if (right) *text = value->data.string;
  if (right) std::free(value->data.string);
  std::free(value);
  return right ? kSuccess : kErrNotFound;
}

Status failed(const char* call, int code) {
  return fail(Code::kSystemError, "{}: {} ({})", call, library().error_string(code), code);
}

}  // namespace

PmixSession::~PmixSession() {
  if (open_) library().finalize(nullptr, 0);
}

Status PmixSession::open() {
  if (!library().why_not.empty()) return fail(Code::kUnsupported, "{}", library().why_not);
  Process me{};
  const int code = library().init(&me, nullptr, 0);
  if (code == kErrUnreachable) return fail(Code::kSystemError, "PMIx_Init does not reach its server");
  if (code != kSuccess) return failed("PMIx_Init", code);
  open_ = true;
  job_.assign(me.job, ::strnlen(me.job, kNameSize));
  rank_ = me.rank;
  return {};
}

std::uint32_t PmixSession::rank() const { return rank_; }

Status PmixSession::ranks(int* count) const {
  const Process all = process_of(job_, kWholeJob);
  Value* value = nullptr;
  const int code = library().get(&all, "pmix.job.size", nullptr, 0, &value);
  if (code != kSuccess || value == nullptr) return failed("PMIx_Get of the job's size", code);
  const bool right = value->type == kUint32 && value->data.uint32 >= 1 && value->data.uint32 <= 1U << 30;
  if (right) *count = static_cast<int>(value->data.uint32);
  std::free(value);
  return right ? Status() : fail(Code::kRemoteError, "the PMIx server gives a job's size that makes no sense");
}

Status PmixSession::publish(const std::string& key, const std::string& value) {
  std::string copy = value;
  Value passed{};
  passed.type = kString;
  passed.data.string = copy.data();
  if (const int code = library().put(kGlobal, key.c_str(), &passed); code != kSuccess) return failed("PMIx_Put", code);
  const int code = library().commit();
  return code == kSuccess ? Status() : failed("PMIx_Commit", code);
}

/// Whether one server serves both this process and rank 0.
bool PmixSession::rank_0_is_here() const {
  std::string peers;
  if (get_string(process_of(job_, kWholeJob), "pmix.lpeers", nullptr, &peers) != kSuccess) return false;
  return peers == "0" || peers.starts_with("0,");
}

/// If rank 0 is a process of this server, the server is asked for an immediate answer again and again, because a server
/// that waits may miss what a process publishes that has left PMIx and come back in between (seen in 4.2.2). If not,
/// the server asks that of rank 0, and waits there for a second at a time.
Status PmixSession::fetch(const std::string& key, Deadline deadline, std::string* value) const {
  const bool here = rank_0_is_here();
  Info directive = here ? info_of("pmix.immediate", kBool) : info_of("pmix.timeout", kInt);
  if (here)
    directive.value.data.flag = true;
  else
    directive.value.data.integer = 1;
  const Process root = process_of(job_, 0);
  constexpr std::chrono::milliseconds kLongestPause{50};
  for (std::chrono::nanoseconds pause = std::chrono::milliseconds(1);;
       pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestPause)) {
    const int code = get_string(root, key.c_str(), &directive, value);
    if (code == kSuccess) return {};
    if (code != kErrNotFound && code != kErrTimeout) return failed("PMIx_Get", code);
    if (deadline.passed())
      return fail(Code::kTimeout, "rank 0 did not publish the unique id before the join's deadline");
    std::this_thread::sleep_for(deadline.left(pause));
  }
}

}  // namespace tutti
