#include "comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace tutti {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody may change it while joining
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) { return !variable(name).empty(); }

Status number(const char* name, int low, int high, int* value) {
  const std::string text = variable(name);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error == std::errc() && end == text.data() + text.size() && *value >= low && *value <= high) return {};
  return fail(Code::kInvalidUsage, "{}=\"{}\": it must be a number from {} to {}", name, text, low, high);
}

/// As number(), but a variable that is not set leaves the value as it is.
Status optional_number(const char* name, int low, int high, int* value) {
  return is_set(name) ? number(name, low, high, value) : Status();
}

constexpr int kMost = 1 << 20;

Status rank_and_size(const char* rank_name, const char* size_name, LaunchInfo* info) {
  TUTTI_TRY(number(size_name, 1, kMost, &info->ranks));
  return number(rank_name, 0, info->ranks - 1, &info->rank.value);
}

void no_way(Launch* launch, const std::string& why) {
  launch->meeting = Meeting::kNone;
  launch->reason = why + "; join by file:// or tcp://, or through MPI with tutti_mpi.h";
}

Status read_torchrun(Launch* launch) {
  launch->info.launcher = "torchrun";
  TUTTI_TRY(rank_and_size("RANK", "WORLD_SIZE", &launch->info));
  TUTTI_TRY(optional_number("LOCAL_RANK", 0, kMost, &launch->info.local_rank));
  int port = 0;
  TUTTI_TRY(number("MASTER_PORT", 1, 65534, &port));
  launch->meeting = launch->info.ranks == 1 ? Meeting::kAlone : Meeting::kTcp;
  launch->host = variable("MASTER_ADDR");
  launch->port = static_cast<std::uint16_t>(port + 1);  // MASTER_PORT itself is the agent's
  launch->job = variable("TORCHELASTIC_RUN_ID") + "/" + variable("TORCHELASTIC_RESTART_COUNT");
  return {};
}

/// On one host the ranks meet in a file; on several only when the launcher helps.
void meet_on_one_host(Launch* launch, bool one_host, const std::string& job) {
  launch->meeting = launch->info.ranks == 1 ? Meeting::kAlone : Meeting::kPrivateFile;
  launch->job = launch->info.launcher + "/" + job;
  launch->directory = variable("TMPDIR").starts_with('/') ? variable("TMPDIR") : "/tmp";
  if (launch->info.ranks > 1 && !one_host)
    no_way(launch, fmt::format("{} started ranks on several hosts", launch->info.launcher));
}

Status read_open_mpi(Launch* launch) {
  launch->info.launcher = "Open MPI";
  TUTTI_TRY(rank_and_size("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &launch->info));
  TUTTI_TRY(optional_number("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMost, &launch->info.local_rank));
  int local = launch->info.ranks;
  TUTTI_TRY(optional_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMost, &local));
  // Version 4 names mpirun's address in the second variable, version 5 has only the namespace.
  meet_on_one_host(launch, local == launch->info.ranks,
                   variable("PMIX_NAMESPACE") + "/" + variable("OMPI_MCA_orte_hnp_uri"));
  return {};
}

Status read_mpich(Launch* launch) {
  launch->info.launcher = "MPICH";
  TUTTI_TRY(rank_and_size("PMI_RANK", "PMI_SIZE", &launch->info));
  TUTTI_TRY(optional_number("MPI_LOCALRANKID", 0, kMost, &launch->info.local_rank));
  if (launch->info.ranks > 1) no_way(launch, "MPICH's process manager is not used for joining yet");
  return {};
}

Status read_slurm(Launch* launch) {
  launch->info.launcher = "Slurm";
  TUTTI_TRY(rank_and_size("SLURM_PROCID", is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                          &launch->info));
  TUTTI_TRY(optional_number("SLURM_LOCALID", 0, kMost, &launch->info.local_rank));
  int nodes = 1;
  TUTTI_TRY(optional_number("SLURM_NNODES", 1, kMost, &nodes));
  TUTTI_TRY(optional_number("SLURM_STEP_NUM_NODES", 1, kMost, &nodes));
  meet_on_one_host(launch, nodes == 1,
                   variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") + "/" + variable("SLURM_RESTART_COUNT"));
  return {};
}

}  // namespace

Status read_launch(Launch* launch) {
  *launch = Launch{};
  launch->info.launcher = "none";
  if (is_set("RANK") && is_set("WORLD_SIZE") && is_set("MASTER_ADDR") && is_set("MASTER_PORT"))
    return read_torchrun(launch);
  if (is_set("OMPI_COMM_WORLD_RANK") && is_set("OMPI_COMM_WORLD_SIZE")) return read_open_mpi(launch);
  if (is_set("PMI_RANK") && is_set("PMI_SIZE")) return read_mpich(launch);
  // Slurm sets its variables in the shell of an allocation too: only those of a step say that srun started this
  // process.
  const bool step = is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID");
  if (step && (is_set("SLURM_STEP_NUM_TASKS") || is_set("SLURM_NTASKS"))) return read_slurm(launch);
  if (is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK"))
    return fail(Code::kUnsupported,
                "started by a PMIx launcher that gives no number of ranks; join by file:// or tcp://");
  if (is_set("RANK") && is_set("WORLD_SIZE") && variable("WORLD_SIZE") != "1")
    return fail(Code::kInvalidUsage,
                "RANK and WORLD_SIZE are set but MASTER_ADDR or MASTER_PORT is not: the {} ranks cannot meet by env://",
                variable("WORLD_SIZE"));
  return {};
}

Status detect_launcher(LaunchInfo* info) {
  Launch launch;
  TUTTI_TRY(read_launch(&launch));
  *info = launch.info;
  return {};
}

}  // namespace tutti
