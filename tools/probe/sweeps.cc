#include "probe/sweeps.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/settings.h"

extern char** environ;

namespace tutti::probe {
namespace {

constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "broadcast"};
constexpr int kMostRanksMeasured = 8;

/// A temporary folder, which is removed with the object.
class Workplace {
 public:
  Workplace() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-probe-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Workplace() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Runs a program and hides its output, but not its errors.
Status run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail(Code::kSystemError, "{} cannot be run: {}", words[0], errno_text(error));
  int end = 0;
  while (::waitpid(child, &end, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) return fail(Code::kSystemError, "{} failed", words[0]);
  return {};
}

}  // namespace

Status measure_sweeps(const std::string& perf, std::vector<Cell>* cells) {
  const std::string program =
      !perf.empty() ? perf : (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tutti-perf").string();
  if (::access(program.c_str(), X_OK) != 0)
    return fail(Code::kInvalidArgument, "there is no program {}: name tutti-perf with --perf", program);
  const Workplace workplace;
  if (workplace.path().empty()) return fail(Code::kSystemError, "there is no folder for temporary files");
  const int crowd = std::clamp(2 * usable_cores(), 3, kMostRanksMeasured);
  const std::string path = workplace.path() + "/sweep.json";
  for (const char* const transport : {"shm", "tcp"}) {
    for (const int ranks : {2, crowd}) {
      for (const char* const collective : kCollectives) {
        // The sizes are 8 B, 1 KiB and 128 KiB. There processors, not memory, are the limit, and the choice matters.
        TUTTI_TRY(run({program, collective, "--sweep", "--ranks", std::to_string(ranks), "--transport", transport, "-b",
                       "8", "-e", "128K", "-f", "128", "-n", "50", "-c", "0", "-J", path}));
        TUTTI_TRY(read_sweep(path, cells));
      }
    }
  }
  return {};
}

}  // namespace tutti::probe
