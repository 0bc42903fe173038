// The libraries that Tutti is compared with, and how their ranks are started, with the settings that are best within a
// host.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tutti::perf {

struct Peer {
  const char* name;
  const char* program;                   ///< the contestant's program is contestant_PROGRAM
  const char* needs;                     ///< what to install for it
  std::vector<std::string> environment;  ///< NAME=VALUE, unless the user has set NAME
  std::vector<std::string> if_sharing;   ///< more of the environment if ranks share cores
  std::vector<std::string> launchers;  ///< the first that is installed starts all ranks; empty if each is started alone
  std::vector<std::string> options;    ///< the launcher's; without a launcher, a command that becomes the rank
  bool is_yardstick = false;           ///< no library but work of the machine, which has no result to check
};

/// Tutti itself, which is one side of every pair.
const Peer& tutti_peer();
std::span<const Peer> peer_table();
const Peer* find_peer(const std::string& name);

/// Where the contestants' programs are: `wanted` or, if that is empty, bench/ beside this program's folder.
std::string contestants_folder(const std::string& wanted);

/// The command that starts all ranks or, without a launcher, each rank; the program's own arguments follow. If it is
/// empty, `text` says what is missing.
std::vector<std::string> command_of(const Peer& peer, const std::string& folder, int ranks, bool sharing,
                                    std::string* text);

}  // namespace tutti::perf
