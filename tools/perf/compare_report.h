// The table and the JSON file of a comparison.
#pragma once

#include "compare.h"

namespace tutti::perf {

/// To the standard output.
void print_comparison(const Comparison& comparison);
/// To Options::json_path. False: told on the standard error.
bool write_comparison(const Comparison& comparison);

}  // namespace tutti::perf
