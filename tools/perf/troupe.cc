#include "troupe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

namespace tutti::perf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kSlice = 50;  // milliseconds between two looks for processes that ended
constexpr milliseconds kTroupeGrace{3000};
constexpr off_t kLastWords = 2000;

[[noreturn]] void become(pid_t parent, int parents_end, int output, std::vector<char*>& arguments) {
  prctl(PR_SET_PDEATHSIG, parents_end);
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);  // or launchers would read the caller's input
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) return std::string("was ended by signal ") + std::to_string(WTERMSIG(status));
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

bool has_ended(int pidfd) {
  pollfd one{pidfd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

/// Whether a signal or a debugger has stopped it.
bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t state = line.rfind(") ");  // the name before it may have any characters
  return state != std::string::npos && state + 2 < line.size() && (line[state + 2] == 'T' || line[state + 2] == 't');
}

}  // namespace

Troupe::Troupe(std::string name, peers::OwnStage* stage, int group, milliseconds wait)
    : name_(std::move(name)), stage_(stage), group_(group), wait_(wait) {}

Troupe::~Troupe() {
  end_all();
  for (const int pidfd : watched_)
    if (pidfd >= 0) close(pidfd);
  if (output_ >= 0) close(output_);
}

bool Troupe::start(const std::vector<std::string>& command, bool launched, std::string* text) {
  output_ = memfd_create("output", MFD_CLOEXEC);
  launched_ = launched;
  const int starts = launched ? 1 : (*stage_)->ranks;
  for (int i = 0; i < starts; ++i) {
    const pid_t pid = fork_one(command, launched ? -1 : i);
    if (pid < 0) return *text = name_ + ": cannot start a process: " + std::strerror(errno), false;
    started_.push_back(pid);
  }
  if (!wait_for_all("joining", text)) return false;
  watch();
  return is_good("joining", text);
}

pid_t Troupe::fork_one(std::vector<std::string> command, int rank) {
  command.insert(command.end(), {stage_->memory_path(), stage_->life_path(), std::to_string(group_)});
  if (rank >= 0) command.push_back(std::to_string(rank));
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  // SIGTERM is enough for a launcher: it cleans up when it is asked to end, and does end, because its ranks do.
  if (pid == 0) become(parent, rank < 0 ? SIGTERM : SIGKILL, output_, arguments);
  return pid;
}

bool Troupe::give(const peers::Order& order, const std::string& meaning, Figures* figures, std::string* text) {
  group().order = order;
  group().orders.store(++orders_, std::memory_order_release);
  peers::wake_all(group().orders);
  // A block may take longer than a rank may be silent. The time of the operations before says how much longer.
  const std::chrono::duration<double> expected(2 * operation_seconds_ * order.iterations);
  if (!wait_for_all(meaning, text, std::chrono::duration_cast<milliseconds>(expected)) || !is_good(meaning, text))
    return false;
  *figures = {};
  double begin = group().reports[0].begin, end = group().reports[0].end;
  for (int rank = 0; rank < (*stage_)->ranks; ++rank) {
    const peers::Report& report = group().reports[rank];
    begin = std::min(begin, report.begin);
    end = std::max(end, report.end);
    figures->wrong += report.wrong;
    figures->disturbed = figures->disturbed || report.disturbed;
  }
  figures->seconds = operation_seconds_ = (end - begin) / std::max(order.iterations, 1);
  return true;
}

bool Troupe::offers(race::Contested what) const { return (group().offers >> static_cast<unsigned>(what) & 1U) != 0; }

bool Troupe::wait_for_all(const std::string& meaning, std::string* text, milliseconds more) {
  const std::uint32_t all = static_cast<std::uint32_t>((*stage_)->ranks) * (orders_ + 1);
  const auto deadline = steady_clock::now() + wait_ + more;
  for (;;) {
    const std::uint32_t done = group().done.load(std::memory_order_acquire);
    if (done == all) return true;
    peers::sleep_while(group().done, done, kSlice);
    if (group().done.load(std::memory_order_acquire) != done) continue;
    if (has_lost_one(meaning, text)) return false;
    if (steady_clock::now() < deadline) continue;
    *text = name_ + ": no answer within " + std::to_string((wait_ + more).count() / 1000) + " s, " + meaning +
            stopped_ranks() + last_words();
    return false;
  }
}

