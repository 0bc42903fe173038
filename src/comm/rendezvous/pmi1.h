// A client of PMI-1, the text protocol by which MPICH's and Intel's hydra and Slurm's pmi2 plugin serve their ranks.
//
// One line a message, "cmd=NAME key=value key=value\n", request and answer in turn. Source: MPICH,
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

/// The value of `key` in a message; false: it has none. Values end at a space.
bool pmi_value(std::string_view line, std::string_view key, std::string_view* value);

/// Which file an open descriptor stands for.
struct FileId {
  dev_t device = 0;
  ino_t number = 0;
  bool operator==(const FileId&) const = default;
};

/// One process's connection. One thread at a time; every call blocks until its answer or the deadline (kTimeout). After
/// an error it is of no use any more, and says so. A server that answers something else is kRemoteError.
class PmiClient {
 public:
  /// `name`: the launcher's, for messages. A `borrowed` descriptor is left open; if its owner closes it and its number
  /// comes to stand for another file, nothing is said or read there any more.
  PmiClient(std::string name, Descriptor socket, bool borrowed);
  ~PmiClient();
  PmiClient(const PmiClient&) = delete;
  PmiClient& operator=(const PmiClient&) = delete;

  /// Says hello. With an `id` (PMI_PORT) the server first tells rank() and ranks().
  Status start(const std::string& id, Deadline deadline);
  /// A key is put once; neither key nor value may have spaces. Others see it after the next barrier.
  Status put(const std::string& key, const std::string& value, Deadline deadline);
  Status get(const std::string& key, Deadline deadline, std::string* value);
  /// Of all ranks. Who is missing at the deadline, the protocol does not tell.
  Status barrier(Deadline deadline);
  /// Without it a process manager takes the process's end for a crash.
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
  const FileId file_;     // that the descriptor stood for at first
  std::string received_;  // not yet a whole line
  std::string space_;     // the name of this job's keys
  std::size_t longest_value_ = 0;
  int rank_ = -1;
  int ranks_ = 0;
  Status broken_;  // why it is of no use any more
};

/// Connects as the launch says: to the inherited descriptor PMI_FD or to PMI_PORT.
Status connect_pmi(const ProcessLaunch& launch, Deadline deadline, Descriptor* socket, bool* borrowed);

}  // namespace tutti
