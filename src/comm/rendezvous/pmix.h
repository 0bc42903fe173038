// A client of PMIx, the key-value store of Open MPI's, PRRTE's and Slurm's servers, through libpmix.so.2.
//
// The library is opened only when it is needed, so that Tutti can be built without its headers and runs without it.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/status.h"

namespace tutti {

/// One session. PMIx counts sessions, so MPI in this process may have its own. Any thread, but one at a time for each
/// session.
class PmixSession {
 public:
  PmixSession() = default;
  ~PmixSession();  ///< ends the session; what was published stays with the server
  PmixSession(const PmixSession&) = delete;
  PmixSession& operator=(const PmixSession&) = delete;

  /// Returns kUnsupported if there is no usable libpmix.so.2, and kSystemError if it does not reach its server.
  Status open();
  std::uint32_t rank() const;
  /// How many ranks the job has.
  Status ranks(int* count) const;
  /// Publishes a value for all ranks of the job.
  Status publish(const std::string& key, const std::string& value);
  /// Waits until rank 0 has published the value. Returns kTimeout at the deadline.
  Status fetch(const std::string& key, Deadline deadline, std::string* value) const;

 private:
  bool rank_0_is_here() const;

  bool open_ = false;
  std::string job_;  // PMIx's name space
  std::uint32_t rank_ = 0;
};

}  // namespace tutti
