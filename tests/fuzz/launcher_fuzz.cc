// The environment as a launcher may leave it: lines NAME=VALUE, of names that are looked at.
#include <cstdlib>
#include <string_view>

#include "bytes.h"
#include "comm/rendezvous/launcher.h"

namespace {

constexpr const char* kNames[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_RUN_ID",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "OMPI_MCA_orte_hnp_uri",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "PMI_FD",
                                  "PMI_PORT",
                                  "PMI_ID",
                                  "MPI_LOCALRANKID",
                                  "PMIX_NAMESPACE",
                                  "PMIX_RANK",
                                  "SLURM_PROCID",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_NNODES",
                                  "SLURM_STEP_NUM_NODES",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "SLURM_RESTART_COUNT",
                                  "SLURM_STEP_NODELIST",
                                  "SLURM_NODELIST",
                                  "TMPDIR"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Bytes input(data, size);
  for (const char* const name : kNames) ::unsetenv(name);
  while (!input.empty()) {
    const char* const name = kNames[input.u8() % std::size(kNames)];
    const auto value = input.take(input.u8() % 64);
    std::string text(reinterpret_cast<const char*>(value.data()), value.size());
    text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
    ::setenv(name, text.c_str(), 1);
  }
  tutti::ProcessLaunch launch;
  if (!read_launch(tutti::Settings{}, &launch).ok()) return 0;
  const bool known = launch.info.ranks > 0;  // else the launcher's server is asked
  tutti::fuzz::demand(!known || (launch.info.rank.value >= 0 && launch.info.rank.value < launch.info.ranks),
                      "a rank of the ranks");
  tutti::fuzz::demand(launch.method != tutti::RendezvousMethod::kTcp || launch.port != 0, "a port to meet at");
  return 0;
}
