// Drawing: schedules as text, for people, golden tests and the prover's reports.
#pragma once

#include <span>
#include <string>

#include "schedule/schedule.h"

namespace tutti {

/// One line without an end of line: "chunk 3: recv from 1, reduce with input[3] on the left, send to 2".
std::string to_text(const Step& step);

/// A heading, then one numbered line a step, lane by lane.
std::string to_text(const Schedule& schedule);

/// All ranks beside one another: a line a rank, a column a step. A cell is what is received, done and sent:
/// "<3 +1= >2" receives chunk 1 from rank 3, reduces it with the own chunk, stores it and sends it to rank 2; "1x4" are
/// four chunks from chunk 1 on; "*" are all ranks, "h" those of the host, "a" one of each host. On lane 0.
std::string to_grid(std::span<const Schedule> schedules);

/// "input", "output", "scratch", "none".
const char* name_of(BufferId buffer);

}  // namespace tutti
