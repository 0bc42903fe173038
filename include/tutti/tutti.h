/* Tutti: collective communications for ranks that are threads, processes or hosts.
 *
 *   #include <tutti/tutti.h>
 *   tuttiComm_t comm;
 *   float mine[4] = {1, 2, 3, 4}, sum[4];
 *   if (tuttiCommInitUrl(&comm, "env://", -1, -1, NULL) != tuttiSuccess ||           (under mpirun, torchrun, or alone)
 *       tuttiAllReduce(mine, sum, 4, tuttiFloat32, tuttiSum, comm, NULL) != tuttiSuccess ||
 *       tuttiCommDestroy(comm) != tuttiSuccess)
 *     puts(tuttiGetLastError(NULL));
 *
 * Conventions. Counts and displacements are elements, ranks are int. Every function returns a tuttiResult_t; outputs
 * are set on success only, except that a failed join, split, shrink or grow sets its communicator to NULL, and that
 * tuttiCommGetInfo writes what fits. No function throws, exits, prints to stdout or installs a signal handler. The
 * caller owns every buffer and keeps it valid until the operation is done: with stream NULL when the call returns, in a
 * group when tuttiGroupEnd returns, on a stream when tuttiStreamSynchronize returns.
 *
 * Threads. Any thread may call; on one communicator one call at a time, except tuttiCommAbort, tuttiCommRevoke,
 * tuttiCommGetAsyncError, tuttiGetLastError and the questions tuttiCommCount and tuttiCommUserRank, which may be called
 * at any time: a second call that is seen beside another one is refused with tuttiInvalidUsage. Different communicators
 * are independent. In a child forked by a process that has communicators every call returns tuttiInvalidUsage; a
 * process that has only made ids may fork ranks. A thread that is cancelled (pthread_cancel, deferred) in a call ends
 * when the call has.
 *
 * Order. All ranks of a communicator make the same collective calls in the same order. Operations of a communicator run
 * in call order, one at a time, whatever their streams.
 *
 * Errors. tuttiInvalidArgument, tuttiInvalidUsage and tuttiUnsupported are found before anything is sent: the
 * communicator stays usable. Any other error is final for the communicator: every later call on it reports the first
 * cause. Every wait ends: with the result, with an error that names the rank whose fault it is, or at its deadline,
 * which every wait has unless it was set to 0.
 */
#ifndef TUTTI_H_
#define TUTTI_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 1
#define TUTTI_PATCH 0
/** major*10000 + minor*100 + patch, as tuttiGetVersion returns it. */
#define TUTTI_VERSION_CODE (TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/** One rank's view of a group of ranks. */
typedef struct tuttiComm* tuttiComm_t;
/** An in-order queue of operations. If a call gets NULL instead, it blocks until its result is there; on device buffers
 * it runs after the work that is in CUDA's legacy default stream by then. */
typedef struct tuttiStream* tuttiStream_t;

/** Secret, nonce and addresses of one communicator to be. Copy it to all ranks by any means that keeps it secret. */
typedef struct {
  char internal[128];
} tuttiUniqueId;

/** What a call returns. "Final": the communicator, or the join, has failed for good; the others leave it as it was. */
typedef enum {
  tuttiSuccess = 0,            /**< done; on a stream or in a group: accepted */
  tuttiUnhandledCudaError = 1, /**< CUDA refused something; final */
  tuttiSystemError = 2,        /**< the system refused something, such as memory or a descriptor; final */
  tuttiInternalError = 3,      /**< a fault in Tutti, or an exception in a function of the caller's; final */
  tuttiInvalidArgument = 4,    /**< a value that cannot be right */
  tuttiInvalidUsage = 5,       /**< a call that cannot be made now, or here */
  tuttiRemoteError = 6,        /**< another rank died, left, aborted or cannot be reached; final */
  tuttiInProgress = 7,         /**< from tuttiStreamQuery: there is work left */
  tuttiTimeout = 8,            /**< a live rank was silent for too long; final, except from tuttiStreamSynchronize */
  tuttiMismatch = 9,           /**< ranks made different calls, or have different settings; final */
  tuttiAborted = 10,           /**< tuttiCommAbort was called on this rank, or tuttiCommRevoke on any; final */
  tuttiUnsupported = 11        /**< not possible on this machine, or not in this version */
} tuttiResult_t;

