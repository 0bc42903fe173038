#include "nccl/race.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "nccl/side.h"
#include "race/tally.h"

namespace tutti::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostOperations = 200;  // of a block: as many as queues take
constexpr float kPoison = -77777.0F;

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// What rank `rank` gives at element i: small whole numbers, whose sums are exact.
float value(int rank, std::size_t i) { return static_cast<float>((i + 7 * static_cast<std::size_t>(rank)) % 61); }

/// Whether the daemon that lets processes run on a GPU at the same time serves this one.
bool has_mps() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return access((std::string(folder == nullptr ? "/tmp/nvidia-mps" : folder) + "/control").c_str(), F_OK) == 0;
}

class Rank {
 public:
  Rank(const Race& race, int rank) : race_(race), rank_(rank) {}
  void run();

 private:
  void open();
  void close();
  double slowest(double mine) const;
  std::size_t blocks_sent() const { return race_.collective == "reduce_scatter" ? ranks() : 1; }
  std::size_t blocks_received() const { return race_.collective == "all_gather" ? ranks() : 1; }
  std::size_t ranks() const { return static_cast<std::size_t>(race_.ranks); }
  float expected(std::size_t count, std::size_t i) const;
  std::size_t count_wrong(Side& side, const Operands& operands);
  bool offers(Side& side, const Operands& operands);
  double block(Side& side, const Operands& operands, int operations);
  int operations_for(Side& side, const Operands& operands);
  Json race_size(std::size_t bytes);
  Json setup() const;
  void print(const Json& row) const;

  const Race& race_;
  const int rank_;
  tuttiComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t first_ = nullptr, last_ = nullptr;
  float *send_ = nullptr, *recv_ = nullptr;
  std::unique_ptr<Side> tutti_, nccl_;
  std::string why_not_;  ///< Tutti does not take part
};

void Rank::open() {
  check(cudaSetDevice(rank_ % race_.devices), "cudaSetDevice");
  check(cudaFree(nullptr), "starting the device");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&first_), "cudaEventCreate");
  check(cudaEventCreate(&last_), "cudaEventCreate");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.joinTimeoutSeconds = 60;
  config.timeoutSeconds = 30;
  check(tuttiCommInitUrl(&comm_, race_.url.c_str(), race_.ranks, rank_, &config), nullptr, "joining");
  ncclUniqueId id{};
  if (rank_ == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm_, nullptr), comm_, "sending NCCL's id");
  nccl_ = std::make_unique<NcclSide>(race_, rank_, id, stream_);
  tutti_ = std::make_unique<TuttiSide>(race_, comm_, stream_);
  for (float** const memory : {&send_, &recv_}) {
    void* made = nullptr;
    const std::size_t bytes = std::max(race_.max_bytes, ranks() * sizeof(float));
    check(tuttiMemAllocDevice(&made, bytes, rank_ % race_.devices), nullptr, "memory of the device");
    *memory = static_cast<float*>(made);
  }
}

void Rank::close() {
  tutti_ = nullptr;
  nccl_ = nullptr;
  check(tuttiCommDestroy(comm_), nullptr, "leaving");
  for (float* const memory : {send_, recv_}) check(tuttiMemFree(memory), nullptr, "memory of the device");
}

double Rank::slowest(double mine) const {
  double all = mine;
  check(tuttiAllReduce(&mine, &all, 1, tuttiFloat64, tuttiMax, comm_, nullptr), comm_, "bringing times together");
  return all;
}

float Rank::expected(std::size_t count, std::size_t i) const {
  if (race_.collective == "broadcast") return value(0, i);
  if (race_.collective == "all_gather") return value(static_cast<int>(i / count), i % count);
  const std::size_t at = race_.collective == "reduce_scatter" ? static_cast<std::size_t>(rank_) * count + i : i;
  float sum = 0;
  for (int rank = 0; rank < race_.ranks; ++rank) sum += value(rank, at);
  return sum;
}

/// Elements of this rank's result that are not as they must be.
std::size_t Rank::count_wrong(Side& side, const Operands& operands) {
  std::vector<float> host(operands.count * blocks_received(), kPoison);
  const std::size_t bytes = host.size() * sizeof(float);
  check(cudaMemcpy(recv_, host.data(), bytes, cudaMemcpyHostToDevice), "copying");
  if (const std::string refused = side.put(operands); !refused.empty()) give_up(refused);
  side.settle();
  check(cudaMemcpy(host.data(), recv_, bytes, cudaMemcpyDeviceToHost), "copying");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < host.size(); ++i) wrong += host[i] != expected(operands.count, i);
  return wrong;
}

/// The same on all ranks.
bool Rank::offers(Side& side, const Operands& operands) {
  const std::string refused = side.put(operands);
  const bool all = slowest(refused.empty() ? 0 : 1) == 0;
  if (!refused.empty()) why_not_ = refused;
  if (all) side.settle();
  return all;
}

