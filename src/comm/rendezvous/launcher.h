// What a launcher has put into the environment: which rank this process is, and how the ranks of this launch can meet.
#pragma once

#include <cstdint>
#include <string>

#include "core/settings.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// How the ranks meet by env://.
enum class RendezvousMethod : std::uint8_t {
  kAlone,        ///< there is only one rank
  kTcp,          ///< rank 0 listens on host:port
  kPrivateFile,  ///< one host: a file in this user's directory, named by the job
  kPmix,         ///< the key-value store of a PMIx server, found by libpmix
  kPmi,          ///< the key-value store of a PMI-1 server, at PMI_FD or PMI_PORT
  kNone,         ///< they cannot meet; `reason` says why
};

/// What env:// finds out about this process.
struct LaunchInfo {
  std::string launcher;  ///< "torchrun", "Open MPI", ...; "none" if there is no launcher, and one rank
  int ranks = 1;
  Rank rank{0};
  int local_rank = 0;
};

struct ProcessLaunch {
  LaunchInfo info;  ///< its ranks are 0 if only the launcher's server knows them, see ask_launcher()
  RendezvousMethod method = RendezvousMethod::kAlone;
  std::string host;  ///< the host for kTcp, or that of pmi_port
  std::uint16_t port = 0;
  std::string directory;  ///< for kPrivateFile: XDG_RUNTIME_DIR if it is this user's alone, else TMPDIR or /tmp
  RendezvousMethod otherwise =
      RendezvousMethod::kNone;  ///< what replaces kPrivateFile if another user has made the file's directory
  std::string job;              ///< different for any other launch that could meet in the same place
  std::string reason;           ///< why kNone
  int pmi_descriptor = -1;      ///< PMI_FD
  std::string pmi_port;         ///< PMI_PORT, if that is used
  std::string pmi_identity;     ///< PMI_ID, by which the server at PMI_PORT knows this process
};

/// Reads the environment of torchrun, PMI, Open MPI, PMIx or Slurm; without any of them there is one rank. If one
/// launcher has started this process inside another one's job, the variables of the inner one count. If numbers make no
/// sense, it returns kInvalidUsage and names them.
Status read_launch(const Settings& settings, ProcessLaunch* launch);

/// The first host in Slurm's notation for many, "n[001-003,7],m1", where rank 0 is. It is empty if `list` is not in
/// that notation.
std::string first_slurm_host(const std::string& list);

}  // namespace tutti