/** Types of elements. Each may be reduced by each operation, except floating-point types by the bitwise ones and
 * tuttiBool by tuttiAvg. */
typedef enum {
  tuttiInt8 = 0,
  tuttiUint8 = 1,
  tuttiInt32 = 2,
  tuttiUint32 = 3,
  tuttiInt64 = 4,
  tuttiUint64 = 5,
  tuttiFloat16 = 6,     /**< IEEE 754 binary16 */
  tuttiFloat32 = 7,     /**< IEEE 754 binary32: float */
  tuttiFloat64 = 8,     /**< IEEE 754 binary64: double */
  tuttiBfloat16 = 9,    /**< the upper half of a float32 */
  tuttiFloat8e4m3 = 10, /**< OCP 8-bit: largest 448, no infinity */
  tuttiFloat8e5m2 = 11, /**< OCP 8-bit: largest 57344, with infinity */
  tuttiInt16 = 12,
  tuttiUint16 = 13,
  tuttiBool = 14,               /**< a byte; nonzero is true */
  tuttiDataTypeMax = 0x7fffffff /**< no type; in tuttiConfig_t it stands for the setting's */
} tuttiDataType_t;

/** How elements of the ranks become one. The operations that are made for a communicator come after these. */
typedef enum {
  tuttiSum = 0,  /**< for tuttiBool: or */
  tuttiProd = 1, /**< for tuttiBool: and */
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4, /**< the sum divided by the number of ranks */
  tuttiBitAnd = 5,
  tuttiBitOr = 6,
  tuttiBitXor = 7,
  tuttiRedOpMax = 0x7fffffff /**< no operation; it only makes the enum as wide as an int */
} tuttiRedOp_t;

/** When the scalar of tuttiRedOpCreatePreMulSum is read: when a call runs, or by the function that makes the operation.
 */
typedef enum { tuttiScalarDevice = 0, tuttiScalarHostImmediate = 1 } tuttiScalarResidence_t;

/** What tuttiCommMemStats counts, in bytes. Shared memory is what peers map. */
typedef enum { tuttiMemStatHost = 0, tuttiMemStatDevice = 1, tuttiMemStatShared = 2 } tuttiMemStat_t;

/** Color of a rank that takes part in tuttiCommSplit and gets no communicator. */
#define TUTTI_SPLIT_NOCOLOR (-1)
/** The device, in tuttiConfig_t, of a rank that has host buffers only. */
#define TUTTI_NO_DEVICE (-1)
/** Flags of tuttiCommShrink. With TUTTI_SHRINK_DEFAULT a healthy communicator first finishes its operations; with
 * TUTTI_SHRINK_ABORT they end with tuttiAborted. */
#define TUTTI_SHRINK_DEFAULT 0x00
#define TUTTI_SHRINK_ABORT 0x01
/** As the rank in tuttiRecvTag, it stands for whoever sends first. */
#define TUTTI_ANY_SOURCE (-1)

/** Options of a join. Start from TUTTI_CONFIG_INITIALIZER; unset fields (INT_MIN, NaN, NULL, tuttiDataTypeMax) take the
 *  TUTTI_* settings, for a split the parent's values. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;              /**< 0 or 1; without effect, because joins and splits block; 0 is logged once */
  double timeoutSeconds;     /**< how long an operation waits for a live but silent peer; 0: for ever */
  double joinTimeoutSeconds; /**< the join's deadline; 0: for ever */
  const char* commName;      /**< for logs; copied */
  tuttiDataType_t wireType;  /**< what float32 travels as in reductions, see "Wire types"; tuttiFloat32: as it is */
  int deterministic;         /**< 0 or 1; see "Deterministic mode" */
  int splitShare;            /**< 0 or 1; without effect */
  int reserved;              /**< not read: it was padding before there was `device` */
  int device;    /**< of this rank's device buffers, or TUTTI_NO_DEVICE: kernels use no device of it. Unset: the
                  * parent's, or if that has none the calling thread's current one */
  int reserved2; /**< not read: the struct ends without padding */
} tuttiConfig_t;

