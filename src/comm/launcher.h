// What a launcher put into the environment: who we are and how the ranks of this launch can meet.
#pragma once

#include <cstdint>
#include <string>

#include "comm/join.h"

namespace tutti {

/// How env:// meets.
enum class Meeting : std::uint8_t {
  kAlone,        ///< one rank: nobody to meet
  kTcp,          ///< rank 0 listens on host:port
  kPrivateFile,  ///< one host: a file in this user's directory, named by the job
  kNone,         ///< no way; `reason` says why
};

struct Launch {
  LaunchInfo info;
  Meeting meeting = Meeting::kAlone;
  std::string host;
  std::uint16_t port = 0;
  std::string directory;  ///< kPrivateFile: for temporary files, TMPDIR or /tmp
  std::string job;        ///< different for any other launch that could meet in the same place
  std::string reason;     ///< why kNone
};

/// Reads the environment: torchrun, Open MPI, MPICH (hydra), PMIx, Slurm, in this order; none of them: one rank.
/// Numbers that make no sense are kInvalidUsage and named.
Status read_launch(Launch* launch);

}  // namespace tutti
