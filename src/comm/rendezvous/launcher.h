// What a launcher put into the environment: who we are and how the ranks of this launch can meet.
#pragma once

#include <cstdint>
#include <string>

#include "core/settings.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// How env:// meets.
enum class RendezvousMethod : std::uint8_t {
  kAlone,        ///< one rank: nobody to meet
  kTcp,          ///< rank 0 listens on host:port
  kPrivateFile,  ///< one host: a file in this user's directory, named by the job
  kPmix,         ///< the key-value store of a PMIx server, found by libpmix
  kPmi,          ///< that of a PMI-1 server: PMI_FD or PMI_PORT
  kNone,         ///< no way; `reason` says why
};

/// What env:// finds.
struct LaunchInfo {
  std::string launcher;  ///< "torchrun", "Open MPI", ...; "none": there is none, and one rank
  int ranks = 1;
  Rank rank{0};
  int local_rank = 0;
};

struct ProcessLaunch {
  LaunchInfo info;  ///< ranks 0: only the launcher's server knows, see ask_launcher()
  RendezvousMethod method = RendezvousMethod::kAlone;
  std::string host;  ///< kTcp, or of pmi_port
  std::uint16_t port = 0;
  std::string directory;  ///< kPrivateFile: XDG_RUNTIME_DIR if it is this user's alone, else TMPDIR or /tmp
  RendezvousMethod otherwise =
      RendezvousMethod::kNone;  ///< kPrivateFile: if another user has taken the place of the file's directory
  std::string job;              ///< different for any other launch that could meet in the same place
  std::string reason;           ///< why kNone
  int pmi_descriptor = -1;      ///< PMI_FD
  std::string pmi_port;         ///< PMI_PORT, if it is that
  std::string pmi_identity;     ///< PMI_ID, by which the server at PMI_PORT knows this process
};

/// Reads the environment: torchrun, PMI, Open MPI, PMIx, Slurm; none of them: one rank. Inside one launcher's job
/// another may have started this process, whose variables then count. Numbers that make no sense are kInvalidUsage and
/// named.
Status read_launch(const Settings& settings, ProcessLaunch* launch);

/// The first host of Slurm's notation for many, "n[001-003,7],m1": where rank 0 is. Empty: it is not that notation.
std::string first_slurm_host(const std::string& list);

}  // namespace tutti