#define TUTTI_CONFIG_MAGIC 0x74757474u
#define TUTTI_UNDEF_INT INT_MIN
#define TUTTI_UNDEF_DOUBLE (__builtin_nan(""))
#define TUTTI_CONFIG_INITIALIZER                                                                        \
  {                                                                                                     \
    sizeof(tuttiConfig_t), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, TUTTI_UNDEF_INT, TUTTI_UNDEF_DOUBLE, \
        TUTTI_UNDEF_DOUBLE, NULL, tuttiDataTypeMax, TUTTI_UNDEF_INT, TUTTI_UNDEF_INT, TUTTI_UNDEF_INT,  \
        TUTTI_UNDEF_INT, TUTTI_UNDEF_INT                                                                \
  }

/* ------------------------------------------------------------------ errors and information */

/** The library's version, made as TUTTI_VERSION_CODE is. The header's may differ. */
TUTTI_API tuttiResult_t tuttiGetVersion(int* version);
/** The name of a code; never NULL. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/** One English sentence on this thread's last failed call, if it was one on `comm` (NULL: on any) or one that takes no
 * communicator, as those of groups and streams; after a final failure of `comm` its first cause. Never NULL; valid
 * until the thread's next tutti call. */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);
/** Sets the function that gets every log line instead of stderr or the file; NULL sets these again. A thread of the
 * log's own calls it with one line at a time. However long it takes, no call, abort or join waits for it, except that a
 * call that fails waits for its lines for at most 0.02 s, and tuttiCommDestroy, fork and exit for at most 0.1 s. If
 * lines come faster than it takes them, some are left out, and counted. On return the old callback is not running any
 * more, unless it makes this call itself. */
TUTTI_API tuttiResult_t tuttiSetLogCallback(void (*fn)(int level, const char* line, void* user), void* user);
/** Gives row `index` of the table of settings: name, value in force in this environment, default, meaning. The strings
 * are valid until the thread's next call. tuttiInvalidArgument past the end of the table. */
TUTTI_API tuttiResult_t tuttiSettingInfo(int index, const char** name, const char** value, const char** initial,
                                         const char** meaning);

/* ------------------------------------------------------------------ joining and leaving */

/** Makes an id and serves it from this process (which need not be a rank) until it is used or the process ends. One id
 * makes one communicator. */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);
/** Joins as `rank` of `nranks`; blocks until all ranks joined or the join's deadline. In a group it is done at
 * tuttiGroupEnd. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank);
/** Does what tuttiCommInitRank does, with options. If config is NULL, the settings count. */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                                const tuttiConfig_t* config);
/** Joins by URL: "env://" (where nranks and rank may be -1, to take them from the launcher), "tcp://host:port",
 * "file:///path". The k-th join of a process by one URL meets the k-th join of the others. */
TUTTI_API tuttiResult_t tuttiCommInitUrl(tuttiComm_t* comm, const char* url, int nranks, int rank,
                                         const tuttiConfig_t* config);
/** Makes ndev ranks in this process; comms[i] is rank i. devlist is for device buffers only: the device of each rank.
 * If it is NULL, rank i has device i modulo the number of devices. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist);
/** Collective. Ranks of equal color (>= 0) form a communicator, in the order of key, and of the old rank if keys are
 * equal. A rank with TUTTI_SPLIT_NOCOLOR takes part and gets NULL. */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm,
                                       const tuttiConfig_t* config);
