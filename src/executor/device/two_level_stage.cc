#include "executor/device/two_level_stage.h"

#include <algorithm>

#include "executor/device/device_launch.h"

namespace tutti {

namespace {
/// How much a rank sends to other hosts in one segment: enough for the network, but so little that several segments are
/// under way, and no more than a segment of staging memory holds. Not measured yet.
constexpr std::size_t kShare = std::size_t{1} << 20;
constexpr std::size_t kSlots = 4;
/// A message within the host of at least so many bytes is worth a thread block of its own. Not measured yet.
constexpr std::size_t kLeastTile = 8192;
}  // namespace

std::size_t TwoLevelStage::block_between(const HostMap& hosts, bool by_blocks, std::size_t count, std::size_t element) {
  const auto others = static_cast<std::size_t>(by_blocks ? hosts.hosts : 1);
  const std::size_t unit = kPartAlign.value / element;
  const std::size_t most = std::max(kShare / others / kPartAlign.value, std::size_t{1}) * unit;
  const std::size_t whole = by_blocks ? count : div_up(count, static_cast<std::size_t>(hosts.most));
  return std::min(round_up(whole, unit), most);
}

Bytes TwoLevelStage::memory() { return Bytes{kSlots * kShare}; }

Status TwoLevelStage::open() { return kernels_.reserve(memory(), &memory_); }

void TwoLevelStage::begin(const Launch& whole, const TwoLevelCall& call) {
  whole_ = whole;
  call_ = call;
  block_ = block_between(call.hosts, call.by_blocks, whole.count.value, whole.element.value);
  const auto ranks = static_cast<std::size_t>(call.hosts.most);
  segments_ = div_up(whole.count.value, call.by_blocks ? block_ : block_ * ranks);
  counts_.resize(ranks);
  offsets_.resize(ranks);
}

auto TwoLevelStage::at(std::size_t segment) const -> Segment {
  const auto ranks = static_cast<std::size_t>(call_.hosts.most);
  const std::size_t whole = call_.by_blocks ? block_ : block_ * ranks;
  Segment part{segment * whole, std::min(whole, whole_.count.value - segment * whole), 0};
  const std::size_t unit = kPartAlign.value / whole_.element.value;
  part.share = call_.by_blocks ? part.count : round_up(div_up(part.count, ranks), unit);
  return part;
}

/// How many elements this rank's blocks between hosts have.
std::size_t TwoLevelStage::own(const Segment& segment) const {
  return call_.by_blocks ? segment.count : segment.count_of(index());
}

std::byte* TwoLevelStage::slot(std::size_t segment, bool out) const {
  return memory_ + (segment % 2 * 2 + (out ? 1 : 0)) * kShare;
}

Status TwoLevelStage::copy(std::byte* to, const std::byte* from, std::size_t elements) {
  if (elements == 0) return {};
  const std::size_t width = bytes(elements);
  return copy_rows(kernels_.driver(), device(), stream(), RowsCopy{to, width, from, width, width, 1});
}

/// Launches a call of this host's ranks. One of `input` and `output` is the caller's and has a block for each of them;
/// the other holds only this rank's part.
Status TwoLevelStage::launch(const Schedule& schedule, const Segment& segment, int host, const std::byte* input,
                             std::byte* output) {
  for (int i = 0; i < ranks(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const int rank = call_.hosts.rank_at(host, i);
    counts_[place] = call_.by_blocks ? segment.count : segment.count_of(i);
    offsets_[place] =
        segment.first + (call_.by_blocks ? static_cast<std::size_t>(rank) * whole_.count.value : segment.begin_of(i));
  }
  const std::size_t mine = own(segment);
  const std::size_t begin = 0;
  const BlockTable all{counts_.data(), offsets_.data(), counts_.size()};
  const BlockTable one{&mine, &begin, 1};
  const std::size_t unit = kPartAlign.value / whole_.element.value;
  const std::size_t spread = div_up(block_, std::size_t{kernels_.blocks()});
  const std::size_t tile = std::clamp(bytes(round_up(spread, unit)), kLeastTile,
                                      std::max(kernels_.capabilities().max_message.value, kLeastTile));
  Launch launch = whole_;
  launch.schedule = &schedule;
  launch.input = input;
  launch.output = output;
  launch.count = Elems{mine};
  launch.tile = Elems{tile / whole_.element.value};
  launch.divisor = 1;
  const bool scatters = schedule.extent.input_blocks > 1;
  const RaggedTiling ragged = scatters ? RaggedTiling(all, one, launch.tile) : RaggedTiling(one, all, launch.tile);
  launch.ragged = &ragged;
  std::shared_ptr<CallEnd> ended;
  return kernels_.launch_on(launch, stream(), &ended);
}

Status TwoLevelStage::load(std::size_t segment, std::byte* in) {
  const Segment part = at(segment);
  if (call_.first == nullptr)
    return call_.by_blocks ? copy(in, whole_.input + bytes(part.first), part.count) : Status{};
  std::byte* const collected = slot(segment, false);
  if (!call_.by_blocks) {
    TUTTI_TRY(launch(*call_.first, part, 0, whole_.input, collected));
    return copy(in, collected, own(part));
  }
  for (int host = 0; host < call_.hosts.hosts; ++host) {
    std::byte* const partial = collected + bytes(static_cast<std::size_t>(host) * part.count);
    TUTTI_TRY(launch(*call_.first, part, host, whole_.input, partial));
  }
  return copy(in, collected, static_cast<std::size_t>(call_.hosts.hosts) * part.count);
}

void TwoLevelStage::run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) {
  between_ = whole_;
  between_.schedule = call_.between;
  between_.input = in;
  between_.output = out;
  between_.count = Elems{own(at(segment))};
  between_.tile = call_.tile;
  host.start(between_);
}

Status TwoLevelStage::store(std::size_t segment, const std::byte* out) {
  const Segment part = at(segment);
  if (call_.by_blocks && call_.last == nullptr) return copy(whole_.output + bytes(part.first), out, part.count);
  if (call_.last == nullptr) return {};
  std::byte* const arrived = slot(segment, true);
  if (!call_.by_blocks) {
    TUTTI_TRY(copy(arrived, out, own(part)));
    return launch(*call_.last, part, 0, arrived, whole_.output);
  }
  TUTTI_TRY(copy(arrived, out, static_cast<std::size_t>(call_.hosts.hosts) * part.count));
  for (int host = 0; host < call_.hosts.hosts; ++host) {
    const std::byte* const blocks = arrived + bytes(static_cast<std::size_t>(host) * part.count);
    TUTTI_TRY(launch(*call_.last, part, host, blocks, whole_.output));
  }
  return {};
}

}  // namespace tutti
