// A client of PMI-1, the text protocol by which MPICH's and Intel's hydra and Slurm's pmi2 plugin serve their ranks.
//
// Each message is one line, "cmd=NAME key=value key=value\n", and requests and answers take turns. Source: MPICH,
// src/pmi/maint/pmi-1.1.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "comm/rendezvous/launcher.h"
#include "core/clock.h"
#include "core/status.h"
#include "net/descriptor.h"

namespace tutti {

/// Finds the value of `key` in a message; false if it has none. Values end at a space.
bool pmi_value(std::string_view line, std::string_view key, std::string_view* value);

/// Which file an open descriptor stands for.
struct FileId {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileId&) const = default;
};

/// One process's connection. One thread at a time. Every call blocks until its answer comes or the deadline passes
/// (kTimeout). If the server answers something else, it returns kRemoteError. After an error all later calls fail.
class PmiClient {
 public:
  /// `name` is the launcher's, for messages. A `borrowed` descriptor is left open. If its owner closes it and its
  /// number comes to stand for another file, nothing is written or read there any more.
  PmiClient(std::string name, Descriptor socket, bool borrowed);
  ~PmiClient();
  PmiClient(const PmiClient&) = delete;
  PmiClient& operator=(const PmiClient&) = delete;

  /// Begins the protocol. If there is an `id` (PMI_PORT), the server first sends rank() and ranks().
  Status start(const std::string& id, Deadline deadline);
  /// A key is put once; neither key nor value may have spaces. Others see it after the next barrier.
  Status put(const std::string& key, const std::string& value, Deadline deadline);
  Status get(const std::string& key, Deadline deadline, std::string* value);
  /// Waits for all ranks. The protocol does not say who is missing at the deadline.
  Status barrier(Deadline deadline);
  /// Ends the protocol. Without that a process manager takes the process's end for a crash.
  Status finalize(Deadline deadline);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  Status ask(const std::string& request, std::string_view answer, Deadline deadline, std::string* line);
  Status exchange(const std::string& request, std::string_view answer, Deadline deadline, std::string* line);
  Status take_place(Deadline deadline);
  bool is_ours() const;
  Status send_line(const std::string& line, Deadline deadline);
  Status receive_line(Deadline deadline, std::string* line);

  const std::string name_;
  Descriptor socket_;
  const bool borrowed_;
  const FileId file_;     // the file that the descriptor stood for at first
  std::string received_;  // what has come of the next line
  std::string space_;     // the name of this job's keys
  std::size_t longest_value_ = 0;
  int rank_ = -1;
  int ranks_ = 0;
  Status broken_;  // the error after which all calls fail
};

/// Connects to the inherited descriptor PMI_FD or to PMI_PORT, whichever the launch has.
Status connect_pmi(const ProcessLaunch& launch, Deadline deadline, Descriptor* socket, bool* borrowed);

}  // namespace tutti
