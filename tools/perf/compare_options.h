// The options of --compare. Bad ones throw CLI::ValidationError.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "options.h"

namespace tutti::perf {

/// `text` gets the peers as typed.
void declare_compare(CLI::App* app, std::string* text, Compare* compare);
/// Called once all other options are set.
void set_compare(const CLI::App& app, const std::string& text, Options* options);

}  // namespace tutti::perf
