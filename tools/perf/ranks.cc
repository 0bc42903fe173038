#include "ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpu.h"

namespace tutti::perf {
namespace {

constexpr int kExecFailed = 127;
constexpr auto kGrace = std::chrono::seconds(3);  // so long survivors have to print the cause that they hear of

struct Child {
  pid_t pid = -1;
  int rank = 0;
  bool running = true;
};

tuttiConfig_t config_of(const Options& options) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (options.timeout_seconds >= 0) config.timeoutSeconds = options.timeout_seconds;
  config.wireType = options.wire;
  if (options.deterministic) config.deterministic = 1;
  config.commName = "perf";
  return config;
}

int fail_join(int rank, tuttiResult_t code) {
  std::fprintf(stderr, "tutti-perf: rank %d cannot join: %s: %s\n", rank, tuttiGetErrorString(code),
               tuttiGetLastError(nullptr));
  return kFailed;
}

/// With -g, makes the rank use its device before it joins, because the library offers device buffers only if a device
/// is in use then. Returns 0 or the exit code.
int take_device(const Options& options, int rank) {
  if (options.gpu.devices == 0) return 0;
  std::string why;
  Gpu* const gpu = find_gpu(&why);
  if (gpu != nullptr && gpu->use(device_of(options, rank)) == tuttiSuccess) return 0;
  std::fprintf(stderr, "tutti-perf: rank %d: device %d: %s\n", rank, device_of(options, rank),
               gpu == nullptr ? why.c_str() : gpu_fault().c_str());
  return kFailed;
}

/// After a failure in the middle the rank aborts, because destroying is collective, and the failure may be this rank's
/// alone.
int leave(tuttiComm_t comm, int code) {
  if (code == kFailed) {
    tuttiCommAbort(comm);
    return code;
  }
  const tuttiResult_t left = tuttiCommDestroy(comm);
  if (left == tuttiSuccess) return code == kFailedInOrder ? kFailed : code;
  std::fprintf(stderr, "tutti-perf: leaving: %s: %s\n", tuttiGetErrorString(left), tuttiGetLastError(nullptr));
  return 1;
}

/// Makes a pipe that holds the unique id and whose read end a child inherits, so that the id is never in arguments or
/// environment.
bool make_id_pipe(const tuttiUniqueId& id, int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  return write(ends[1], id.internal, sizeof id.internal) == static_cast<ssize_t>(sizeof id.internal);
}

[[noreturn]] void become_child(pid_t parent, int id_fd, std::vector<char*>& arguments) {
  // Only async-signal-safe calls: the parent has threads.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);  // the parent died before the line above
  fcntl(id_fd, F_SETFD, 0);
  execv("/proc/self/exe", arguments.data());
  _exit(kExecFailed);
}

pid_t start_child(int rank, int ranks, const tuttiUniqueId& id, int argc, char** argv) {
  int ends[2] = {-1, -1};
  if (!make_id_pipe(id, ends)) return -1;
  std::vector<std::string> words(argv, argv + argc);
  const std::pair<const char*, int> added[] = {
      {"--child-ranks=", ranks}, {"--child-rank=", rank}, {"--child-id-fd=", ends[0]}};
  for (const auto& [option, value] : added) words.push_back(option + std::to_string(value));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_child(parent, ends[0], arguments);
  close(ends[0]);
  close(ends[1]);
  return pid;
}

int exit_code_of(int status, const Child& child) {
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == kExecFailed) std::fprintf(stderr, "tutti-perf: rank %d could not be started\n", child.rank);
    return code == kExecFailed ? 1 : code;
  }
  std::fprintf(stderr, "tutti-perf: rank %d (process %d) was ended by signal %d (%s)\n", child.rank,
               static_cast<int>(child.pid), WTERMSIG(status), strsignal(WTERMSIG(status)));
  return 1;
}

void kill_running(const std::vector<Child>& children, int signal) {
  for (const Child& child : children) {
    if (child.running) kill(child.pid, signal);
  }
}

