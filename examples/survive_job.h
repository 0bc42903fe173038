/* What survive.c needs around its training: processes that are started, killed and replaced, and files by which a
 * newcomer gets the id. Elsewhere a launcher does the former, and a store or a shared folder the latter. */
#ifndef SURVIVE_JOB_H_
#define SURVIVE_JOB_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/tutti.h>

enum { kMostRanks = 64, kPatience = 60 /* seconds without progress until the job is given up */ };

/* What all processes see of the job. */
typedef struct {
  _Atomic long step;
  _Atomic bool done;
  _Atomic bool has_weights[kMostRanks]; /* by place: a process has one, and who replaces it gets the same */
} Board;
extern Board* board;

typedef struct {
  int ranks, kills;
  long steps, pause_ms;
} Options;

/* Makes the board. False: it says why not. */
bool make_board(void);
/* Starts options->ranks processes, which call be_rank, kills some, replaces whoever was killed, and waits until all
 * have ended. 0 if each that was not killed ended with 0. It makes no call of Tutti, which would have to be made after
 * the fork. */
int run_job(const Options* options, int (*be_rank)(int place, const char* url, bool is_newcomer));

/* How to join by tuttiCommGrow. */
typedef struct {
  tuttiUniqueId id;
  int ranks, rank;
} Invitation;

/* Says that this process wants to join, and waits for an invitation. False: there is none, because the training is done
 * or nobody answers. */
bool wait_for_invitation(Invitation* invitation);
/* Whether anybody wants to join. */
bool newcomer_waits(void);
/* False: nobody waits any more, or the file cannot be written. */
bool invite_newcomer(const Invitation* invitation);

double now_ms(void);
void sleep_ms(long ms);

#endif
