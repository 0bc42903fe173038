// The table and the JSON file of a comparison.
#pragma once

#include "compare.h"

namespace tutti::perf {

/// Prints to the standard output.
void print_comparison(const Comparison& comparison);
/// Writes to Options::json_path. Returns false if that failed, which it reports on the standard error.
bool write_comparison(const Comparison& comparison);

}  // namespace tutti::perf
