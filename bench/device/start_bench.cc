// What it takes to begin on a GPU: the process's first use of the device, joins of 1 to 8 ranks in one process, the
// first calls, and the memory that the communicators hold there. By the host's clock. Prints JSON; a line on stderr and
// exit code 77 where there is no GPU.
#include <cuda_runtime_api.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "start_bench: %s\n", tuttiGetLastError(nullptr));
  std::exit(1);
}

/// A blocking all-reduce of 8 bytes by every rank, from one thread.
double call_ms(const std::vector<tuttiComm_t>& comms, const std::vector<void*>& buffers) {
  const Clock::time_point begin = Clock::now();
  check(tuttiGroupStart());
  for (std::size_t rank = 0; rank < comms.size(); ++rank)
    check(tuttiAllReduce(buffers[rank], buffers[rank], 2, tuttiFloat32, tuttiSum, comms[rank], nullptr));
  check(tuttiGroupEnd());
  return ms_since(begin);
}

nlohmann::ordered_json measure(int ranks) {
  std::vector<tuttiComm_t> comms(static_cast<std::size_t>(ranks));
  const std::vector<int> devices(comms.size(), 0);
  std::vector<void*> buffers(comms.size());
  for (void*& buffer : buffers) check(tuttiMemAllocDevice(&buffer, 4096, 0));
  Clock::time_point begin = Clock::now();
  check(tuttiCommInitAll(comms.data(), ranks, devices.data()));
  nlohmann::ordered_json json{{"ranks", ranks}, {"join_ms", ms_since(begin)}};
  json["first_call_ms"] = call_ms(comms, buffers);
  json["second_call_ms"] = call_ms(comms, buffers);
  std::uint64_t bytes = 0;
  check(tuttiCommMemStats(comms[0], tuttiMemStatDevice, &bytes));
  json["device_bytes_per_rank"] = bytes;
  begin = Clock::now();
  std::vector<std::thread> ends;
  for (const tuttiComm_t comm : comms) ends.emplace_back([comm] { check(tuttiCommDestroy(comm)); });
  for (std::thread& end : ends) end.join();
  json["leave_ms"] = ms_since(begin);
  for (void* const buffer : buffers) check(tuttiMemFree(buffer));
  return json;
}

}  // namespace

int main() {
  int devices = 0;
  Clock::time_point begin = Clock::now();
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return std::fprintf(stderr, "start_bench: no GPU\n"), 77;
  nlohmann::ordered_json report{{"driver_ms", ms_since(begin)}};
  begin = Clock::now();
  if (cudaSetDevice(0) != cudaSuccess || cudaFree(nullptr) != cudaSuccess)
    return std::fprintf(stderr, "start_bench: device 0 does not start\n"), 1;
  report["context_ms"] = ms_since(begin);
  for (const int ranks : {1, 2, 4, 8}) report["communicators"].push_back(measure(ranks));
  std::printf("%s\n", report.dump(1).c_str());
  return 0;
}
