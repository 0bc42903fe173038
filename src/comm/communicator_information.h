// What a communicator can be asked about itself: how its ranks are connected, what its calls would run, its memory.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"

namespace tutti {

/// The ranks that the ranks of a communicator made by a shrink had before it: "0 1 3". Returns kInvalidUsage if it was
/// made otherwise.
Status members_of(const Communicator& comm, std::string* text);

// These functions are for the API's thread, and wait for all operations that were made, unless they say otherwise.

/// How this rank reaches the others: "shm", "tcp", "shm and tcp", "inproc". Any thread.
const char* transport_of(const Communicator& comm);
/// How this rank's device buffers reach the others: "cuda", or "staged over" what host buffers use. Returns
/// kUnsupported if there is no device.
Status device_transport_of(Communicator& comm, std::string* text);

/// The algorithm that would run for a call. On device memory it may be one at two levels.
Status algorithm_for(Communicator& comm, Collective collective, Bytes bytes, bool on_device, std::string* text);
/// The names that TUTTI_ALGO may have for a collective of this communicator, comma-separated.
std::string algorithms_of(Communicator& comm, Collective collective);

/// Bytes of memory that peers can map: this rank's segment as far as it is touched. Any thread.
std::uint64_t shared_bytes_of(const Communicator& comm);
/// Bytes of private memory for schedules and scratch.
Status host_bytes_of(Communicator& comm, std::uint64_t* bytes);
/// Bytes of device memory for links and scratch.
Status device_bytes_of(Communicator& comm, std::uint64_t* bytes);

}  // namespace tutti
