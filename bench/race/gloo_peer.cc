#include "gloo_peer.h"

#define OMPI_SKIP_MPICXX 1
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <vector>

namespace {

/// Gloo's full mesh puts one value and gets everybody's: putting gathers them all.
class MpiStore final : public gloo::rendezvous::Store {
 public:
  void set(const std::string& key, const std::vector<char>& data) override {
    const std::vector<std::vector<char>> keys = gather({key.begin(), key.end()});
    const std::vector<std::vector<char>> values = gather(data);
    for (std::size_t i = 0; i < keys.size(); ++i) known_[std::string(keys[i].begin(), keys[i].end())] = values[i];
  }
  std::vector<char> get(const std::string& key) override { return known_.at(key); }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) static_cast<void>(known_.at(key));
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  static std::vector<std::vector<char>> gather(const std::vector<char>& mine) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int size = static_cast<int>(mine.size());
    std::vector<int> sizes(static_cast<std::size_t>(ranks)), offsets(sizes.size());
    MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    int total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      offsets[i] = total;
      total += sizes[i];
    }
    std::vector<char> all(static_cast<std::size_t>(total));
    MPI_Allgatherv(mine.data(), size, MPI_CHAR, all.data(), sizes.data(), offsets.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::vector<char>> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      parts.emplace_back(all.begin() + offsets[i], all.begin() + offsets[i] + sizes[i]);
    return parts;
  }
  std::map<std::string, std::vector<char>> known_;
};

class ConnectedGloo final : public GlooPeer {
 public:
  explicit ConnectedGloo(const std::string& interface) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gloo::transport::tcp::attr where;
    where.iface = interface;
    auto device = gloo::transport::tcp::CreateDevice(where);
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    MpiStore store;
    context_->connectFullMesh(store, device);
  }

  void all_reduce(const float* in, float* out, std::size_t count) override {
    guarded([&] {
      gloo::AllreduceOptions options(context_);
      options.setInput(const_cast<float*>(in), count);
      options.setOutput(out, count);
      options.setReduceFunction(
          [](void* to, const void* a, const void* b, std::size_t n) { gloo::sum<float>(to, a, b, n); });
      gloo::allreduce(options);
    });
  }
  void barrier() override {
    guarded([&] {
      gloo::BarrierOptions options(context_);
      gloo::barrier(options);
    });
  }

 private:
  template <class Work>
  static void guarded(const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "Gloo: %s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

std::unique_ptr<GlooPeer> GlooPeer::connect(const std::string& interface) {
  try {
    return std::make_unique<ConnectedGloo>(interface);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Gloo: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return nullptr;
}
