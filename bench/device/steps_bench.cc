// What a step costs in the device's interpreter, and what a launch does: the same kernel with schedules of 1 to 512
// equal steps, in parameters (up to 64) and from a table. Copies are steps of one rank without messages; relays are
// steps of two ranks on one device that each receive 8 bytes, store them and send them on. Times are of CUDA events
// around a batch of launches, medians of batches; a line through them has the step's time as slope and the launch's as
// begin. Prints JSON; a line on stderr and exit code 77 where there is no GPU. Parts run alone by their names, among
// them copies, which needs one rank only, so that nothing waits for another kernel:
//   device_steps_bench [--batches N] [--launches N] [copies] [relays] [launch]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/chain.h"
#include "device/device_driver.h"
#include "executor/device/device_binding.h"
#include "executor/device/device_launch.h"

namespace tutti::bench {
namespace {

constexpr std::size_t kCount = 2;  // values of 4 bytes

void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "steps_bench: %s\n", status.text().c_str());
  std::exit(1);
}
void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "steps_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Ranks on device 0 with an arena, a stream and a buffer each.
class Ranks {
 public:
  Ranks(DeviceDriver& driver, int ranks) : driver_(driver) {
    DeviceGeometry geometry;
    geometry.ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      Seat& seat = seats_[static_cast<std::size_t>(rank)];
      seat.links.set_geometry(geometry);
      seat.links.rank = rank;
      check(driver_.allocate(0, Bytes{geometry.arena_bytes()}, &seat.arena));
      check(driver_.allocate(0, Bytes{4096}, &seat.buffer));
      check(driver_.allocate_pinned(Bytes{sizeof(DeviceReport)}, &seat.report));
      check(driver_.create_stream(0, &seat.stream));
    }
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer)
        seat(rank).links.arenas[peer] = static_cast<std::byte*>(seat(peer).arena);
  }

  cudaStream_t stream(int rank) { return static_cast<cudaStream_t>(seat(rank).stream); }

  /// A call that runs again and again. Waits give up after ten seconds.
  DeviceCall bind(int rank, const Schedule& schedule) {
    Seat& place_of = seat(rank);
    auto* const input = static_cast<std::byte*>(place_of.buffer);
    DevicePlace place;
    place.links = place_of.links;
    place.watch = DeviceWatch{place.links.stop(), static_cast<DeviceReport*>(place_of.report), 10'000'000'000ULL};
    const Launch launch = launch_of(schedule, input, input + 2048, kCount);
    void* scratch = nullptr;
    check(driver_.allocate(0, Bytes{device_scratch(launch, place.links.geometry).value + 1}, &scratch));
    place.scratch = static_cast<std::byte*>(scratch);
    DeviceCall call{};
    bind_device_call(launch, place, &call);
    if (schedule.steps.size() <= kInlineSteps) return call;
    const Bytes bytes{schedule.steps.size() * sizeof(Step)};
    void* table = nullptr;
    check(driver_.allocate(0, bytes, &table));
    check(driver_.copy(0, table, schedule.steps.data(), bytes, place_of.stream));
    check(driver_.synchronize(place_of.stream));
    call.table = static_cast<const Step*>(table);
    return call;
  }
  void launch(int rank, const DeviceCall& call) { check(tutti::launch(driver_, 0, seat(rank).stream, call)); }
  void finish(int rank) {
    check(driver_.synchronize(seat(rank).stream));
    for (const std::uint64_t failure : static_cast<DeviceReport*>(seat(rank).report)->failures) {
      if (failure == 0) continue;
      std::fprintf(stderr, "steps_bench: rank %d: a message did not come\n", rank);
      std::exit(1);
    }
  }

 private:
  struct Seat {
    DeviceLinks links;
    void *arena = nullptr, *buffer = nullptr, *report = nullptr;
    DeviceDriver::Stream stream = nullptr;
  };
  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  DeviceDriver& driver_;
  std::array<Seat, 2> seats_;
};

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&first_), "event");
    check(cudaEventCreate(&last_), "event");
  }
  void begin(cudaStream_t stream) { check(cudaEventRecord(first_, stream), "event"); }
  void end(cudaStream_t stream) { check(cudaEventRecord(last_, stream), "event"); }
  double microseconds() {
    check(cudaEventSynchronize(last_), "waiting");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, first_, last_), "time");
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  cudaEvent_t first_{}, last_{};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Options {
  int batches = 25;
  int launches = 40;               ///< of a batch: as many as queues take without keeping the other rank out
  std::vector<std::string> parts;  ///< empty: all

  bool has(const char* part) const {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

/// Microseconds of a launch whose calls, one per rank, run at the same time.
double launch_time(Ranks& ranks, const std::vector<DeviceCall>& calls, const Options& options) {
  Timer timer;
  std::vector<double> times;
  for (int batch = 0; batch <= options.batches; ++batch) {
    for (int i = 0; i <= options.launches; ++i) {
      for (std::size_t rank = 0; rank < calls.size(); ++rank) ranks.launch(static_cast<int>(rank), calls[rank]);
      if (i == 0) timer.begin(ranks.stream(0));  // after the first, at which the ranks meet
    }
    timer.end(ranks.stream(0));
    for (std::size_t rank = 0; rank < calls.size(); ++rank) ranks.finish(static_cast<int>(rank));
    if (batch > 0) times.push_back(timer.microseconds() / options.launches);
  }
  return median(times);
}

/// Measures the same batch of launches after they were captured into a graph.
double graph_time(Ranks& ranks, const DeviceCall& call, const Options& options) {
  const cudaStream_t stream = ranks.stream(0);
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < options.launches; ++i) ranks.launch(0, call);
  check(cudaStreamEndCapture(stream, &recorded), "capture");
  check(cudaGraphInstantiate(&graph, recorded, 0), "graph");
  Timer timer;
  std::vector<double> times;
  for (int batch = 0; batch <= options.batches; ++batch) {
    check(cudaGraphLaunch(graph, stream), "replay");
    timer.begin(stream);
    check(cudaGraphLaunch(graph, stream), "replay");
    timer.end(stream);
    ranks.finish(0);
    if (batch > 0) times.push_back(timer.microseconds() / options.launches);
  }
  return median(times);
}

struct Point {
  std::uint32_t steps;
  double us;
};

/// Least squares.
nlohmann::ordered_json line_through(const std::vector<Point>& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& point : points) {
    x += point.steps / n;
    y += point.us / n;
    xx += static_cast<double>(point.steps) * point.steps / n;
    xy += point.steps * point.us / n;
  }
  const double slope = (xy - x * y) / (xx - x * x);
  nlohmann::ordered_json json{{"ns_per_step", slope * 1e3}, {"launch_us", y - slope * x}};
  for (const Point& point : points) json["points"].push_back({{"steps", point.steps}, {"us", point.us}});
  return json;
}

