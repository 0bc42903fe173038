// The options of -g. Bad ones throw CLI::ValidationError.
#pragma once

#include <CLI/CLI.hpp>

#include "options.h"

namespace tutti::perf {

void declare_gpu(CLI::App* app, GpuOptions* gpu);
/// Called once all other options are set.
void check_gpu(const CLI::App& app, const Options& options);

}  // namespace tutti::perf
