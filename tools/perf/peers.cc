#include "peers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

namespace tutti::perf {
namespace {

// These make malloc keep its memory. Otherwise a library that allocates temporary buffers pays a page fault for every
// 4 KiB of them. They are the same for all libraries.
const std::vector<std::string> kForAll{"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184"};

const Peer kTutti{"tutti", "tutti", "TUTTI_BENCH=ON", {}, {}, {}, {}};

// docs/measuring.md ("The peers' settings") says what else was tried.
const std::array<Peer, 9> kPeers{{
    {"openmpi",
     "openmpi",
     "openmpi-bin, libopenmpi-dev",
     {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism=none",
      "OMPI_MCA_btl_vader_eager_limit=32768", "OMPI_MCA_btl_vader_max_send_size=131072"},
     {"OMPI_MCA_mpi_yield_when_idle=1"},
     {"mpirun.openmpi", "mpirun"},
     {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}},
    {"mpich",
     "mpich",
     "mpich, libmpich-dev",
     {"UCX_TLS=sysv,self"},
     {"UCX_TLS=sysv,cma,self"},
     {"mpiexec.mpich", "mpiexec.hydra"},
     {}},
    {"gloo", "gloo", "libgloo-dev", {}, {}, {}, {}},
    {"gloo_batch", "gloo", "libgloo-dev", {}, {}, {}, {"chrt", "--batch", "0"}},
    {"ucc", "ucc", "tools/setup.sh --peers", {"UCX_TLS=sysv,self"}, {}, {}, {}},
    {"floor", "floor", "TUTTI_BENCH=ON", {}, {}, {}, {}, true},
    {"handover", "handover", "TUTTI_BENCH=ON", {}, {}, {}, {}, true},
    {"sockets", "sockets", "TUTTI_BENCH=ON", {}, {}, {}, {}, true},
    {"sockets_all_reduce", "sockets_all_reduce", "TUTTI_BENCH=ON", {}, {}, {}, {}},
}};

bool is_program(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

bool is_on_path(const std::string& program) {
  const char* const set = std::getenv("PATH");
  const std::string path = set != nullptr ? set : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (is_program(path.substr(begin, end - begin) + "/" + program)) return true;
    begin = end + 1;
  }
  return false;
}

/// Adds the settings that the user has not set.
void add_unset(const std::vector<std::string>& settings, std::vector<std::string>* command) {
  for (const std::string& setting : settings) {
    if (std::getenv(setting.substr(0, setting.find('=')).c_str()) == nullptr) command->push_back(setting);
  }
}

}  // namespace

const Peer& tutti_peer() { return kTutti; }
std::span<const Peer> peer_table() { return kPeers; }

const Peer* find_peer(const std::string& name) {
  const auto found = std::find_if(kPeers.begin(), kPeers.end(), [&](const Peer& peer) { return name == peer.name; });
  return found == kPeers.end() ? nullptr : &*found;
}

std::string contestants_folder(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path().parent_path() / "bench").string();
}

std::vector<std::string> command_of(const Peer& peer, const std::string& folder, int ranks, bool sharing,
                                    std::string* text) {
  const std::string program = folder + "/contestant_" + peer.program;
  if (!is_program(program)) {
    *text = "there is no " + program + " (a build with " + peer.needs + " makes it)";
    return {};
  }
  std::vector<std::string> command{"env"};
  add_unset(kForAll, &command);
  add_unset(peer.environment, &command);
  if (sharing) add_unset(peer.if_sharing, &command);
  if (!peer.launchers.empty()) {
    const auto launcher = std::find_if(peer.launchers.begin(), peer.launchers.end(), is_on_path);
    if (launcher == peer.launchers.end())
      return *text = peer.launchers[0] + " is not on the path", std::vector<std::string>{};
    command.push_back(*launcher);
  }
  command.insert(command.end(), peer.options.begin(), peer.options.end());
  if (!peer.launchers.empty()) command.insert(command.end(), {"-n", std::to_string(ranks)});
  command.push_back(program);
  return command;
}

}  // namespace tutti::perf
