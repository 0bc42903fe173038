// This program measures what a pause costs the calls after it. Two processes broadcast in turn, 40 calls after each
// pause of 100 ms, and then without pauses.
//
//   pause_bench [BYTES]    256 KiB unless given
//
// TUTTI_TRANSPORT and the other settings count: with tcp it shows what the system's congestion control makes of it.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

constexpr int kRounds = 9;
constexpr int kCalls = 40;

void expect(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "pause_bench: %s\n", tuttiGetLastError(nullptr));
  std::exit(1);
}

/// One rank's part: each round's mean time of a call in microseconds, the shortest first.
std::vector<double> measure(tuttiComm_t comm, std::vector<float>* data, std::chrono::milliseconds pause) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(pause);
    expect(tuttiBarrier(comm, nullptr));
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < kCalls; ++call)
      expect(tuttiBroadcast(data->data(), data->data(), data->size(), tuttiFloat32, call % 2, comm, nullptr));
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count() / kCalls);
  }
  std::sort(times.begin(), times.end());
  return times;
}

void print(const char* what, const std::vector<double>& times) {
  std::printf("%s: %.1f us a call (%.1f to %.1f, %d rounds)\n", what, times[kRounds / 2], times.front(), times.back(),
              kRounds);
}

void run(int rank, const tuttiUniqueId& id, std::size_t bytes) {
  tuttiComm_t comm = nullptr;
  expect(tuttiCommInitRank(&comm, 2, id, rank));
  std::vector<float> data(bytes / sizeof(float));
  const std::vector<double> after = measure(comm, &data, std::chrono::milliseconds(100));
  const std::vector<double> without = measure(comm, &data, std::chrono::milliseconds(0));
  if (rank == 0) {
    print("after a pause", after);
    print("without pauses", without);
  }
  expect(tuttiCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : std::size_t{256} << 10;
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();
  tuttiUniqueId id{};
  if (child == 0) {
    ::close(ends[1]);  // so that reading ends if the parent does
    if (::read(ends[0], &id, sizeof id) != sizeof id) return 1;
    run(1, id, bytes);
    return 0;
  }
  expect(tuttiGetUniqueId(&id));
  if (::write(ends[1], &id, sizeof id) != sizeof id) return 1;
  run(0, id, bytes);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
