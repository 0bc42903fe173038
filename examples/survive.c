/* Training that outlives its ranks: when some die, the others go on, and newcomers take the empty places. In the end
 * the weights must be exactly those of a run without failures.
 *
 *   ./survive [-n RANKS] [-s STEPS] [-k KILLS] [-p MILLISECONDS_A_STEP]   starts the ranks; kill any you like
 *   mpirun --enable-recovery -n 4 ./survive                               ranks of a launcher: no newcomers
 *
 * survive_job.c starts the processes, kills KILLS of them, and brings ids to newcomers. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "survive_job.h"

enum { kWeights = 4000, kSamples = 32 };
#define NO_WEIGHTS INT64_MAX /* the step of a newcomer that has not been given any */

static Options options = {.ranks = 4, .kills = 0, .steps = 200, .pause_ms = 10};
static tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER, grow_config; /* no wait is longer than their timeouts */

typedef struct {
  tuttiComm_t comm;
  int rank, count, place;
  int64_t step;                 /* the next one */
  int lost, joined;             /* ranks, so far */
  double weights[kWeights];     /* before `step` */
  double before[kWeights];      /* before `step` - 1 */
  double message[kWeights + 2]; /* what travels: gradients or weights, and something more */
  int count_then;               /* how many ranks the last right sum was of; 0: none yet */
  double time_then;             /* when that was */
} Training;

/* ------------------------------------------------------------------ the model
 * Gradients are integers, and so are all sums, far below 2^53. So no sum depends on its order, which changes with the
 * number of ranks, and any weight that is wrong by anything is seen. */

static double gradient(int sample, int64_t step, int weight) {
  uint32_t mixed = (uint32_t)sample * 2654435761u + (uint32_t)step * 2246822519u + (uint32_t)weight * 3266489917u;
  mixed = (mixed ^ mixed >> 15) * 668265263u;
  return (double)(mixed >> 22) - 512;
}

/* Adds the gradients of every count-th sample. */
static void add_gradients(double* sum, int first, int count, int64_t step) {
  for (int sample = first; sample < kSamples; sample += count)
    for (int i = 0; i < kWeights; ++i) sum[i] += gradient(sample, step, i);
}

static bool is_right(const Training* t) {
  static double plain[kWeights];
  memset(plain, 0, sizeof plain);
  for (long step = 0; step < options.steps; ++step) add_gradients(plain, 0, 1, step);
  return memcmp(plain, t->weights, sizeof plain) == 0;
}

/* ------------------------------------------------------------------ going on */

static void say(const Training* t, const char* what, const char* why) {
  fprintf(stderr, "rank %d: step %ld: %s%s\n", t->rank, (long)(t->step == NO_WEIGHTS ? -1 : t->step), what, why);
}

static void take(Training* t, tuttiComm_t comm) {
  if (t->comm != NULL) tuttiCommDestroy(t->comm); /* what it returns is known: it failed, or all is done on it */
  t->comm = comm;
  tuttiCommUserRank(comm, &t->rank);
  tuttiCommCount(comm, &t->count);
}

/* All ranks go on at the same step, with the same weights. Some may have got the last sum, and others an error instead
 * of it; nobody is further ahead, since each sum needs all ranks. So the lowest step counts, and who is ahead takes its
 * last one back. Newcomers have the highest ranks, so that rank 0 has the weights if anybody has. */
static tuttiResult_t agree(Training* t) {
  int64_t step = t->step;
  tuttiResult_t result = tuttiAllReduce(&step, &step, 1, tuttiInt64, tuttiMin, t->comm, NULL);
  if (result != tuttiSuccess) return result;
  if (step == NO_WEIGHTS) step = 0; /* all who had weights are dead; a real program reads its last checkpoint */
  if (t->step == step + 1) {
    memcpy(t->weights, t->before, sizeof t->weights);
    t->step = step;
  }
  /* Not into the weights themselves: if the broadcast fails, what it has written is undefined. */
  memcpy(t->message, t->weights, sizeof t->weights);
  t->message[kWeights] = t->lost;
  t->message[kWeights + 1] = t->joined;
  result = tuttiBroadcast(t->message, t->message, kWeights + 2, tuttiFloat64, 0, t->comm, NULL);
  if (result != tuttiSuccess) return result;
  memcpy(t->weights, t->message, sizeof t->weights);
  t->lost = (int)t->message[kWeights];
  t->joined = (int)t->message[kWeights + 1];
  t->step = step;
  board->has_weights[t->place] = true;
  return tuttiSuccess;
}

