// Drawing: schedules as text, for people, golden tests and the prover's reports.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace tutti {

/// One line without an end of line: "chunk 3: recv from 1, reduce with input[3] on the left, send to 2".
std::string to_text(const Step& step);

/// A heading, then one numbered line a step, lane by lane.
std::string to_text(const Schedule& schedule);

/// "input", "output", "scratch", "none".
const char* name_of(BufferId buffer);

}  // namespace tutti