/** Collective, and so has a place in the order of calls. Drains this rank's operations and waits until every rank has
 * finished them too (or has left), so that a failure of another rank is known here. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/** Finalizes and frees the communicator; if it has failed, the call is local. The handle is gone whatever is returned,
 * except tuttiInvalidUsage, which says that another call is in progress on it, or that this is a callback of a stream.
 */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/** Ends calls in progress with tuttiAborted and fails the communicator for good. Any thread; local. Returns within
 * 0.1 s. The communicator is freed once no call uses it any more. Do not use the handle again; calls on it are
 * refused. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/** From any thread, local: ends the calls of all ranks, under way and later, with tuttiAborted and a text that names
 * the revoker; returns within 0.1 s. Other ranks hear of it at once, and their calls end when they have. A failure that
 * came first stays the cause: on a failed communicator nothing happens. Of several revokers ranks may name different
 * ones. A call under way may have succeeded on some ranks; where it did not, its output is undefined, but not written
 * any more once the call, or its stream, has reported its end. The handle stays, and takes tuttiCommDestroy. `flags`:
 * 0.
 */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags);
/** Makes a communicator of the ranks that stay. Every rank that stays calls it, on a healthy, failed or revoked
 * communicator; it takes no place in the order of calls, and blocks. In the new one are all ranks of the old but the
 * `nexclude` ones that anybody has in `exclude`, those that died, for which nobody waits, and those that have not
 * called by the deadline: config.joinTimeoutSeconds if set, else 10 s; 0 waits for live ranks for ever. They keep their
 * order; tuttiCommGetInfo(newcomm, "members") gives their old numbers. Ranks that reach each other agree, also if more
 * die meanwhile. A rank left out gets tuttiRemoteError here and from its next call, and stays out; splits that contain
 * it are revoked. If one rank passes TUTTI_SHRINK_ABORT, or the communicator has failed, all act as with that flag.
 * After TUTTI_SHRINK_DEFAULT the old communicator stays usable if no live rank was left out. A wrong rank in `exclude`,
 * the own one included, is tuttiInvalidArgument on this rank alone. If the call fails, *newcomm is NULL, it may be
 * made again, and tuttiGetLastError(NULL) has the reason. If the network is cut, each side may go on by itself: check
 * the count if that matters. Inside a group *newcomm is set by tuttiGroupEnd. Registrations and reduction operations
 * are not taken along. The old communicator stays, and takes tuttiCommDestroy. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* exclude, int nexclude, tuttiComm_t* newcomm,
                                        const tuttiConfig_t* config, int flags);
/** Makes an id by which newcomers join the communicator of one tuttiCommGrow, and serves it from this process until it
 * is used or `comm` is destroyed; local. One rank calls it, hands the id to the newcomers, and passes it to
 * tuttiCommGrow. Whoever has the id can join. On a communicator that has failed: its first error. */
TUTTI_API tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id);
/** Makes a communicator of the ranks of `comm`, which keep their numbers, and of newcomers; blocks until all `nranks`
 * have joined. For the ranks of comm it is collective, and so has a place in the order of calls; they pass rank -1, and
 * `id` NULL but for the rank that made it by tuttiCommGetUniqueId on comm. A newcomer passes comm NULL, the id and its
 * rank; the newcomers are comm's size to nranks - 1, each once. nranks is greater than comm's size. What is wrong in
 * this is tuttiInvalidArgument on all: the ranks of comm agree before they join, and tell the newcomers. Unset fields
 * of the config take comm's values for its ranks, and the TUTTI_* settings for newcomers; what ranks must agree on,
 * such as `deterministic`, is tuttiMismatch on all if it differs. config.joinTimeoutSeconds counts for newcomers from
 * their call, for the others from when all of them have called; then a missing rank is named (tuttiTimeout). A
 * newcomer that dies before it has come near takes all this time, since nobody knows of it. As after any join, a rank
 * that dies in the last moment may leave the call successful on some ranks only: who must know lets the grown one
 * shrink, without excluding anybody. An id serves one attempt, so make a new one after a failure. Unless one of its
 * ranks died, comm is as before, whatever became of the call, and stays usable. Argument errors of one rank alone
 * (`newcomm` NULL, comm and id NULL, comm with another rank than -1, a wrong config) are seen on that rank only. Inside
 * a group *newcomm is set by tuttiGroupEnd. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank,
                                      tuttiComm_t* newcomm, const tuttiConfig_t* config);
/** Gives tuttiSuccess in *asyncError while the communicator is healthy, else its first failure. Any thread, at any
 * time; does not block. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* asyncError);
/** Sets the timeout of operations from the next one on; 0 means for ever. */
TUTTI_API tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, double seconds);
/** The number of ranks. Local; at any time. */
TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count);
/** This rank's number, from 0. Local; at any time. */
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);
/** Gives what the communicator uses, as text. The key is "transport", "algorithm:<collective>:<bytes>" with bytes =
 * count times element size as in the call, e.g. "algorithm:all_reduce:1048576", or "algorithms:<collective>", which
 * gives the names that TUTTI_ALGO may have, comma-separated. "device_transport" and
 * "device_algorithm:<collective>:<bytes>" are for calls on device buffers, and tuttiUnsupported if there is no device;
 * the value "two_levels: ring" means kernels within hosts, and a ring of their ranks of one index. "members" gives the
 * old ranks of what tuttiCommShrink made, such as "0 1 3". Writes at most
 * `size` bytes with the final 0; a value that does not fit is cut, and the result is tuttiInvalidArgument, for which
 * tuttiGetLastError says how many bytes there are. */
