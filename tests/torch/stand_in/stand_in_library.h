/* What the library with the stand-in driver has besides Tutti's functions: the part of CUDA that a torch device needs.
 */
#ifndef TUTTI_STAND_IN_LIBRARY_H_
#define TUTTI_STAND_IN_LIBRARY_H_

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The process sees so many devices, of which the first is the host's GPU of that number. Before all else. */
TUTTI_API void tuttiStandInStart(int devices, int first_gpu);
/** Streams of a device share so many hardware queues from now on. Before the first stream. */
TUTTI_API void tuttiStandInSetConnections(int connections);
/** The calling thread's device from now on. */
TUTTI_API void tuttiStandInUse(int device);
/** NULL: there is no memory. */
TUTTI_API void* tuttiStandInAllocate(int device, size_t bytes);
/** Waits for no kernel, so what runs on a stream may call it. Torch's own allocator keeps what it gets back, and does
 * not wait either. */
TUTTI_API void tuttiStandInFree(int device, void* memory);
TUTTI_API void* tuttiStandInCreateStream(int device);
/** fn(user) runs in the order of the stream, on another thread. On a captured stream it runs at each launch. */
TUTTI_API void tuttiStandInPut(void* stream, void (*fn)(void* user), void* user);
TUTTI_API void tuttiStandInSynchronize(void* stream);
TUTTI_API void* tuttiStandInCreateEvent(void);
TUTTI_API void tuttiStandInDestroyEvent(void* event);
TUTTI_API void tuttiStandInRecord(int device, void* event, void* stream);
TUTTI_API void tuttiStandInWait(int device, void* stream, void* event);
TUTTI_API int tuttiStandInQuery(void* event);
/** Kernels so far. */
TUTTI_API size_t tuttiStandInLaunches(void);
TUTTI_API void tuttiStandInBeginCapture(void* stream);
/** Ends the capture of the first of these streams; the others may be captured with it. NULL: something has ended it
 * before. The graph is never freed. */
TUTTI_API void* tuttiStandInEndCapture(void** streams, int count);
TUTTI_API void tuttiStandInLaunch(void* graph, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_STAND_IN_LIBRARY_H_ */
