// The flat generators of the catalogue, but for knomial trees of other degrees, called from a kernel: each thread
// writes out one step of the calling rank's schedule. No relaxed-constexpr switch is used, so a generator that calls a
// host function does not compile.
// Covers collectives/*.h.
#include "collectives/all_pairs.h"
#include "collectives/bruck.h"
#include "collectives/chain.h"
#include "collectives/dissemination.h"
#include "collectives/double_tree.h"
#include "collectives/halving_doubling.h"
#include "collectives/knomial.h"
#include "collectives/knomial_blocks.h"
#include "collectives/pairwise.h"
#include "collectives/pat.h"
#include "collectives/recursive_doubling.h"
#include "collectives/recursive_halving.h"
#include "collectives/ring.h"
#include "collectives/scatter_all_gather.h"
#include "collectives/tree.h"

namespace tutti {
namespace {

/// The three functions of an algorithm, as template arguments so that the device needs no table of pointers.
template <std::uint32_t (*steps)(const Shape&), Extent (*extent)(const Shape&),
          Step (*step)(const Shape&, std::uint32_t, std::uint32_t)>
__global__ void write_schedule(Shape shape, Step* table, Extent* extents) {
  const std::uint32_t count = steps(shape);
  const std::uint32_t lane = blockIdx.x;
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) table[lane * count + i] = step(shape, lane, i);
  if (lane == 0 && threadIdx.x == 0) *extents = extent(shape);
}

}  // namespace

/// Launches every generator's kernel on `stream`, one block a lane. `table` must hold the longest schedule.
cudaError_t write_schedules(const Shape& shape, Step* table, Extent* extents, cudaStream_t stream) {
  const auto lanes = static_cast<unsigned>(shape.lanes);
  constexpr unsigned kThreads = 128;
#define TUTTI_WRITE(steps, extent, step) \
  write_schedule<steps, extent, step><<<lanes, kThreads, 0, stream>>>(shape, table, extents)
  TUTTI_WRITE(ring::all_reduce_steps, ring::all_reduce_extent, ring::all_reduce_step);
  TUTTI_WRITE(ring::reduce_scatter_steps, ring::reduce_scatter_extent, ring::reduce_scatter_step);
  TUTTI_WRITE(ring::all_gather_steps, ring::all_gather_extent, ring::all_gather_step);
  TUTTI_WRITE(all_pairs::all_reduce_steps, all_pairs::whole_extent, all_pairs::all_reduce_step);
  TUTTI_WRITE(all_pairs::two_shot_steps, all_pairs::two_shot_extent, all_pairs::two_shot_step);
  TUTTI_WRITE(all_pairs::reduce_scatter_steps, all_pairs::reduce_scatter_extent, all_pairs::reduce_scatter_step);
  TUTTI_WRITE(all_pairs::all_gather_steps, all_pairs::all_gather_extent, all_pairs::all_gather_step);
  TUTTI_WRITE(all_pairs::broadcast_steps, all_pairs::whole_extent, all_pairs::broadcast_step);
  TUTTI_WRITE(all_pairs::reduce_steps, all_pairs::whole_extent, all_pairs::reduce_step);
  TUTTI_WRITE(all_pairs::gather_steps, all_pairs::all_gather_extent, all_pairs::gather_step);
  TUTTI_WRITE(all_pairs::scatter_steps, all_pairs::reduce_scatter_extent, all_pairs::scatter_step);
  TUTTI_WRITE(all_pairs::all_to_all_steps, all_pairs::all_to_all_extent, all_pairs::all_to_all_step);
  TUTTI_WRITE(all_pairs::all_to_all_steps, all_pairs::all_to_all_extent, pairwise::all_to_all_step);
  TUTTI_WRITE(pairwise::reduce_scatter_steps, all_pairs::reduce_scatter_extent, pairwise::reduce_scatter_step);
  TUTTI_WRITE(pairwise::all_gather_steps, all_pairs::all_gather_extent, pairwise::all_gather_step);
  TUTTI_WRITE(all_pairs::barrier_steps, all_pairs::barrier_extent, all_pairs::barrier_step);
  TUTTI_WRITE(recursive_doubling::all_reduce_steps, recursive_doubling::all_reduce_extent,
              recursive_doubling::all_reduce_step);
  TUTTI_WRITE(chain::steps, chain::extent, chain::broadcast_step);
  TUTTI_WRITE(chain::steps, chain::extent, chain::reduce_step);
  TUTTI_WRITE(tree::steps, tree::broadcast_extent, tree::broadcast_step);
  TUTTI_WRITE(tree::steps, tree::reduce_extent, tree::reduce_step);
  TUTTI_WRITE(knomial::steps<4>, knomial::broadcast_extent, knomial::broadcast_step<4>);
  TUTTI_WRITE(knomial::steps<4>, knomial::reduce_extent<4>, knomial::reduce_step<4>);
  TUTTI_WRITE(double_tree::steps, double_tree::broadcast_extent, double_tree::broadcast_step);
  TUTTI_WRITE(double_tree::steps, double_tree::reduce_extent, double_tree::reduce_step);
  TUTTI_WRITE(double_tree::all_reduce_steps, double_tree::all_reduce_extent, double_tree::all_reduce_step);
  TUTTI_WRITE(halving_doubling::all_reduce_steps, halving_doubling::all_reduce_extent,
              halving_doubling::all_reduce_step);
  TUTTI_WRITE(bruck::all_gather_steps, bruck::all_gather_extent, bruck::all_gather_step);
  TUTTI_WRITE(bruck::all_to_all_steps, bruck::all_to_all_extent, bruck::all_to_all_step);
  TUTTI_WRITE(recursive_halving::reduce_scatter_steps, recursive_halving::reduce_scatter_extent,
              recursive_halving::reduce_scatter_step);
  TUTTI_WRITE(pat::reduce_scatter_steps, pat::reduce_scatter_extent, pat::reduce_scatter_step);
  TUTTI_WRITE(pat::all_gather_steps, pat::all_gather_extent, pat::all_gather_step);
  TUTTI_WRITE(scatter_all_gather::broadcast_steps, scatter_all_gather::broadcast_extent,
              scatter_all_gather::broadcast_step);
  TUTTI_WRITE(knomial::block_steps<2>, knomial::gather_extent<2>, knomial::gather_step<2>);
  TUTTI_WRITE(knomial::block_steps<2>, knomial::scatter_extent<2>, knomial::scatter_step<2>);
  TUTTI_WRITE(dissemination::barrier_steps, dissemination::barrier_extent, dissemination::barrier_step);
  TUTTI_WRITE(recursive_doubling::barrier_steps, recursive_doubling::barrier_extent, recursive_doubling::barrier_step);
#undef TUTTI_WRITE
  return cudaGetLastError();
}

}  // namespace tutti
