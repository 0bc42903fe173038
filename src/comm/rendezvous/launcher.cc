#include "comm/rendezvous/launcher.h"

#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "comm/rendezvous/file_rendezvous.h"

namespace tutti {
namespace {

std::string variable(const char* name) {
  const char* const value = ::secure_getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody may change it during a join
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) { return !variable(name).empty(); }

Status number(const char* name, int low, int high, int* value) {
  const std::string text = variable(name);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error == std::errc() && end == text.data() + text.size() && *value >= low && *value <= high) return {};
  return fail(Code::kInvalidUsage, "{}=\"{}\": it must be a number from {} to {}", name, text, low, high);
}

/// Does what number() does, but a variable that is not set leaves the value as it is.
Status optional_number(const char* name, int low, int high, int* value) {
  return is_set(name) ? number(name, low, high, value) : Status();
}

constexpr int kMost = 1 << 20;

Status rank_and_size(const char* rank_name, const char* size_name, LaunchInfo* info) {
  TUTTI_TRY(number(size_name, 1, kMost, &info->ranks));
  return number(rank_name, 0, info->ranks - 1, &info->rank.value);
}

void no_way(ProcessLaunch* launch, const std::string& why) {
  launch->method = RendezvousMethod::kNone;
  launch->reason = why + "; join by file:// or tcp://, or through MPI with tutti_mpi.h";
}

bool in_open_mpi() { return is_set("OMPI_COMM_WORLD_RANK") && is_set("OMPI_COMM_WORLD_SIZE"); }
bool in_pmi() { return (is_set("PMI_RANK") && is_set("PMI_SIZE")) || (is_set("PMI_PORT") && is_set("PMI_ID")); }
/// hydra sets each rank's place on the host, and Slurm's PMI does not.
bool in_hydra() { return in_pmi() && (is_set("MPI_LOCALRANKID") || !is_set("SLURM_STEP_ID")); }

/// Slurm sets its variables also in the shell of an allocation. Only the variables of a step that runs tasks show that
/// srun started this process. The steps of a batch script and of salloc's own shell have numbers from 0xfffffff0.
bool in_slurm_step() {
  std::uint64_t step = 0;
  const std::string text = variable("SLURM_STEP_ID");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step < 0xfffffff0U && is_set("SLURM_PROCID") &&
         (is_set("SLURM_STEP_NUM_TASKS") || is_set("SLURM_NTASKS"));
}

Status read_torchrun(ProcessLaunch* launch) {
  launch->info.launcher = "torchrun";
  TUTTI_TRY(rank_and_size("RANK", "WORLD_SIZE", &launch->info));
  TUTTI_TRY(optional_number("LOCAL_RANK", 0, kMost, &launch->info.local_rank));
  int port = 0;
  TUTTI_TRY(number("MASTER_PORT", 1, 65534, &port));
  launch->method = launch->info.ranks == 1 ? RendezvousMethod::kAlone : RendezvousMethod::kTcp;
  launch->host = variable("MASTER_ADDR");
  launch->port = static_cast<std::uint16_t>(port + 1);  // torchrun's agent uses MASTER_PORT itself
  launch->job = variable("TORCHELASTIC_RUN_ID") + "/" + variable("TORCHELASTIC_RESTART_COUNT");
  return {};
}

bool in_pmix() { return is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK"); }

/// A private directory is preferred, because in one that others can write to they can take any name first.
std::string runtime_directory() {
  const std::string runtime = variable("XDG_RUNTIME_DIR");
  if (runtime.starts_with('/') && is_private_directory(runtime)) return runtime;
  return variable("TMPDIR").starts_with('/') ? variable("TMPDIR") : "/tmp";
}

/// A file is the fastest way and needs no server, and errors can name the missing ranks.
void meet_in_file(ProcessLaunch* launch, const std::string& job) {
  launch->method = RendezvousMethod::kPrivateFile;
  launch->job = launch->info.launcher + "/" + job;
  launch->directory = runtime_directory();
  if (in_pmix()) launch->otherwise = RendezvousMethod::kPmix;
}

Status read_open_mpi(ProcessLaunch* launch) {
  launch->info.launcher = "Open MPI";
  TUTTI_TRY(rank_and_size("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &launch->info));
  TUTTI_TRY(optional_number("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMost, &launch->info.local_rank));
  int local = launch->info.ranks;
  TUTTI_TRY(optional_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMost, &local));
  if (launch->info.ranks == 1) return {};
  // Version 4 has mpirun's address in the second variable, and version 5 has only the namespace.
  if (local == launch->info.ranks)
    meet_in_file(launch, variable("PMIX_NAMESPACE") + "/" + variable("OMPI_MCA_orte_hnp_uri"));
  else if (in_pmix())
    launch->method = RendezvousMethod::kPmix;
  else
    no_way(launch, "Open MPI started ranks on several hosts without PMIX_NAMESPACE and PMIX_RANK");
  return {};
}

Status read_pmi(ProcessLaunch* launch) {
  if (is_set("PMI_FD")) {
    TUTTI_TRY(number("PMI_FD", 0, kMost, &launch->pmi_descriptor));
    launch->method = RendezvousMethod::kPmi;
    return {};
  }
  launch->pmi_port = variable("PMI_PORT");
  launch->pmi_identity = variable("PMI_ID");
  if (launch->pmi_port.empty() || launch->pmi_identity.empty()) {
    no_way(launch, launch->info.launcher + " set PMI_RANK, but neither PMI_FD nor PMI_PORT and PMI_ID");
    return {};
  }
  const std::size_t colon = launch->pmi_port.rfind(':');
  int port = 0;
  const char* const end = launch->pmi_port.data() + launch->pmi_port.size();
  if (colon == std::string::npos || colon == 0 ||
      std::from_chars(launch->pmi_port.data() + colon + 1, end, port).ptr != end || port < 1 || port > 65535)
    return fail(Code::kInvalidUsage, "PMI_PORT=\"{}\": it must be a host, a colon and a port", launch->pmi_port);
  if (launch->pmi_identity.find_first_of(" \n=") != std::string::npos)
    return fail(Code::kInvalidUsage, "PMI_ID=\"{}\": it must be one word", launch->pmi_identity);
  launch->host = launch->pmi_port.substr(0, colon);
  launch->port = static_cast<std::uint16_t>(port);
  launch->method = RendezvousMethod::kPmi;
  return {};
}

Status read_hydra(ProcessLaunch* launch) {
  launch->info.launcher = "MPICH";
  TUTTI_TRY(optional_number("MPI_LOCALRANKID", 0, kMost, &launch->info.local_rank));
  if (is_set("PMI_RANK") && is_set("PMI_SIZE")) {
    TUTTI_TRY(rank_and_size("PMI_RANK", "PMI_SIZE", &launch->info));
    if (launch->info.ranks == 1) return {};
  } else {
    launch->info.ranks = 0;
  }
  return read_pmi(launch);
}

Status read_pmix(ProcessLaunch* launch) {
  launch->info.launcher = "PMIx";
  launch->info.ranks = 0;
  launch->method = RendezvousMethod::kPmix;
  return number("PMIX_RANK", 0, kMost, &launch->info.rank.value);
}

/// A port outside the range from which systems take ports for outgoing connections. If TUTTI_PORT_RANGE is set, it is
/// in the last quarter of that, because the ranks' own listeners fill the range from its beginning.
std::uint16_t slurm_port(const Settings& settings, std::uint64_t job, std::uint64_t step) {
  const std::uint64_t number = job * 31 + step;
  if (settings.port_first == 0) return static_cast<std::uint16_t>(20000 + number % 12000);
  const std::uint64_t ports = settings.port_last - settings.port_first + 1U;
  return static_cast<std::uint16_t>(settings.port_last - number % std::max<std::uint64_t>(1, ports / 4));
}

Status meet_at_first_slurm_host(const Settings& settings, ProcessLaunch* launch) {
  int job = 0, step = 0;
  TUTTI_TRY(number("SLURM_JOB_ID", 0, 0x7fffffff, &job));
  TUTTI_TRY(number("SLURM_STEP_ID", 0, 0x7fffffff, &step));
  launch->host = first_slurm_host(variable("SLURM_STEP_NODELIST"));
  if (launch->host.empty()) launch->host = variable("SLURM_LAUNCH_NODE_IPADDR");
  if (launch->host.empty()) {
    no_way(launch, fmt::format("Slurm started ranks on several hosts and names none of them: "
                               "SLURM_STEP_NODELIST=\"{}\"",
                               variable("SLURM_STEP_NODELIST")));
    return {};
  }
  launch->method = RendezvousMethod::kTcp;
  launch->port = slurm_port(settings, static_cast<std::uint64_t>(job), static_cast<std::uint64_t>(step));
  return {};
}

Status read_slurm(const Settings& settings, ProcessLaunch* launch) {
  launch->info.launcher = "Slurm";
  TUTTI_TRY(rank_and_size("SLURM_PROCID", is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                          &launch->info));
  TUTTI_TRY(optional_number("SLURM_LOCALID", 0, kMost, &launch->info.local_rank));
  int nodes = 1;
  TUTTI_TRY(optional_number("SLURM_NNODES", 1, kMost, &nodes));
  TUTTI_TRY(optional_number("SLURM_STEP_NUM_NODES", 1, kMost, &nodes));
  if (launch->info.ranks == 1) return {};
  const std::string job =
      variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") + "/" + variable("SLURM_RESTART_COUNT");
  if (nodes == 1) {
    meet_in_file(launch, job);
    return {};
  }
  launch->job = "Slurm/" + job;
  if (in_pmi()) return read_pmi(launch);
  if (in_pmix()) {
    launch->method = RendezvousMethod::kPmix;
    return {};
  }
  return meet_at_first_slurm_host(settings, launch);
}

}  // namespace

std::string first_slurm_host(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] == ']') return "";
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::size_t end = list.find(']', at);
    const std::size_t first = list.find_first_of("-,]", at);
    if (end == std::string::npos || first == at + 1) return "";
    host.append(list, at + 1, first - at - 1);
    at = end;
  }
  return host;
}

Status read_launch(const Settings& settings, ProcessLaunch* launch) {
  *launch = ProcessLaunch{};
  launch->info.launcher = "none";
  if (::getauxval(AT_SECURE) != 0)
    return fail(Code::kInvalidUsage,
                "env:// believes no environment in a program that has more rights than its user (set-user-id, or "
                "capabilities of its file): join by a unique id, tcp:// or file://");
  // The inner launcher comes first. torchrun may run inside any other, and mpirun and mpiexec.hydra in a Slurm step.
  if (is_set("RANK") && is_set("WORLD_SIZE") && is_set("MASTER_ADDR") && is_set("MASTER_PORT"))
    return read_torchrun(launch);
  if (in_open_mpi()) return read_open_mpi(launch);
  if (in_hydra() && in_pmix() && !variable("PMIX_NAMESPACE").starts_with("slurm."))
    return fail(Code::kInvalidUsage,
                "both PMI ({}) and PMIx (PMIX_NAMESPACE={}) are in the environment: unset those of the outer launcher",
                is_set("PMI_FD") ? "PMI_FD" : "PMI_PORT", variable("PMIX_NAMESPACE"));
  if (in_hydra()) return read_hydra(launch);
  if (in_slurm_step()) return read_slurm(settings, launch);
  if (in_pmix()) return read_pmix(launch);
  if (is_set("RANK") && is_set("WORLD_SIZE") && variable("WORLD_SIZE") != "1")
    return fail(Code::kInvalidUsage,
                "RANK and WORLD_SIZE are set but MASTER_ADDR or MASTER_PORT is not: the {} ranks cannot meet by env://",
                variable("WORLD_SIZE"));
  return {};
}

}  // namespace tutti
