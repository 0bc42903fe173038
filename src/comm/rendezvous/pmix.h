// A client of PMIx, the key-value store of Open MPI's, PRRTE's and Slurm's servers, through libpmix.so.2.
//
// The library is opened when it is needed and not before: Tutti is built without its headers and runs without it.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/status.h"

namespace tutti {

/// One session: PMIx counts them, MPI in this process may have its own. Any thread, one at a time a session.
class PmixSession {
 public:
  PmixSession() = default;
  ~PmixSession();  ///< ends it; what was published stays with the server
  PmixSession(const PmixSession&) = delete;
  PmixSession& operator=(const PmixSession&) = delete;

  /// kUnsupported: there is no libpmix.so.2, or it is not usable; kSystemError: it does not reach its server.
  Status open();
  std::uint32_t rank() const;
  /// How many ranks the job has.
  Status ranks(int* count) const;
  /// For all ranks of the job to see.
  Status publish(const std::string& key, const std::string& value);
  /// Waits until rank 0 has published it. kTimeout at the deadline.
  Status fetch(const std::string& key, Deadline deadline, std::string* value) const;

 private:
  bool rank_0_is_here() const;

  bool open_ = false;
  std::string job_;  // PMIx's name space
  std::uint32_t rank_ = 0;
};

}  // namespace tutti
