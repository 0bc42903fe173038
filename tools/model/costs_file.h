// Costs as text: lines of a name and whole picoseconds; "#" begins a comment.
#pragma once

#include <string>

#include "core/costs.h"
#include "core/status.h"

namespace tutti::model {

/// Values that the file does not name stay as they are.
Status read_costs(const std::string& path, Costs* costs);
/// What read_costs reads.
std::string costs_text(const Costs& costs);

}  // namespace tutti::model
