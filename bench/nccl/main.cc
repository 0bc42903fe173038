// nccl_race: see race.h. Starts its own ranks.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "nccl/race.h"

namespace {

using tutti::bench::give_up;
using tutti::bench::Race;

/// Ranks on one card are hosts of their own to NCCL, joined by sockets of the loopback device.
void set_environment(int rank) {
  const std::pair<const char*, std::string> settings[] = {{"NCCL_HOSTID", "tuttiR" + std::to_string(rank)},
                                                          {"NCCL_NET", "Socket"},
                                                          {"NCCL_NET_PLUGIN", "none"},
                                                          {"NCCL_IB_DISABLE", "1"},
                                                          {"NCCL_SOCKET_IFNAME", "lo"},
                                                          {"NCCL_MNNVL_ENABLE", "0"},
                                                          {"NCCL_NVLS_ENABLE", "0"},
                                                          {"TUTTI_TRANSPORT", "tcp"},
                                                          {"TUTTI_SOCKET_IFNAME", "lo"}};
  for (const auto& [name, value] : settings) setenv(name, value.c_str(), 1);
}

pid_t start_process(int rank, int argc, char** argv, const std::string& url) {
  std::vector<std::string> words(argv, argv + argc);
  words.push_back("--rank=" + std::to_string(rank));
  words.push_back("--url=" + url);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  set_environment(rank);
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

/// The first failure ends all.
int run_processes(const Race& race, int argc, char** argv) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < race.ranks; ++rank) ranks.push_back(start_process(rank, argc, argv, race.url));
  int code = 0;
  for (std::size_t left = ranks.size(); left > 0; --left) {
    int status = 0;
    if (wait(&status) < 0) break;
    if (status == 0 || code != 0) continue;
    code = 1;
    for (const pid_t pid : ranks)
      if (pid > 0) kill(pid, SIGKILL);
  }
  return code;
}

int run_threads(const Race& race) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < race.ranks; ++rank) ranks.emplace_back([&race, rank] { run_rank(race, rank); });
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

int count_devices() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) give_up(cudaGetErrorString(error));
  if (devices == 0) give_up("no GPU");
  return devices;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tutti against NCCL on GPU buffers, in turn. Ranks that share a GPU use sockets, of both libraries.",
               "nccl_race"};
  Race race;
  int rank = -1, devices = 0;
  app.option_defaults()->take_last();
  app.add_option("collective", race.collective, "all_reduce (default) all_gather reduce_scatter broadcast")
      ->check(CLI::IsMember({"all_reduce", "all_gather", "reduce_scatter", "broadcast"}));
  app.add_option("--ranks", race.ranks, "default 2")->check(CLI::Range(2, 64));
  app.add_option("-g,--devices", devices, "default: all there are")->check(CLI::Range(1, 64));
  app.add_option("-b", race.min_bytes, "smallest size (default 8)")->transform(CLI::AsSizeValue(false));
  app.add_option("-e", race.max_bytes, "largest size (default 64M)")->transform(CLI::AsSizeValue(false));
  app.add_option("-f", race.factor, "factor between sizes (default 8)")->check(CLI::Range(1.01, 1e6));
  app.add_option("--pairs", race.pairs, "of blocks, a size (default 7)")->check(CLI::Range(1, 10000));
  app.add_option("--block-ms", race.block_ms, "length of a block (default 20)")->check(CLI::Range(0.0, 1e5));
  app.add_flag("--blocking", race.blocking, "calls that block, by the host's clock");
  app.add_option("-J", race.json, "results as JSON");
  app.add_option("--rank", rank)->group("");
  app.add_option("--url", race.url)->group("");
  CLI11_PARSE(app, argc, argv);
  const int present = count_devices();
  if (devices > present) give_up("there are " + std::to_string(present) + " devices");
  race.devices = devices > 0 ? devices : present;
  if (rank >= 0) return run_rank(race, rank), 0;
  char folder[] = "/tmp/nccl_race.XXXXXX";
  if (mkdtemp(folder) == nullptr) give_up("no folder can be made in /tmp");
  race.url = std::string("file://") + folder + "/join";
  const int code = race.shares_devices() ? run_processes(race, argc, argv) : run_threads(race);
  rmdir(folder);
  return code;
}