/// Waits for one child until `deadline`, or for ever if that is the epoch. Returns false at the deadline.
bool wait_for_one(std::vector<Child>& children, std::chrono::steady_clock::time_point deadline, int* code) {
  const bool forever = deadline == std::chrono::steady_clock::time_point{};
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, forever ? 0 : WNOHANG)) <= 0) {
    if (pid < 0 && errno != EINTR) return false;
    if (!forever && std::chrono::steady_clock::now() >= deadline) return false;
    if (pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (Child& child : children) {
    if (child.pid != pid) continue;
    child.running = false;
    *code = exit_code_of(status, child);
  }
  return true;
}

/// After the first failure the others have kGrace to end.
int wait_for_all(std::vector<Child>& children) {
  int result = 0;
  std::chrono::steady_clock::time_point deadline{};
  for (std::size_t left = children.size(); left > 0; --left) {
    int code = 0;
    if (!wait_for_one(children, deadline, &code)) {
      kill_running(children, SIGKILL);
      deadline = {};
      ++left;  // nobody was taken away in this round
      continue;
    }
    if (code != 0 && result == 0) {
      result = code;
      deadline = std::chrono::steady_clock::now() + kGrace;
    }
  }
  return result;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

}  // namespace

const char* launcher_name() {
  if (is_set("OMPI_COMM_WORLD_RANK")) return "Open MPI";
  if (is_set("RANK") && is_set("WORLD_SIZE")) return "torchrun";
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) return "Slurm";
  if (is_set("PMI_RANK") || is_set("PMI_PORT")) return "MPICH";
  if (is_set("PMIX_RANK")) return "PMIx";
  return nullptr;
}

int device_of(const Options& options, int rank) {
  int local = rank;
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"}) {
    if (launcher_name() == nullptr || !is_set(name)) continue;
    local = std::atoi(std::getenv(name));
    break;
  }
  return local % options.gpu.devices;
}

int default_ranks() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

int run_processes(int ranks, int argc, char** argv) {
  tuttiUniqueId id;
  const tuttiResult_t made = tuttiGetUniqueId(&id);
  if (made != tuttiSuccess) return fail_join(0, made);
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = start_child(rank, ranks, id, argc, argv);
    if (pid < 0) {
      std::fprintf(stderr, "tutti-perf: cannot start rank %d: %s\n", rank, std::strerror(errno));
      kill_running(children, SIGKILL);
      wait_for_all(children);
      return 1;
    }
    children.push_back({pid, rank});
  }
  return wait_for_all(children);
}

int run_child(const Options& options, const RankBody& body) {
  tuttiUniqueId id;
  std::size_t have = 0;
  while (have < sizeof id.internal) {
    const ssize_t got = read(options.child_id_fd, id.internal + have, sizeof id.internal - have);
    if (got <= 0) return fail_join(options.child_rank, tuttiSystemError);
    have += static_cast<std::size_t>(got);
  }
  close(options.child_id_fd);
  if (const int failed = take_device(options, options.child_rank); failed != 0) return failed;
  const tuttiConfig_t config = config_of(options);
  tuttiComm_t comm = nullptr;
  const tuttiResult_t joined = tuttiCommInitRankConfig(&comm, options.child_ranks, id, options.child_rank, &config);
  if (joined != tuttiSuccess) return fail_join(options.child_rank, joined);
  return leave(comm, body(comm, options.child_rank, options.child_ranks, "processes"));
}

namespace {
/// Runs one rank of run_threads().
int run_thread(int rank, int ranks, const tuttiUniqueId& id, const Options& options, const RankBody& body) {
  if (const int failed = take_device(options, rank); failed != 0) return failed;
  const tuttiConfig_t config = config_of(options);
  tuttiComm_t comm = nullptr;
  const tuttiResult_t joined = tuttiCommInitRankConfig(&comm, ranks, id, rank, &config);
  if (joined != tuttiSuccess) return fail_join(rank, joined);
  return leave(comm, body(comm, rank, ranks, "threads"));
}
}  // namespace

int run_threads(int ranks, const Options& options, const RankBody& body) {
  // The devices are started before any rank joins, so that none waits for a rank whose device does not start.
  for (int rank = 0; rank < std::min(ranks, options.gpu.devices); ++rank) {
    if (const int failed = take_device(options, rank); failed != 0) return failed;
  }
  tuttiUniqueId id;
  const tuttiResult_t made = tuttiGetUniqueId(&id);
  if (made != tuttiSuccess) return fail_join(0, made);
  std::atomic<int> result = 0;  // the joins of the threads give the order, so relaxed would do
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const int code = run_thread(rank, ranks, id, options, body);
      if (code != 0) result = code;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

int run_launched(const Options& options, const RankBody& body) {
  if (const int failed = take_device(options, 0); failed != 0) return failed;
  const tuttiConfig_t config = config_of(options);
  tuttiComm_t comm = nullptr;
  const tuttiResult_t joined = tuttiCommInitUrl(&comm, "env://", -1, -1, &config);
  if (joined != tuttiSuccess) return fail_join(-1, joined);
  int rank = 0, ranks = 1;
  if (tuttiCommUserRank(comm, &rank) != tuttiSuccess || tuttiCommCount(comm, &ranks) != tuttiSuccess) {
    return leave(comm, 1);
  }
  return leave(comm, body(comm, rank, ranks, "from a launcher"));
}

}  // namespace tutti::perf
