#include "ptx/grid.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "ptx/context.h"

namespace tutti::ptx {
namespace {

enum class State { kRunnable, kAtBarrier, kDone };

/// What the threads of one block share. Every thread that comes to a barrier adds to its clock, and reads it when it
/// goes on: that, and nothing else, orders what they did before and do after. Two clocks take turns, since some threads
/// come to the next barrier before others go on from this one.
struct Block {
  std::unique_ptr<std::byte[]> shared;
  std::byte* shared_begin = nullptr;
  std::size_t shared_size = 0;
  std::array<std::atomic<u64>, 2> clocks{};
  std::atomic<bool> result{false};
  // Of the scheduler.
  unsigned arrived = 0;
  unsigned ended = 0;
  bool any = false;
};

}  // namespace

/// What a thread of a launch is on the host. States and votes pass between it and the scheduler, which are of one
/// thread of the host.
class Fiber {
 public:
  Fiber(const Kernel& kernel, std::byte* parameter, Context* scheduler, Block* block)
      : kernel_(kernel), parameter_(parameter), scheduler_(scheduler), block_(block) {}

  void pause(State state) {
    state_.store(state, std::memory_order_relaxed);
    switch_context(&context, scheduler_, false);
  }
  void set_place(u32 tid, u32 ctaid, u32 nctaid) { thread_ = Thread(this, tid, ctaid, nctaid); }
  void execute() {
    kernel_.run(thread_, parameter_);
    Context* const scheduler = scheduler_;
    // Pairs with state(). The scheduler may free all this then.
    state_.store(State::kDone, std::memory_order_release);
    switch_context(&context, scheduler, true);
  }
  bool vote(bool mine) {
    vote_.store(mine, std::memory_order_relaxed);
    std::atomic<u64>& clock = block_->clocks[barriers_++ % 2];
    clock.fetch_add(1, std::memory_order_release);  // pairs with the load
    pause(State::kAtBarrier);
    clock.load(std::memory_order_acquire);
    return block_->result.load(std::memory_order_relaxed);
  }

  State state() const { return state_.load(std::memory_order_acquire); }
  void set_state(State state) { state_.store(state, std::memory_order_relaxed); }
  bool voted() const { return vote_.load(std::memory_order_relaxed); }
  Block& block() const { return *block_; }

  Context context;

 private:
  const Kernel& kernel_;
  std::byte* parameter_;
  Context* scheduler_;
  Block* block_;
  Thread thread_{this, 0, 0, 0};
  std::size_t barriers_ = 0;  ///< to which it has come
  std::atomic<State> state_{State::kRunnable};
  std::atomic<bool> vote_{false};
};

namespace {

void begin_fiber(void* fiber) { static_cast<Fiber*>(fiber)->execute(); }

class Grid {
 public:
  Grid(const Kernel& kernel, const void* parameter, unsigned blocks)
      : kernel_(kernel), parameter_(kernel.parameter_size), stacks_(std::size_t{blocks} * kernel.threads) {
    const auto* const from = static_cast<const std::byte*>(parameter);
    std::copy(from, from + kernel.parameter_size, parameter_.begin());
    become_context(&scheduler_);
    for (unsigned b = 0; b < blocks; ++b) add_block(b, blocks);
  }
  ~Grid() {
    for (const auto& fiber : fibers_) end_context(&fiber->context);
  }

  void run() {
    std::size_t left = fibers_.size();
    while (left > 0) {
      for (const auto& fiber : fibers_) {
        if (fiber->state() != State::kRunnable) continue;
        switch_context(&scheduler_, &fiber->context, false);
        left -= fiber->state() == State::kDone ? 1 : 0;
        note(*fiber);
      }
      std::this_thread::yield();  // what is waited for may be another rank's, on this core
    }
  }

 private:
  void add_block(unsigned index, unsigned blocks) {
    blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_.back();
    if (kernel_.shared_end != 0) {
      constexpr std::size_t kAlign = 256;
      constexpr std::byte kUnwritten{0xa5};
      block.shared_size = kernel_.shared_end - kSharedBegin;
      block.shared = std::make_unique<std::byte[]>(block.shared_size + kAlign);
      std::fill_n(block.shared.get(), block.shared_size + kAlign, kUnwritten);
      const u64 begin = address(block.shared.get());
      block.shared_begin = block.shared.get() + (kAlign - begin % kAlign);
    }
    for (unsigned t = 0; t < kernel_.threads; ++t) add_thread(&block, t, index, blocks);
  }

  void add_thread(Block* block, unsigned thread, unsigned index, unsigned blocks) {
    fibers_.push_back(std::make_unique<Fiber>(kernel_, parameter_.data(), &scheduler_, block));
    Fiber* const fiber = fibers_.back().get();
    fiber->set_place(thread, index, blocks);
    make_context(&fiber->context, stacks_[fibers_.size() - 1], Stacks::kEach, begin_fiber, fiber);
  }

  /// Notes where a fiber is that has just paused. The last one that comes to a barrier opens it.
  void note(Fiber& fiber) {
    Block& block = fiber.block();
    if (fiber.state() == State::kRunnable) return;
    if (fiber.state() == State::kDone) ++block.ended;
    if (fiber.state() == State::kAtBarrier) {
      ++block.arrived;
      block.any = block.any || fiber.voted();
    }
    if (block.arrived != 0 && block.ended != 0) fault("a thread has ended while others wait for it at a barrier");
    if (block.arrived != kernel_.threads) return;
    block.result.store(block.any, std::memory_order_relaxed);
    block.arrived = 0;
    block.any = false;
    for (const auto& one : fibers_)
      if (&one->block() == &block) one->set_state(State::kRunnable);
  }

  const Kernel& kernel_;
  std::vector<std::byte> parameter_;
  Stacks stacks_;
  Context scheduler_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

}  // namespace

void run(const Kernel& kernel, const void* parameter, unsigned blocks) { Grid(kernel, parameter, blocks).run(); }

void fault(const char* what) {
  std::fprintf(stderr, "translated PTX: %s\n", what);
  std::abort();
}

u64 Thread::globaltimer() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

bool Thread::any(bool mine) { return fiber_->vote(mine); }

void Thread::look() { fiber_->pause(State::kRunnable); }

u64 Thread::from_shared(u64 place) const {
  const Block& block = fiber_->block();
  if (place < kSharedBegin || place - kSharedBegin > block.shared_size) fault("an address outside of shared memory");
  return address(block.shared_begin) + (place - kSharedBegin);
}

u64 Thread::to_shared(u64 where) const {
  const Block& block = fiber_->block();
  const u64 place = where - address(block.shared_begin);
  if (place >= block.shared_size) fault("an address outside of shared memory");
  return place + kSharedBegin;
}

std::byte* Thread::shared(u32 place, std::size_t size) const {
  const Block& block = fiber_->block();
  if (place < kSharedBegin || place - kSharedBegin + size > block.shared_size)
    fault("an access outside of shared memory");
  return aligned(address(block.shared_begin) + (place - kSharedBegin), size);
}

std::byte* Thread::global(u64 where, std::size_t size) const {
  const Block& block = fiber_->block();
  const Context& context = fiber_->context;
  if (where - address(block.shared_begin) < block.shared_size) fault("shared memory accessed as global memory");
  if (where - address(context.stack) < context.stack_size) fault("local memory accessed as global memory");
  return aligned(where, size);
}

}  // namespace tutti::ptx
