#define _GNU_SOURCE
#include "survive_job.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

Board* board;

static char folder[64]; /* private; empty under a launcher */

double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

void sleep_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

bool make_board(void) {
  void* const memory = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return perror("survive: mmap"), false;
  board = memory;
  return true;
}

/* ------------------------------------------------------------------ files: a newcomer's wish, and its invitation */

static void path_of(char path[128], const char* what, long pid) { snprintf(path, 128, "%s/%s.%ld", folder, what, pid); }

/* Whoever reads it sees all of it or nothing. Nobody else may read it: an id is a secret. */
static bool write_file(const char* path, const void* data, size_t size) {
  char fresh[128];
  path_of(fresh, "new", (long)getpid());
  const int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool is_written = write(file, data, size) == (ssize_t)size;
  return close(file) == 0 && is_written && rename(fresh, path) == 0;
}

/* The pid of a newcomer that waits, or 0. */
static long find_wish(void) {
  long pid = 0;
  DIR* const entries = folder[0] != 0 ? opendir(folder) : NULL;
  if (entries == NULL) return 0;
  for (struct dirent* entry; pid == 0 && (entry = readdir(entries)) != NULL;)
    if (strncmp(entry->d_name, "wish.", 5) == 0) pid = atol(entry->d_name + 5);
  closedir(entries);
  return pid;
}

bool newcomer_waits(void) { return find_wish() != 0; }

bool invite_newcomer(const Invitation* invitation) {
  char wish[128], path[128];
  const long pid = find_wish();
  path_of(wish, "wish", pid);
  path_of(path, "invitation", pid);
  if (pid == 0 || !write_file(path, invitation, sizeof *invitation)) return false;
  unlink(wish); /* not before: if this process dies in between, the next rank 0 finds the wish */
  return true;
}

static bool take_invitation(Invitation* invitation) {
  char wish[128], path[128], mine[128];
  path_of(wish, "wish", (long)getpid());
  path_of(path, "invitation", (long)getpid());
  path_of(mine, "taken", (long)getpid());
  if (rename(path, mine) != 0) return false; /* renamed, because another one may come meanwhile */
  unlink(wish);
  const int file = open(mine, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_read = read(file, invitation, sizeof *invitation) == (ssize_t)sizeof *invitation;
  close(file);
  return is_read;
}

bool wait_for_invitation(Invitation* invitation) {
  char wish[128];
  path_of(wish, "wish", (long)getpid());
  if (!write_file(wish, "", 0)) return false;
  for (const double since = now_ms(); !take_invitation(invitation); sleep_ms(1))
    if (board->done || now_ms() - since > kPatience * 1e3) return false;
  return true;
}

/* ------------------------------------------------------------------ processes */

/* By place. */
static struct {
  pid_t pid; /* 0: it has ended */
  bool is_dying;
} places[kMostRanks];

static void start(int place, bool is_newcomer, int (*be_rank)(int, const char*, bool)) {
  char url[96];
  snprintf(url, sizeof url, "file://%s/first", folder);
  fflush(NULL); /* the child would print it again */
  const pid_t pid = fork();
  if (pid == 0) exit(be_rank(place, url, is_newcomer));
  if (pid < 0)
    perror("survive: fork");
  else
    printf("survive: %s %ld\n", is_newcomer ? "newcomer" : "process", (long)pid);
  places[place].pid = pid > 0 ? pid : 0;
  places[place].is_dying = false;
}

/* Whether a process ended well, or was killed. */
static bool is_well(long pid, int status) {
  const bool is_signal = WIFSIGNALED(status);
  const int number = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
  if (is_signal ? number == SIGKILL || number == SIGTERM : number == 0) return true;
  printf("survive: %ld ended with %s %d\n", pid, is_signal ? "signal" : "code", number);
  return false;
}

/* Replaces whoever ended by a signal. False if one has failed. */
static bool reap(int ranks, int (*be_rank)(int, const char*, bool)) {
  bool all_well = true;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    int place = 0;
    while (place < ranks - 1 && places[place].pid != pid) ++place;
    all_well &= is_well((long)pid, status);
    places[place].pid = 0;
    board->has_weights[place] = false;
    char wish[128];
    path_of(wish, "wish", (long)pid);
    unlink(wish); /* nobody needs to wait for the dead */
    if (WIFSIGNALED(status) && !board->done) start(place, true, be_rank);
  }
  return all_well;
}

/* Kills one at random if another one that has the weights stays. */
static bool kill_one(int ranks) {
  const int place = rand() % ranks;
  bool stays = false;
  for (int i = 0; i < ranks; ++i) stays |= i != place && board->has_weights[i] && !places[i].is_dying;
  if (!stays || places[place].pid == 0 || places[place].is_dying) return false;
  printf("survive: kills %ld\n", (long)places[place].pid);
  places[place].is_dying = true;
  return kill(places[place].pid, SIGKILL) == 0;
}

static int living(int ranks, int signal_number) {
  int count = 0;
  for (int i = 0; i < ranks; ++i) count += places[i].pid != 0 && kill(places[i].pid, signal_number) == 0;
  return count;
}

static bool watch(const Options* options, int (*be_rank)(int, const char*, bool)) {
  bool all_well = true;
  long step = -1, next_kill = 1;
  int kills = 0;
  for (double since = now_ms(); living(options->ranks, 0) > 0; sleep_ms(1)) {
    all_well &= reap(options->ranks, be_rank);
    if (kills < options->kills && board->step >= next_kill && !board->done && kill_one(options->ranks)) {
      ++kills;
      next_kill = board->step + rand() % (1 + 3 * options->steps / (4 * options->kills)); /* it may be at once */
    }
    if (board->step != step) since = now_ms();
    step = board->step;
    if (now_ms() - since < kPatience * 1e3 + (double)options->pause_ms) continue;
    printf("survive: no progress since step %ld, so all are killed\n", step);
    board->done = true; /* no replacements */
    all_well = false;
    living(options->ranks, SIGKILL);
    since = now_ms();
  }
  return all_well && board->done;
}

static void remove_folder(void) {
  DIR* const entries = opendir(folder);
  if (entries == NULL) return;
  for (struct dirent* entry; (entry = readdir(entries)) != NULL;)
    if (entry->d_name[0] != '.') unlinkat(dirfd(entries), entry->d_name, 0);
  closedir(entries);
  rmdir(folder);
}

int run_job(const Options* options, int (*be_rank)(int place, const char* url, bool is_newcomer)) {
  srand((unsigned)getpid() ^ (unsigned)time(NULL));
  strcpy(folder, "/tmp/survive.XXXXXX");
  if (mkdtemp(folder) == NULL) return perror("survive: mkdtemp"), 1;
  for (int place = 0; place < options->ranks; ++place) start(place, false, be_rank);
  const bool all_well = watch(options, be_rank);
  remove_folder();
  return all_well ? 0 : 1;
}