/* After an error: without those who died. False: this rank cannot go on, for example because the others have left it
 * out (it did not call for 10 s). Where a network can be cut, look at the count as well: each side may go on. */
static bool recover(Training* t, tuttiResult_t result) {
  while (result != tuttiSuccess) {
    say(t, "", tuttiGetLastError(t->comm));
    tuttiComm_t made = NULL;
    for (int attempt = 0; attempt < 3 && made == NULL; ++attempt)
      if (tuttiCommShrink(t->comm, NULL, 0, &made, &config, TUTTI_SHRINK_DEFAULT) != tuttiSuccess)
        say(t, "shrink: ", tuttiGetLastError(NULL)); /* of t->comm it is the first cause */
    if (made == NULL) return false;
    const int before = t->count;
    take(t, made);
    t->lost += before - t->count;
    result = agree(t); /* another rank may die meanwhile */
  }
  return true;
}

/* Makes a communicator with a newcomer, which passes NULL and its rank; the others pass theirs and -1. NULL: it was not
 * possible, which changes nothing for the old ranks. */
static tuttiComm_t grow(tuttiComm_t comm, int count, const tuttiUniqueId* id, int rank) {
  tuttiComm_t grown = NULL, sealed = NULL;
  int got = 0;
  if (tuttiCommGrow(comm, count, id, rank, &grown, &grow_config) != tuttiSuccess) {
    fprintf(stderr, "grow: %s\n", tuttiGetLastError(NULL));
    return NULL;
  }
  /* If a rank dies now, Grow may have succeeded for some and failed for others, who would go on with different
   * communicators. Shrink gives all the same members; if these are all, every rank has got here. */
  if (tuttiCommShrink(grown, NULL, 0, &sealed, &config, TUTTI_SHRINK_DEFAULT) != tuttiSuccess)
    fprintf(stderr, "grow, sealing: %s\n", tuttiGetLastError(NULL));
  else
    tuttiCommCount(sealed, &got);
  tuttiCommDestroy(grown);
  if (got == count) return sealed;
  if (sealed != NULL) tuttiCommDestroy(sealed);
  return NULL;
}

/* Collective, after a sum that has announced a newcomer. Without an id Grow is refused on all ranks. */
static tuttiResult_t take_newcomer(Training* t) {
  Invitation invitation = {.ranks = t->count + 1, .rank = t->count};
  const bool invites =
      t->rank == 0 && tuttiCommGetUniqueId(t->comm, &invitation.id) == tuttiSuccess && invite_newcomer(&invitation);
  tuttiComm_t const grown = grow(t->comm, t->count + 1, invites ? &invitation.id : NULL, -1);
  if (grown == NULL) return tuttiSuccess; /* if the old communicator has failed, the next sum says so */
  take(t, grown);
  ++t->joined;
  return agree(t);
}

/* Says how long a change has kept this rank from its next sum. */
static void note_sum(Training* t) {
  const double now = now_ms();
  if (t->count_then != t->count && t->count_then != 0)
    printf("rank %d: step %ld: %d ranks became %d in %.1f ms\n", t->rank, (long)t->step, t->count_then, t->count,
           now - t->time_then);
  t->count_then = t->count;
  t->time_then = now;
}

