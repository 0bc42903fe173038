// A program outside the library's tree: `outside RANKS FILE` starts RANKS processes that join by file://FILE and run
// the collective cases. Exit code 0: every result was right on every rank.
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cases/collective_cases.h"

namespace {

int run_rank(int rank, int ranks, const std::string& url) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutSeconds = 60;
  config.joinTimeoutSeconds = 200;
  tuttiComm_t comm = nullptr;
  const tuttiResult_t joined = tuttiCommInitUrl(&comm, url.c_str(), ranks, rank, &config);
  if (joined != tuttiSuccess) {
    std::fprintf(stderr, "rank %d cannot join: %s: %s\n", rank, tuttiGetErrorString(joined),
                 tuttiGetLastError(nullptr));
    return 1;
  }
  const tutti::cases::Outcome outcome =
      tutti::cases::run_all_cases(comm, rank, ranks, tutti::cases::Effort::kLarge, 200);
  const tuttiResult_t left = tuttiCommDestroy(comm);
  if (left != tuttiSuccess) std::fprintf(stderr, "rank %d leaving: %s\n", rank, tuttiGetErrorString(left));
  if (rank == 0) std::printf("%d ranks: %ld calls checked, %ld wrong\n", ranks, outcome.checked, outcome.failed);
  return outcome.failed == 0 && outcome.checked > 0 && left == tuttiSuccess ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[1]) < 1) {
    std::fprintf(stderr, "usage: outside RANKS FILE\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  const std::string url = std::string("file://") + argv[2];
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) return 1;
    if (pid == 0) std::exit(run_rank(rank, ranks, url));
  }
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) failed += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
  return failed == 0 ? 0 : 1;
}