TUTTI_API tuttiResult_t tuttiCommGetInfo(tuttiComm_t comm, const char* key, char* value, size_t size);

/* ------------------------------------------------------------------ collectives
 * In place: AllReduce, Reduce, Broadcast, AllToAll: sendbuff == recvbuff; AllGather: sendbuff == recvbuff + rank*count;
 * ReduceScatter: recvbuff == sendbuff + rank*count; Gather, Scatter: that, at the root. Each rank decides alone whether
 * it is in place. Any other overlap is tuttiInvalidArgument. Buffers that a rank neither reads nor writes may be NULL;
 * a count of 0 is legal.
 *
 * Arithmetic: results are bitwise equal on all ranks and repeatable. Integers wrap; Avg divides the wrapped sum toward
 * zero; float Avg divides before the only rounding. Min and Max with a NaN give NaN; -0 < +0. Floats of 8 and 16 bits
 * are added in float32 wherever more than two values meet; a float8e4m3, which has no infinity, becomes NaN when it
 * exceeds its range, and a float8e5m2 Inf.
 *
 * Wire types: reductions (AllReduce, Reduce, ReduceScatter) of float32 can travel as float16, bfloat16, float8e4m3 or
 * float8e5m2, by config.wireType or by the ...Wire calls. The result is that of the same call on buffers of the wire
 * type, widened: inputs are rounded once, sums are formed in float32 and rounded once more. How large the error can be
 * is in docs/design/wire_types.md.
 *
 * Deterministic mode (TUTTI_DETERMINISTIC=1 or config.deterministic): the bits of a result depend on the ranks' data
 * alone, not on algorithm, transport, size or place. Of ranks [lo, hi): sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid
 * = lo + the largest power of two below hi - lo, partial sums in float32 (float64 for float64), one rounding at the
 * end. It excludes wire types. */

/** recvbuff[i] = op over all ranks of sendbuff[i]. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/** Does what tuttiAllReduce does, with the result on the root only. recvbuff is not touched elsewhere. */
TUTTI_API tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                    tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream);
/** sendbuff has nranks blocks of recvcount; rank r gets the reduced block r. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           tuttiDataType_t datatype, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);
/** Copies the root's sendbuff to every rank's recvbuff. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                       int root, tuttiComm_t comm, tuttiStream_t stream);
/** recvbuff has nranks blocks of sendcount; block r is rank r's sendbuff. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t datatype,
                                       tuttiComm_t comm, tuttiStream_t stream);
/** Returns when every rank has called it. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/** These are the reductions with a wire type for this call alone. datatype is tuttiFloat32; op is built in or a
 * PreMulSum. */
