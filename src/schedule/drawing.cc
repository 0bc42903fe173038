#include "schedule/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

std::string receive_text(const Step& step) {
  const bool multicast = step.is(kMulticastRecv);
  if (step.recv_from == PeerSet::kAll) return multicast ? ", recv from all" : ", recv from each";
  if (step.recv_from == PeerSet::kHost) return ", recv from each of the host";
  if (step.recv_from == PeerSet::kAcross) return ", recv from each across hosts";
  if (step.recv_from == PeerSet::kGroup) {
    const HostGroup group = HostGroup::from_peer(step.recv_peer);
    return fmt::format(", recv from each of {} hosts at distance {}", group.members, group.distance);
  }
  return fmt::format(", recv from {}{}", step.recv_peer, multicast ? " (to all)" : "");
}

/// " x8", " x8 every 2", " x8 in runs of 2 every 4", " x8, stored downwards".
std::string span_text(const Step& step) {
  const Span& span = step.span;
  std::string text = fmt::format(" x{}", static_cast<std::uint32_t>(span.count));
  if (span.run > 0 && span.run < span.period) text += fmt::format(" in runs of {}", 1u << span.run);
  if (span.run < span.period) text += fmt::format(" every {}", 1u << span.period);
  if (step.is(kDescending)) text += ", stored downwards";
  return text;
}

std::string set_text(PeerSet set, std::int32_t peer) {
  switch (set) {
    case PeerSet::kAll:
      return "*";
    case PeerSet::kHost:
      return "h";
    case PeerSet::kAcross:
      return "a";
    case PeerSet::kGroup:
      return fmt::format("g{}", HostGroup::from_peer(peer).distance);
    default:
      return std::to_string(peer);
  }
}

std::string cell_text(const Step& step, bool token) {
  std::string text = step.has(kRecv) ? "<" + set_text(step.recv_from, step.recv_peer) + " " : "";
  if (step.has(kReduce)) text += "+";
  text += token ? "o" : std::to_string(step.chunk);
  if (step.span.count > 1) text += fmt::format("x{}", static_cast<std::uint32_t>(step.span.count));
  if (step.has(kStore)) text += "=";
  if (step.has(kSend)) text += " >" + set_text(step.send_to, step.send_peer);
  return text;
}

}  // namespace

const char* name_of(BufferId buffer) {
  switch (buffer) {
    case BufferId::kInput:
      return "input";
    case BufferId::kOutput:
      return "output";
    case BufferId::kScratch:
      return "scratch";
    default:
      return "none";
  }
}

std::string to_text(const Step& step) {
  std::string text;
  const std::string source = fmt::format("{}[{}]", name_of(step.src_buffer), step.src_chunk);
  if (step.has(kRecv)) text += receive_text(step);
  if (step.has(kReduce)) text += fmt::format(", reduce with {}{}", source, step.is(kOwnLeft) ? " on the left" : "");
  if (!step.has(kRecv) && step.src_buffer != BufferId::kNone) text += fmt::format(", take {}", source);
  if (step.is(kComplete)) text += ", complete";
  if (step.has(kStore)) text += fmt::format(", store {}[{}]", name_of(step.dst_buffer), step.dst_chunk);
  if (step.is(kAside)) text += ", at any time";
  if (step.has(kSend))
    text += step.send_to == PeerSet::kAll ? ", send to all" : fmt::format(", send to {}", step.send_peer);
  const bool several = step.span.count != 1;
  return fmt::format("chunk{} {}{}:{}", several ? "s" : "", step.chunk, several ? span_text(step) : "",
                     text.empty() ? " nothing" : text.substr(1));
}

std::string to_text(const Schedule& schedule) {
  const Shape& shape = schedule.shape;
  const Extent& extent = schedule.extent;
  std::string text = fmt::format("{} {}: rank {} of {}", name_of(schedule.algorithm->collective),
                                 schedule.algorithm->name, shape.rank, shape.ranks);
  if (is_rooted(schedule.algorithm->collective)) text += fmt::format(", root {}", shape.root);
  text += fmt::format("; parts {}, input {}, output {}, scratch {}\n", extent.parts, extent.input_blocks * extent.parts,
                      extent.output_blocks * extent.parts, extent.scratch_chunks);
  for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane) {
    if (shape.lanes > 1) text += fmt::format(" lane {}\n", lane);
    std::uint32_t number = 0;
    for (const Step& step : schedule.lane(lane)) text += fmt::format("{:4}  {}\n", number++, to_text(step));
  }
  return text;
}

std::string to_grid(std::span<const Schedule> schedules) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  for (const Schedule& schedule : schedules) {
    std::vector<std::string> row{fmt::format("rank {}", schedule.shape.rank)};
    const bool token = schedule.algorithm->collective == Collective::kBarrier;
    for (const Step& step : schedule.lane(0)) row.push_back(cell_text(step, token));
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}   ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace tutti