template <class Measure>
nlohmann::ordered_json measure(const Measure& measure_one) {
  nlohmann::ordered_json json;
  const std::pair<const char*, std::vector<std::uint32_t>> kinds[] = {{"parameters", {2, 8, 16, 32, 48, 64}},
                                                                      {"table", {65, 128, 256, 512}}};
  for (const auto& [name, all] : kinds) {
    std::vector<Point> points;
    for (const std::uint32_t steps : all) points.push_back({steps, measure_one(steps)});
    json[name] = line_through(points);
  }
  return json;
}

int run(DeviceDriver& driver, const Options& options) {
  check(driver.load(0, kernels_of_collectives()));
  nlohmann::ordered_json report;
  Ranks one(driver, 1);
  if (options.has("copies")) {
    report["copies"] = measure([&](std::uint32_t steps) {
      const Schedule schedule = copy_chain(steps);
      return launch_time(one, {one.bind(0, schedule)}, options);
    });
  }
  if (options.has("relays")) {
    Ranks two(driver, 2);
    report["relays"] = measure([&](std::uint32_t steps) {
      const Schedule schedules[] = {relay_chain(steps - 1, 0), relay_chain(steps - 1, 1)};
      return launch_time(two, {two.bind(0, schedules[0]), two.bind(1, schedules[1])}, options);
    });
  }
  if (options.has("launch")) {
    const Schedule shortest = copy_chain(1);
    const DeviceCall call = one.bind(0, shortest);
    report["launch"] = {{"stream_us", launch_time(one, {call}, options)}, {"graph_us", graph_time(one, call, options)}};
  }
  std::printf("%s\n", report.dump(1).c_str());
  return 0;
}

/// Returns false if the words are not those that the head of this file names.
bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if ((word == "--batches" || word == "--launches") && i + 1 < argc) {
      (word == "--batches" ? options->batches : options->launches) = std::atoi(argv[++i]);
    } else if (word == "copies" || word == "relays" || word == "launch") {
      options->parts.push_back(word);
    } else {
      return false;
    }
  }
  return options->batches > 0 && options->launches > 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  tutti::bench::Options options;
  if (!tutti::bench::parse(argc, argv, &options))
    return std::fprintf(stderr, "usage: device_steps_bench [--batches N] [--launches N] [copies] [relays] [launch]\n"),
           2;
  tutti::DeviceDriver* const driver = tutti::device_driver();
  if (driver == nullptr) return std::fprintf(stderr, "steps_bench: no GPU\n"), 77;
  if (cudaSetDevice(0) != cudaSuccess) return std::fprintf(stderr, "steps_bench: device 0 does not start\n"), 1;
  return tutti::bench::run(*driver, options);
}
