// Streams of devices in the terms that torch has for all of them. So what is written by them runs on CUDA, and on the
// device that the tests make of host memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "work.h"

namespace tutti_torch {

/// Whether this build can read tensors of such devices: of CUDA if it was compiled against a torch that has it.
bool reaches(c10::DeviceType type);
/// Says why tensors of a GPU have to go through host memory, or is empty: then calls on them can be put on their
/// streams. The first call may start the driver.
const std::string& why_no_streams();

/// The device that all of `tensors` are on; the CPU if there are none. Raises ValueError if there are several, or one
/// that this build does not reach. `title` names the operation.
c10::Device device_of(const char* title, const std::vector<at::Tensor>& tensors);

/// The calling thread's.
c10::Stream current_stream(const c10::Device& device);
/// One of torch's pool, of high priority. It lives as long as the process.
c10::Stream pool_stream(const c10::Device& device);
/// The handle by which Tutti knows the stream, such as a cudaStream_t.
void* native_handle(const c10::Stream& stream);
/// Whether what is put on the stream now becomes a part of a graph. It is the calling thread's current one.
bool is_captured(const c10::Stream& stream);
/// All work that is put on `later` from now on runs after the work that is on `earlier` now.
void order(const c10::Stream& earlier, const c10::Stream& later);

}  // namespace tutti_torch