static tuttiResult_t train(Training* t) {
  double* const sum = t->message;
  memset(sum, 0, sizeof t->message);
  add_gradients(sum, t->rank, t->count, t->step);
  sleep_ms(options.pause_ms);
  sum[kWeights] = t->rank == 0 && newcomer_waits(); /* so all ranks hear of it at the same step */
  const tuttiResult_t result = tuttiAllReduce(sum, sum, kWeights + 1, tuttiFloat64, tuttiSum, t->comm, NULL);
  if (result != tuttiSuccess) return result;
  note_sum(t);
  memcpy(t->before, t->weights, sizeof t->weights);
  for (int i = 0; i < kWeights; ++i) t->weights[i] += sum[i];
  board->step = (long)++t->step;
  return sum[kWeights] > 0 ? take_newcomer(t) : tuttiSuccess;
}

static int train_to_end(Training* t) {
  for (;;) {
    tuttiResult_t result = tuttiSuccess;
    while (t->step < options.steps && result == tuttiSuccess) result = train(t);
    if (result == tuttiSuccess) {
      const bool right = is_right(t);
      if (t->rank == 0) {
        printf("survive: %d ranks, %ld steps, %d lost, %d joined; %s\n", t->count, options.steps, t->lost, t->joined,
               right ? "right" : "WRONG");
        board->done = true;
      }
      result = tuttiBarrier(t->comm, NULL); /* nobody leaves before the result is out */
      if (result == tuttiSuccess) return tuttiCommDestroy(t->comm) == tuttiSuccess && right ? 0 : 1;
    }
    if (!recover(t, result)) return 1;
  }
}

static int be_newcomer(Training* t) {
  Invitation invitation;
  t->step = NO_WEIGHTS;
  for (tuttiComm_t comm = NULL; comm == NULL;) {
    if (!wait_for_invitation(&invitation)) return board->done ? 0 : 1;
    comm = grow(NULL, invitation.ranks, &invitation.id, invitation.rank);
    if (comm != NULL) take(t, comm);
  }
  return recover(t, agree(t)) ? train_to_end(t) : 1;
}

/* Joins as one of the first ranks; under a launcher rank and count are -1, which takes them from it. */
static int be_first_rank(Training* t, const char* url, int count, int rank) {
  tuttiComm_t comm;
  if (tuttiCommInitUrl(&comm, url, count, rank, &config) != tuttiSuccess) {
    fprintf(stderr, "survive: %s\n", tuttiGetLastError(NULL));
    return 1;
  }
  take(t, comm);
  return recover(t, agree(t)) ? train_to_end(t) : 1;
}

static int be_rank(int place, const char* url, bool is_newcomer) {
  static Training training; /* all zero, as the first weights are */
  training.place = place;
  return is_newcomer ? be_newcomer(&training) : be_first_rank(&training, url, options.ranks, place);
}

static bool is_launched(void) {
  const char* const variables[] = {"RANK",      "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_PORT",
                                   "PMIX_RANK", "SLURM_STEP_ID"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i)
    if (getenv(variables[i]) != NULL) return true;
  return false;
}

static bool read_options(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "n:s:k:p:")) != -1;) {
    if (option == '?') return false;
    const long value = atol(optarg);
    if (option == 'n') options.ranks = (int)value;
    if (option == 's') options.steps = value;
    if (option == 'k') options.kills = (int)value;
    if (option == 'p') options.pause_ms = value;
  }
  return options.ranks >= 1 && options.ranks <= kMostRanks && options.kills >= 0 && options.steps >= 1 &&
         options.pause_ms >= 0;
}

int main(int argc, char** argv) {
  if (!read_options(argc, argv)) {
    fprintf(stderr, "survive [-n RANKS] [-s STEPS] [-k KILLS] [-p MILLISECONDS_A_STEP]\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, although all processes write to it */
  config.timeoutSeconds = 20;       /* a rank that is stopped for longer is left out */
  config.joinTimeoutSeconds = 10;   /* of joins and shrinks */
  grow_config = config;
  grow_config.joinTimeoutSeconds = 3; /* so long all wait for a newcomer that died after it had been invited */
  if (!make_board()) return 1;
  if (!is_launched()) return run_job(&options, be_rank);
  static Training training;
  return be_first_rank(&training, "env://", -1, -1);
}