TUTTI_API tuttiResult_t tuttiAllReduceWire(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                           tuttiRedOp_t op, tuttiDataType_t wireType, tuttiComm_t comm,
                                           tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiReduceWire(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                        tuttiRedOp_t op, int root, tuttiDataType_t wireType, tuttiComm_t comm,
                                        tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiReduceScatterWire(const void* sendbuff, void* recvbuff, size_t recvcount,
                                               tuttiDataType_t datatype, tuttiRedOp_t op, tuttiDataType_t wireType,
                                               tuttiComm_t comm, tuttiStream_t stream);

/** recvbuff has nranks blocks; block r, of recvcounts[r] elements, begins at displs[r] and is rank r's sendbuff.
 * recvcounts are equal on all ranks; displs need not be. Both are copied before the call returns. sendcount is
 * recvcounts[rank]. In place: sendbuff == recvbuff + displs[rank]. Gaps between blocks stay as they are. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* sendbuff, void* recvbuff, size_t sendcount,
                                        const size_t* recvcounts, const size_t* displs, tuttiDataType_t datatype,
                                        tuttiComm_t comm, tuttiStream_t stream);
/** The root's recvbuff has nranks blocks of count; block r is rank r's sendbuff. */
TUTTI_API tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                    int root, tuttiComm_t comm, tuttiStream_t stream);
/** Copies block r of the root's sendbuff, of count elements, to rank r's recvbuff. */
TUTTI_API tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                     int root, tuttiComm_t comm, tuttiStream_t stream);
/** Both buffers have nranks blocks of count; block r of rank s's sendbuff becomes block s of rank r's recvbuff. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                      tuttiComm_t comm, tuttiStream_t stream);
/** Does what tuttiAllToAll does, with blocks of different sizes. Rank s's sendcounts[r] equals rank r's recvcounts[s].
 * There is no in place form. The arrays are copied before the call returns. */
TUTTI_API tuttiResult_t tuttiAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                       tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream);

/* ------------------------------------------------------------------ sends and receives
 * They are between two ranks, or of a rank with itself. They take no place in the order of collectives and are matched
 * in order per pair and tag; Send and Recv are those with tag 0. Type and count of both sides are equal, else the
 * receiver gets tuttiMismatch. A send returns when its buffer may be used again; it may wait for the receive (a message
 * to oneself never does). In a group all sends and receives of a communicator, which are on one stream, proceed
 * together, in any pattern, and before the group's collectives of that communicator. Messages that come before their
 * receive while the receiver waits for another one are kept in memory of the receiver. */

/** Sends to rank `peer`. */
TUTTI_API tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
/** Receives from rank `peer`. */
TUTTI_API tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);
/** Sends with a tag, which may be any int. */
TUTTI_API tuttiResult_t tuttiSendTag(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                                     tuttiComm_t comm, tuttiStream_t stream);
/** Receives from rank peerOrAny, or, if that is TUTTI_ANY_SOURCE, from whoever sends first with this tag. *source (if
 * not NULL) is set when it is done. */
TUTTI_API tuttiResult_t tuttiRecvTag(void* recvbuff, size_t count, tuttiDataType_t datatype, int peerOrAny, int tag,
                                     int* source, tuttiComm_t comm, tuttiStream_t stream);

/* ------------------------------------------------------------------ operations made by the user
 * An operation is for one communicator. All ranks of that make and destroy their operations in the same order. */

/** Makes the sum of each rank's scalar * input. The product is rounded to the type once, then summed as by tuttiSum.
 * `scalar` is one element of `datatype`, and each rank has its own. It is read now with tuttiScalarHostImmediate, and
 * when a call runs with tuttiScalarDevice. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t datatype,
                                                  tuttiScalarResidence_t residence, tuttiComm_t comm);
/** Makes an operation of fn, which computes inout[i] = in[i] op inout[i], with `in` from lower ranks. fn is called on
 * pieces of the buffers, possibly on library threads and by several at once. op is associative; if `commutative` is 0,
 * operands are combined in rank order. */
