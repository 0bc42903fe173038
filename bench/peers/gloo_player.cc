// Gloo over its TCP transport on the loopback interface: the only one it has within a host.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <map>
#include <stdexcept>

#include "player.h"

namespace tutti::peers {
namespace {

using race::Contested;

/// Gloo's full mesh puts one value a rank and gets everybody's: putting gathers them all.
class SeatStore final : public gloo::rendezvous::Store {
 public:
  explicit SeatStore(const Seat& seat) : seat_(seat) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    std::vector<std::string> keys, values;
    if (!seat_.gather(key, &keys) || !seat_.gather(std::string(data.begin(), data.end()), &values))
      throw std::length_error("an address of Gloo is longer than a letter");
    for (std::size_t i = 0; i < keys.size(); ++i) known_[keys[i]] = {values[i].begin(), values[i].end()};
  }
  std::vector<char> get(const std::string& key) override { return known_.at(key); }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) static_cast<void>(known_.at(key));
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  const Seat& seat_;
  std::map<std::string, std::vector<char>> known_;
};

class GlooPlayer final : public Player {
 public:
  explicit GlooPlayer(const Seat& seat) {
    gloo::transport::tcp::attr where;
    where.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto context = std::make_shared<gloo::rendezvous::Context>(seat.rank(), seat.ranks());
    SeatStore store(seat);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  std::string name() const override { return "Gloo"; }
  std::uint32_t offers() const override { return kOffersAll & ~offer_of(Contested::kReduceScatter); }
  bool polls() const override { return false; }
  bool run(const Operation& operation, std::string* text) override {
    switch (operation.what) {
      case Contested::kAllReduce:
        return all_reduce(operation), true;
      case Contested::kAllGather:
        return all_gather(operation), true;
      case Contested::kBroadcast:
        return broadcast(operation), true;
      case Contested::kReduce:
        return reduce(operation), true;
      case Contested::kAllToAll:
        return all_to_all(operation), true;
      case Contested::kGather:
        return gather(operation), true;
      case Contested::kScatter:
        return scatter(operation), true;
      case Contested::kBarrier:
        return barrier(), true;
      case Contested::kReduceScatter:
        break;
    }
    *text = "Gloo has no such collective";
    return false;
  }

 private:
  static void sum(void* to, const void* a, const void* b, std::size_t count) { gloo::sum<float>(to, a, b, count); }
  static float* writable(const float* in) { return const_cast<float*>(in); }  // Gloo does not write to inputs
  std::size_t ranks() const { return static_cast<std::size_t>(context_->size); }

  void all_reduce(const Operation& operation) {
    gloo::AllreduceOptions options(context_);
    options.setInput(writable(operation.in), operation.count);
    options.setOutput(operation.out, operation.count);
    options.setReduceFunction(&sum);
    gloo::allreduce(options);
  }
  void all_gather(const Operation& operation) {
    gloo::AllgatherOptions options(context_);
    options.setInput(writable(operation.in), operation.count);
    options.setOutput(operation.out, operation.count * ranks());
    gloo::allgather(options);
  }
  void broadcast(const Operation& operation) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(operation.out, operation.count);
    options.setRoot(operation.root);
    gloo::broadcast(options);
  }
  void reduce(const Operation& operation) {
    gloo::ReduceOptions options(context_);
    options.setInput(writable(operation.in), operation.count);
    options.setOutput(operation.out, operation.count);
    options.setRoot(operation.root);
    options.setReduceFunction(&sum);
    gloo::reduce(options);
  }
  void all_to_all(const Operation& operation) {
    gloo::AlltoallOptions options(context_);
    options.setInput(writable(operation.in), operation.count * ranks());
    options.setOutput(operation.out, operation.count * ranks());
    gloo::alltoall(options);
  }
  void gather(const Operation& operation) {
    gloo::GatherOptions options(context_);
    options.setInput(writable(operation.in), operation.count);
    if (context_->rank == operation.root) options.setOutput(operation.out, operation.count * ranks());
    options.setRoot(operation.root);
    gloo::gather(options);
  }
  void scatter(const Operation& operation) {
    gloo::ScatterOptions options(context_);
    if (context_->rank == operation.root) {
      std::vector<float*> inputs;
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        inputs.push_back(writable(operation.in) + rank * operation.count);
      options.setInputs(inputs, operation.count);
    }
    options.setOutput(operation.out, operation.count);
    options.setRoot(operation.root);
    gloo::scatter(options);
  }
  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string*) { return std::make_unique<GlooPlayer>(seat); }

bool is_bound() { return false; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
