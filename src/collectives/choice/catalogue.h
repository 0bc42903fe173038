// The catalogue: every algorithm that Tutti has, for every collective.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/generator.h"

namespace tutti {

/// All entries, grouped by collective; static storage, safe from any thread.
std::span<const Algorithm> catalogue();

/// The algorithm of that name for that collective, or nullptr where it is not offered.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

/// Whether any collective offers an algorithm of that name: tells a misspelt name from one that this collective lacks.
bool is_algorithm_name(std::string_view name);

/// Names offered, each once, comma-separated: for texts. Collective::kNone: those of all collectives.
std::string algorithm_names(Collective collective);

}  // namespace tutti
