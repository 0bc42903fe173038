// Why a communicator failed, as its ranks tell each other.
#pragma once

#include <string>

#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// Why a communicator failed, as its ranks report it: the first cause, never the later death of the rank that reported
/// it.
struct FailureCause {
  Code code = Code::kOk;
  Rank from = kNoRank;     ///< the rank that noticed
  Rank culprit = kNoRank;  ///< the rank whose fault it is, if known
  std::string text;        ///< one sentence
  /// Calls that begin fail by it, before they use what others have sent. It does not travel.
  bool ends_calls = false;
};

}  // namespace tutti
