#include "support/device/host_grid.h"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "executor/device/device_interpreter.h"

namespace tutti::test {
namespace {

/// What the threads of one block share.
struct HostTeam {
  explicit HostTeam(std::uint32_t threads) : barrier(static_cast<std::ptrdiff_t>(threads)) {}
  std::barrier<> barrier;
  std::atomic<bool> said[3] = {};
};

/// The Block of one thread.
class HostBlock {
 public:
  HostBlock(HostTeam* team, std::uint32_t index, std::uint32_t thread, std::uint32_t threads, const HostRun& how)
      : team_(team), index_(index), thread_(thread), threads_(threads), how_(how) {}

  std::uint32_t index() const { return index_; }
  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return threads_; }
  void sync() {
    if (how_.barriers != nullptr && index_ == 0 && thread_ == 0) ++*how_.barriers;
    team_->barrier.arrive_and_wait();
  }
  /// Of three flags one is in use, one was just used and one is cleared for the next time.
  bool any(bool mine) {
    if (how_.pause.count() != 0) std::this_thread::sleep_for(how_.pause);
    if (mine) team_->said[turn_].store(true);
    sync();
    const bool result = team_->said[turn_].load();
    const std::uint32_t old = (turn_ + 2) % 3;
    if (thread_ == 0) team_->said[old].store(false);
    turn_ = (turn_ + 1) % 3;
    return result;
  }

 private:
  HostTeam* team_;
  std::uint32_t index_;
  std::uint32_t thread_;
  std::uint32_t threads_;
  const HostRun& how_;
  std::uint32_t turn_ = 0;
};

/// The device's reduction of a type and operation, as a function so that the interpreter is compiled once.
struct HostKernel {
  using Function = HostRun::Function;
  Function function = nullptr;

  explicit HostKernel(Function own) : function(own) {}
  HostKernel(DataType type, RedOp op) {
    portable::list_reductions(*this);
    function = table_[static_cast<int>(type)][static_cast<int>(op)];
  }
  void reduce(unsigned thread, unsigned threads, const device::ReduceArgs& args, Bytes element) const {
    function(thread, threads, args, element);
  }
  template <class Format, class Op>
  constexpr void add(DataType type, RedOp op) {
    table_[static_cast<int>(type)][static_cast<int>(op)] = [](unsigned thread, unsigned threads,
                                                              device::ReduceArgs args, Bytes width) {
      DeviceKernel<Format, Op>().reduce(thread, threads, args, width);
    };
  }

 private:
  Function table_[kDataTypes][kRedOps] = {};
};

}  // namespace

void run_on_host(const DeviceCall& call, const HostRun& how) {
  const HostKernel kernel = how.instead != nullptr ? HostKernel(how.instead) : HostKernel(call.type, call.op);
  std::vector<std::unique_ptr<BlockMemory>> memories;
  std::vector<std::unique_ptr<HostTeam>> teams;
  std::vector<std::thread> running;
  for (std::uint32_t b = 0; b < call.grid(); ++b) {
    memories.push_back(std::make_unique<BlockMemory>());
    // On a device it holds what another kernel has left.
    std::fill_n(reinterpret_cast<std::byte*>(memories.back().get()), sizeof(BlockMemory), std::byte{0xEB});
    teams.push_back(std::make_unique<HostTeam>(how.threads));
    for (std::uint32_t t = 0; t < how.threads; ++t) {
      running.emplace_back([&call, &kernel, &how, memory = memories.back().get(), team = teams.back().get(), b, t] {
        HostBlock block(team, b, t, how.threads, how);
        DeviceInterpreter<HostBlock, HostKernel>(call, block, *memory, kernel).run();
      });
    }
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace tutti::test
