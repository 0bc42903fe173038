// A raced collective as Tutti's C API has it.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>

#include "contested.h"

namespace tutti::race {

/// A broadcast is in place, as MPI's always is. `in` may be `out`.
inline tuttiResult_t call_tutti(Contested what, const float* in, float* out, std::size_t count, int root,
                                tuttiComm_t comm) {
  switch (what) {
    case Contested::kAllReduce:
      return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm, nullptr);
    case Contested::kAllGather:
      return tuttiAllGather(in, out, count, tuttiFloat32, comm, nullptr);
    case Contested::kBroadcast:
      return tuttiBroadcast(out, out, count, tuttiFloat32, root, comm, nullptr);
    case Contested::kReduce:
      return tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, root, comm, nullptr);
    case Contested::kReduceScatter:
      return tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiSum, comm, nullptr);
    case Contested::kAllToAll:
      return tuttiAllToAll(in, out, count, tuttiFloat32, comm, nullptr);
    case Contested::kGather:
      return tuttiGather(in, out, count, tuttiFloat32, root, comm, nullptr);
    case Contested::kScatter:
      return tuttiScatter(in, out, count, tuttiFloat32, root, comm, nullptr);
    case Contested::kBarrier:
      return tuttiBarrier(comm, nullptr);
  }
  return tuttiInvalidArgument;
}

}  // namespace tutti::race