bool Troupe::has_lost_one(const std::string& meaning, std::string* text) {
  for (std::size_t rank = 0; rank < watched_.size(); ++rank) {
    if (watched_[rank] < 0 || !has_ended(watched_[rank])) continue;
    *text = name_ + ": " + rank_text(static_cast<int>(rank)) + " is gone, " + meaning + last_words();
    return true;
  }
  for (std::size_t i = 0; i < started_.size(); ++i) {
    int status = 0;
    if (started_[i] < 0 || waitpid(started_[i], &status, WNOHANG) != started_[i]) continue;
    const std::string who = launched_ ? "the launcher" : "rank " + std::to_string(i);
    *text = name_ + ": " + who + " " + ending(status) + ", " + meaning + last_words();
    started_[i] = -1;
    return true;
  }
  return false;
}

bool Troupe::is_good(const std::string& meaning, std::string* text) const {
  for (int rank = 0; rank < (*stage_)->ranks; ++rank) {
    const peers::Report& report = group().reports[rank];
    if (!report.failed) continue;
    *text = name_ + ": rank " + std::to_string(rank) + ", " + meaning + ": " + report.text;
    return false;
  }
  return true;
}

void Troupe::watch() {
  for (int rank = 0; rank < (*stage_)->ranks; ++rank) {
    const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, group().reports[rank].process, 0));
    watched_.push_back(pidfd);
  }
}

bool Troupe::leave(std::string* text) {
  group().order = {peers::Task::kLeave, {}, 0, 0, 0};
  group().orders.store(++orders_, std::memory_order_release);
  peers::wake_all(group().orders);
  if (reap(std::max(kTroupeGrace, wait_))) return true;
  *text = name_ + ": " + who_is_left() + " does not end" + stopped_ranks() + last_words();
  return false;
}

/// Returns 0 if the process is not known, because a launcher starts it and it has not reported yet.
pid_t Troupe::process_of(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  return launched_ || started_[place] < 0 ? group().reports[rank].process : started_[place];
}

std::string Troupe::rank_text(int rank) const {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(process_of(rank)) + ")";
}

/// "; rank 1 (process 7) is stopped", for each rank that is stopped.
std::string Troupe::stopped_ranks() const {
  std::string text;
  for (int rank = 0; rank < (*stage_)->ranks; ++rank) {
    if (process_of(rank) > 0 && is_stopped(process_of(rank))) text += "; " + rank_text(rank) + " is stopped";
  }
  return text;
}

std::string Troupe::who_is_left() const {
  for (std::size_t rank = 0; rank < watched_.size(); ++rank)
    if (watched_[rank] >= 0 && !has_ended(watched_[rank])) return rank_text(static_cast<int>(rank));
  return "the launcher";
}

/// Waits for all children. Returns false if they do not end within `wait`.
bool Troupe::reap(milliseconds wait) {
  const auto deadline = steady_clock::now() + wait;
  for (;;) {
    bool any = false;
    for (pid_t& child : started_) {
      if (child > 0 && waitpid(child, nullptr, WNOHANG) != 0) child = -1;
      any = any || child > 0;
    }
    if (!any) return true;
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

/// SIGTERM comes first for launchers, which clean up when they are asked to end. Ranks need not be asked.
void Troupe::end_all() {
  for (const int pidfd : watched_) syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const pid_t child : started_) {
      if (child > 0) kill(child, signal);
    }
    if (reap(kTroupeGrace)) return;
  }
}

std::string Troupe::last_words() const {
  const off_t end = lseek(output_, 0, SEEK_END);
  if (end <= 0) return "";
  std::string words(static_cast<std::size_t>(std::min(end, kLastWords)), '\0');
  const ssize_t got = pread(output_, words.data(), words.size(), std::max<off_t>(0, end - kLastWords));
  words.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return ". It said:\n" + words;
}

}  // namespace tutti::perf
