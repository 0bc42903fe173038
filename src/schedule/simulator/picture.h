// Pictures of schedules: ranks over time, as SVG.
#pragma once

#include <string>

#include "schedule/simulator/simulator.h"

namespace tutti {

struct PictureText {
  std::string title;
  std::string caption;     ///< below the title
  bool true_times = true;  ///< the time axis has numbers; else it only says what comes before what
};

/// The rows are ranks, time runs to the right. A box is a step: its colour, and the number in it, is the chunk; "+"
/// where it is reduced; empty boxes have no data. An arrow runs from the end of the step that sends to the start of the
/// one that receives. Legible for 2 to 16 ranks. All coordinates are whole tenths of a pixel, so equal traces give
/// equal text on any machine. Allocates.
std::string to_svg(const Algorithm& algorithm, const SimulatedCall& call, const Trace& trace, const PictureText& text);

/// Costs for pictures that show the order of things and nothing else: every step takes as long as every other, and so
/// does every message within a host; between hosts a message takes three times as long.
Network even_network(bool tcp);

}  // namespace tutti