TUTTI_API tuttiResult_t tuttiRedOpCreateCustom(tuttiRedOp_t* op,
                                               void (*fn)(const void* in, void* inout, size_t count,
                                                          tuttiDataType_t datatype, void* user),
                                               int commutative, void* user, tuttiComm_t comm);
/** Destroys an operation. Calls under way keep it; new ones with it are refused. */
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ------------------------------------------------------------------ groups */

/** Calls between Start and End (nested: the outermost pair) are collected and done at End, concurrently across
 * communicators: several ranks in one thread need it. Grouped calls whose stream is NULL return at once; End reports
 * the first error and has one deadline. If collectives of a communicator are in a group, all its ranks make the same
 * ones in a group, because small all-reduces of one type and operation are packed into one exchange. Their results are
 * as if each had run alone, bit by bit. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);

/* ------------------------------------------------------------------ streams */

/** Makes an in-order queue, which the library's progress thread serves. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/** Makes a stream in the order of a CUDA stream, which it borrows (NULL: the legacy default stream). Calls on it take
 * device buffers, are put there before they return, and report errors like other streams. tuttiUnsupported: no CUDA
 * device. While the CUDA stream is captured into a graph, a call that kernels run becomes a part of the graph; all
 * ranks capture the same calls. A replay needs nothing of the host. The caller sees to it that replays and the
 * communicator's other calls run in the same order on all ranks, and that replays end before the communicator does.
 * A failure ends replays that wait, also without a call; tuttiCommGetAsyncError and the next call report it. A call
 * that goes through host memory, which a graph cannot do, is tuttiInvalidUsage. Ranks of one process and device whose
 * calls one thread makes are in a group; from other threads a call waits up to a second for these ranks' calls. */
TUTTI_API tuttiResult_t tuttiStreamFromCuda(tuttiStream_t* stream, void* cudaStream);
/** tuttiSuccess: all done; tuttiInProgress; or the stream's first error. Does not block. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);
/** Waits until the stream is empty; tuttiTimeout after the stream's timeout. Returns the stream's first error. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/** Bounds tuttiStreamSynchronize; 0, the default, means for ever. */
TUTTI_API tuttiResult_t tuttiStreamSetTimeout(tuttiStream_t stream, double seconds);
/** Waits for the stream's work, then frees the stream. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);
/** fn is called once when all work queued so far is done, also on error, on a library thread; it makes no blocking
 * tutti calls. */
TUTTI_API tuttiResult_t tuttiStreamAddCallback(tuttiStream_t stream, void (*fn)(tuttiResult_t result, void* user),
                                               void* user);

/* ------------------------------------------------------------------ memory */

/** Allocates host memory, page-aligned and zeroed, of huge pages where the system grants them. If it is the input of a
 * large call that does not write it (as a call in place does), local peers read it directly if the kernel lets them;
 * see TUTTI_CMA. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** ptr, size_t bytes);
/** Frees memory of tuttiMemAlloc or tuttiMemAllocDevice that no call uses; NULL is allowed. Device memory that other
 * processes have mapped is released later, once they have closed it and a later call here has heard of that. */
TUTTI_API tuttiResult_t tuttiMemFree(void* ptr);
/** Allocates zeroed memory of a device, to be freed by tuttiMemFree. Both may wait for all kernels of the device, as
 * cudaMalloc and cudaFree do. tuttiUnsupported: no CUDA device. */
TUTTI_API tuttiResult_t tuttiMemAllocDevice(void** ptr, size_t bytes, int device);
/** Lets local peers read `ptr` directly, like memory from tuttiMemAlloc. Local. Deregister before the memory is freed.
 * Device memory must come from cudaMalloc. Other processes map the whole allocation that holds `ptr`, and may keep it
 * mapped for some time after tuttiCommDeregister, until they next allocate or free by Tutti, or end the communicator;
 * memory of tuttiMemAllocDevice stays until then by itself. */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* ptr, size_t bytes, void** handle);
/** Ends a registration, by the handle that it gave. Local. */
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);
/** Memory that the communicator has at the moment, in bytes. Local. */
TUTTI_API tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiMemStat_t what, uint64_t* bytes);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_H_ */