/// Seconds an operation.
double Rank::block(Side& side, const Operands& operands, int operations) {
  check(tuttiBarrier(comm_, nullptr), comm_, "meeting");
  (void)side.put(operands);
  check(cudaEventRecord(first_, stream_), "cudaEventRecord");
  const double begin = now();
  for (int i = 0; i < operations; ++i) (void)side.put(operands);
  double seconds = now() - begin;
  check(cudaEventRecord(last_, stream_), "cudaEventRecord");
  side.settle();
  if (!race_.blocking) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, first_, last_), "cudaEventElapsedTime");
    seconds = static_cast<double>(milliseconds) * 1e-3;
  }
  return slowest(seconds / operations);
}

int Rank::operations_for(Side& side, const Operands& operands) {
  const double probe = std::max(block(side, operands, 2), 1e-7);
  return static_cast<int>(std::clamp<double>(race_.block_ms * 1e-3 / probe, 1, kMostOperations));
}

Json Rank::race_size(std::size_t bytes) {
  const std::size_t count =
      std::max<std::size_t>(bytes / sizeof(float) / std::max(blocks_sent(), blocks_received()), 1);
  const Operands operands{send_, recv_, count};
  std::vector<float> host(count * blocks_sent());
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = value(rank_, i);
  check(cudaMemcpy(send_, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice), "copying");
  Json row{{"size", std::max(count * blocks_sent(), count * blocks_received()) * sizeof(float)}, {"count", count}};
  std::vector<Side*> sides{nccl_.get()};
  if (why_not_.empty() && offers(*tutti_, operands)) sides.push_back(tutti_.get());
  int operations[2] = {};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const double wrong = slowest(static_cast<double>(count_wrong(*sides[i], operands)));  // of the worst rank
    row["nwrong"][sides[i]->name()] = static_cast<std::size_t>(wrong);
    operations[i] = operations_for(*sides[i], operands);
  }
  std::vector<race::Pair> pairs(static_cast<std::size_t>(race_.pairs));
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    for (std::size_t turn = 0; turn < sides.size(); ++turn) {
      const std::size_t i = (turn + at) % sides.size();
      (i == 0 ? pairs[at].other : pairs[at].tutti) = block(*sides[i], operands, operations[i]);
    }
  }
  const race::Medians medians = race::medians_of(pairs);
  row["pairs"] = pairs.size();
  row["nccl_us"] = medians.other_us;
  if (sides.size() == 1) return row;
  row["tutti_us"] = medians.tutti_us;
  row["ratio"] = medians.ratio;
  row["ratio_quartiles"] = {medians.ratio_low, medians.ratio_high};
  return row;
}

Json Rank::setup() const {
  int nccl = 0, tutti = 0;
  check(ncclGetVersion(&nccl), "ncclGetVersion");
  check(tuttiGetVersion(&tutti), nullptr, "tuttiGetVersion");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const auto version = [](int code) {
    return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  };
  return {{"collective", race_.collective},
          {"card", properties.name},
          {"ranks", race_.ranks},
          {"devices", race_.devices},
          {"ranks_are", race_.shares_devices() ? "processes" : "threads"},
          {"nccl", version(nccl)},
          {"nccl_transport", race_.shares_devices() ? "socket, a host id for each rank" : "its own choice"},
          {"tutti", version(tutti)},
          {"tutti_transport", race_.shares_devices() ? "tcp" : "its own choice"},
          {"times_by", race_.blocking ? "the host's clock around blocking calls" : "CUDA events"},
          {"mps", has_mps()}};
}

void Rank::print(const Json& row) const {
  const auto field = [&](const char* name) { return row.contains(name) ? row[name].get<double>() : NAN; };
  std::printf("%12zu %12.2f %12.2f %8.3f  %s\n", row["size"].get<std::size_t>(), field("tutti_us"), field("nccl_us"),
              field("ratio"), row["nwrong"].dump().c_str());
  std::fflush(stdout);
}

void Rank::run() {
  open();
  Json report = setup();
  if (rank_ == 0) {
    std::printf("# %s\n# size (B)        tutti us      nccl us    ratio  #wrong\n", report.dump().c_str());
    std::fflush(stdout);
  }
  double wrong = 0;
  for (double bytes = static_cast<double>(race_.min_bytes); bytes <= static_cast<double>(race_.max_bytes);
       bytes *= race_.factor) {
    const Json row = race_size(static_cast<std::size_t>(bytes));
    for (const auto& [name, count] : row["nwrong"].items()) wrong += count.get<double>();
    if (rank_ == 0) print(row);
    report["rows"].push_back(row);
  }
  if (!why_not_.empty()) report["tutti_left_out"] = why_not_;
  if (rank_ == 0 && !why_not_.empty()) std::printf("# without Tutti: %s\n", why_not_.c_str());
  close();
  if (rank_ == 0 && !race_.json.empty()) {
    std::FILE* const file = std::fopen(race_.json.c_str(), "w");
    const bool written = file != nullptr && std::fputs((report.dump(1) + "\n").c_str(), file) >= 0;
    if (file == nullptr || std::fclose(file) != 0 || !written) give_up("cannot write " + race_.json);
  }
  if (wrong > 0) give_up("wrong elements");
}

}  // namespace

void run_rank(const Race& race, int rank) { Rank(race, rank).run(); }

void give_up(const std::string& text) {
  std::fprintf(stderr, "nccl_race: %s\n", text.c_str());
  std::fflush(nullptr);
  _exit(1);
}

}  // namespace tutti::bench
