#include "chaos/round.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "chaos/caller.h"
#include "chaos/delays.h"
#include "chaos/member.h"
#include "chaos/striker.h"

namespace tutti::chaos {
namespace {

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// For the process of that number, which does not use the library yet.
void apply_settings(const Plan& plan, int process) {
  set("TUTTI_TIMEOUT", std::to_string(plan.timeout()));
  set("TUTTI_JOIN_TIMEOUT", "60");
  set("TUTTI_TRANSPORT", plan.links == Links::kShm ? "shm" : plan.links == Links::kMixed ? "auto" : "tcp");
  if (plan.links == Links::kMixed) set("TUTTI_HOSTID", "host " + std::to_string(process % 2));
  if (plan.links == Links::kTls) set("TUTTI_TLS", "on");
  if (!plan.reconnects) set("TUTTI_RECONNECT", "0");
  if (std::getenv("TUTTI_LOG") == nullptr)  // the errors say what happens
    (void)tuttiSetLogCallback([](int, const char*, void*) {}, nullptr);
  ::signal(SIGXFSZ, SIG_IGN);  // of a file that must not grow
  if (plan.delays) delay_messages(plan.seed + static_cast<std::uint64_t>(process));
}

}  // namespace

void Round::run() {
  board_.members = plan_.ranks;
  for (int process = 0; process < plan_.processes(); ++process) start_first(process);
  const auto end = Clock::now() + limit_;
  while (!processes_.empty() && Clock::now() < end) {
    start_newcomers();
    look_at_changes();
    resume();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  end_all();
}

template <class Main>
void Round::start(int number, const Main& main) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    apply_settings(plan_, number);
    main();
    std::exit(0);
  }
  if (pid < 0) return board_.complain("a process cannot be forked");
  processes_[pid] = {number, false, {}};
}

/// A thread for each rank of the process in each team.
void Round::start_first(int process) {
  start(process, [&, process] {
    Striker striker(plan_, board_, process);
    std::vector<std::thread> threads;
    const int first = process * plan_.ranks_a_process;
    const int last = std::min(first + plan_.ranks_a_process, plan_.ranks) - 1;
    for (int rank = first; rank <= last; ++rank) {
      for (int team = 0; team < plan_.teams; ++team) {
        Striker* const told = rank == first && team == 0 ? &striker : nullptr;
        threads.emplace_back([&, rank, team, told] {
          Caller caller(plan_, board_, team, rank, told);
          Member(caller).start(rank);
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
  });
}

void Round::start_newcomers() {
  for (; newcomers_ < kMostMembers && board_.invited[newcomers_].is_written; ++newcomers_) {
    const int member = board_.members++;
    if (member >= kMostMembers) return board_.complain("too many newcomers");
    start(member, [&, member] {
      const Invitation& invitation = board_.invited[newcomers_];
      Striker striker(plan_, board_, member);
      Caller caller(plan_, board_, invitation.team, member, &striker);
      Member(caller).come(invitation);
    });
  }
}

void Round::look_at_changes() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
    Process& process = processes_[pid];
    if (WIFSTOPPED(status)) {
      process.is_stopped = true;
      process.resumes = Clock::now() + std::chrono::microseconds(board_.pauses[process.number].exchange(0));
      continue;
    }
    note_end(process.number, status);
    processes_.erase(pid);
  }
}

void Round::resume() {
  for (auto& [pid, process] : processes_) {
    if (!process.is_stopped || Clock::now() < process.resumes) continue;
    process.is_stopped = false;
    ::kill(pid, SIGCONT);
  }
}

void Round::note_end(int number, int status) {
  const std::string who = "process " + std::to_string(number);
  if (WIFSIGNALED(status) && (WTERMSIG(status) != SIGKILL || !board_.is_killed[number]))
    board_.complain(who + " was ended by signal " + std::to_string(WTERMSIG(status)));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    board_.complain(who + " has ended with exit code " + std::to_string(WEXITSTATUS(status)));
}

/// Of a round that does not end, what each member is at.
void Round::end_all() {
  if (processes_.empty()) return;
  board_.complain("the round has not ended after " + std::to_string(limit_.count()) + " s");
  for (const auto& [pid, process] : processes_) {
    const bool is_first = process.number < plan_.processes();
    const int first = is_first ? process.number * plan_.ranks_a_process : process.number;
    const int last = is_first ? std::min(first + plan_.ranks_a_process, plan_.ranks) - 1 : first;
    for (int team = 0; team < kMostTeams; ++team)
      for (int member = first; member <= last; ++member)
        if (const Post& post = board_.posts[team][member]; post.calls > 0)
          board_.complain("team " + std::to_string(team) + ", member " + std::to_string(member) + " is in call " +
                          std::to_string(post.calls) + ": " + post.text);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  processes_.clear();
}

}  // namespace tutti::chaos
