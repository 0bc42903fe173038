// The interpreter of schedules that runs inside a kernel, where each thread block runs one lane, and on the host, where
// the threads of a block are threads. docs/design/schedule.md says what a step means. The binding knows where chunks
// lie, and the port moves messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/device/device_call.h"
#include "executor/device/device_port.h"
#include "kernels/device/device_reduction.h"

namespace tutti {

/// The reduction of one pair of type and operation of list_reductions().
template <class Format, class Op, device::Trees kTrees = device::Trees::kIfAsked>
struct DeviceKernel {
  /// Reduces `args.count` elements of `element` bytes. If the pair works on bytes, it gets their number.
  TUTTI_HD void reduce(unsigned thread, unsigned threads, device::ReduceArgs args, Bytes element) const {
    args.count = args.count * element.value / sizeof(typename Format::Storage);
    device::reduce<Format, Op, kTrees>(thread, threads, args);
  }
};

/// `Block` stands for the threads that run a lane. It has index(), thread(), threads(), sync(), and any(bool), which is
/// a sync() that returns whether any thread passed true. `Kernel` is a DeviceKernel, or has such a function.
template <class Block, class Kernel>
class DeviceInterpreter {
 public:
  /// Every thread of the block makes one.
  TUTTI_HD DeviceInterpreter(const DeviceCall& call, Block& block, BlockMemory& memory, const Kernel& kernel)
      : call_(call), block_(block), kernel_(kernel), port_(call, block, memory), binding_(memory.binding) {
    if (block.thread() == 0) bind(&memory.binding);  // the others see it after the barrier of open()
  }

  /// Runs the block's part of the call to its end, or until a wait gives up.
  TUTTI_HD void run() {
    run_lane();
    port_.say_end(call_.number);
  }

 private:
  TUTTI_HD void run_lane() {
    if (!port_.open()) return;
    const std::uint32_t lane = block_.index() % call_.lanes;
    const Step* const program = (call_.table != nullptr ? call_.table : call_.steps) + lane * call_.steps_per_lane;
    const std::size_t tiles = call_.steps_per_lane == 0 ? 0 : binding_.tiles();
    for (std::size_t tile = block_.index() / call_.lanes; tile < tiles; tile += call_.stripes) {
      for (std::uint32_t i = 0; i < call_.steps_per_lane; ++i)
        if (!run_step(program[i], tile)) return;
    }
    port_.close(call_.lends);
  }

  TUTTI_HD void bind(Binding* binding) const {
    *binding = call_.binding;
    binding->scratch += call_.scratch_stride * block_.index();
    if (!binding->is_ragged) return;
    const BlockTable input{call_.blocks[0], call_.blocks[1], call_.input_blocks};
    const BlockTable output{call_.blocks[2], call_.blocks[3], call_.output_blocks};
    binding->ragged = RaggedTiling(input, output, call_.tile);
  }

  TUTTI_HD bool run_step(const Step& step, std::size_t tile) {
    const Binding::Share share = binding_.share(step, tile, call_.fingerprint);
    return !share.exists || run_step(step, tile, share.count, share.fingerprint);
  }

  // Before the first barrier each thread waits for its own peers. Between the two barriers every thread works on the
  // step's elements. After the second, what was read is released and what was written is published.
  TUTTI_HD bool run_step(const Step& step, std::size_t tile, Elems count, Fingerprint fingerprint) {
    const Bytes bytes{count.value * binding_.wire_element.value};
    port_.begin(step, bytes, fingerprint, lent(step, tile));
    const bool arrived = port_.await();
    if (block_.thread() == 0 && port_.peers().count > 1) port_.sources()[port_.place()] = own(step, tile);
    if (block_.any(!arrived)) return false;
    if (count.value != 0) compute(step, tile, count);
    if (!port_.is_moving()) return true;
    port_.advance();
    block_.sync();
    port_.finish();
    return true;
  }

  TUTTI_HD std::uint64_t lent(const Step& step, std::size_t tile) const {
    const std::byte* const stays = staying(step, tile);
    return stays == nullptr ? 0 : call_.place_of(stays);
  }

  /// Returns where in the caller's buffers the step's message can stay to be read, which is where its value is taken
  /// from or stored, or nullptr.
  TUTTI_HD const std::byte* staying(const Step& step, std::size_t tile) const {
    if (!call_.lends || !step.has(kSend) || !binding_.is_one_range(step)) return nullptr;
    if (step.has(kStore)) return step.dst_buffer == BufferId::kScratch ? nullptr : binding_.destination(step, tile);
    const bool only_sends = !step.has(kRecv) && step.src_buffer != BufferId::kScratch;
    return only_sends && step.src_buffer != BufferId::kNone ? binding_.source(step, tile) : nullptr;
  }

  TUTTI_HD const std::byte* own(const Step& step, std::size_t tile) const {
    return step.src_buffer == BufferId::kNone ? nullptr : binding_.source(step, tile);
  }

  TUTTI_HD void compute(const Step& step, std::size_t tile, Elems count) {
    if (binding_.is_one_range(step)) return compute_run(step, tile, count, 0);
    std::size_t at = 0;
    for (std::uint32_t j = 0; j < step.span.count;) {
      const Binding::Run run = binding_.run_from(step, j, tile);
      if (run.count.value != 0) compute_run(run.step, tile, run.count, at);
      at += run.count.value * binding_.wire_element.value;
      j += run.chunks;
    }
  }

  /// Works on elements that lie one after another, in the message from byte `at` on.
  TUTTI_HD void compute_run(const Step& step, std::size_t tile, Elems count, std::size_t at) {
    void* destinations[2];
    int made = 0;
    if (port_.message() != nullptr) destinations[made++] = port_.message() + at;
    if (step.has(kStore)) destinations[made++] = binding_.destination(step, tile);
    if (made == 0) return;
    const bool set = step.recv_from >= PeerSet::kAll;
    const bool joins = step.has(kReduce) && !(set && port_.peers().count <= 1);
    if (joins && set) return reduce(step, port_.sources(), port_.peers().count, destinations, made, count);
    const std::byte* const own_chunk = own(step, tile);
    const std::byte* const other = step.recv_from == PeerSet::kOne ? port_.arrived() + at : nullptr;
    const void* const pair[2] = {step.is(kOwnLeft) ? own_chunk : other, step.is(kOwnLeft) ? other : own_chunk};
    if (joins) return reduce(step, pair, 2, destinations, made, count);
    const void* const value = other != nullptr ? other : own_chunk;
    if (call_.alone_reduces) return reduce(step, &value, 1, destinations, made, count);
    if (destinations[made - 1] == value) --made;  // in place
    if (made == 0) return;
    const Bytes bytes{count.value * binding_.element.value};
    device::copy(block_.thread(), block_.threads(), value, destinations, made, bytes);
  }

  TUTTI_HD void reduce(const Step& step, const void* const* sources, int source_count, void* const* destinations,
                       int destination_count, Elems count) {
    const std::uint32_t divisor = step.is(kComplete) ? call_.divisor : 1;
    kernel_.reduce(block_.thread(), block_.threads(),
                   {sources, source_count, destinations, destination_count, count.value, divisor, call_.tree_order},
                   binding_.element);
  }

  const DeviceCall& call_;
  Block& block_;
  const Kernel& kernel_;
  DevicePort<Block> port_;
  const Binding& binding_;
};

}  // namespace tutti
