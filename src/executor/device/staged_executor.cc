#include "executor/device/staged_executor.h"

#include <thread>
#include <utility>

#include "core/clock.h"
#include "executor/device/device_launch.h"
#include "executor/polled_run.h"

namespace tutti {

namespace {
/// Staging memory of a segment's input, and of its output: large enough that copies run at the bus's rate, small enough
/// that the first and the last copy, which nothing hides, are short. Not measured yet.
constexpr std::size_t kStaged = std::size_t{4} << 20;
/// Between two looks.
constexpr std::chrono::microseconds kCopyNap{50};
/// The longest, while the call waits for work of the caller's.
constexpr std::chrono::microseconds kLongestNap{1000};
/// Copies that have not ended after so long wait for work of the caller's that does not end.
constexpr double kCopyTimeout = 2;

/// Offsets of blocks that lie one after another.
template <class Size>
std::size_t lay_out(std::size_t blocks, const Size& size, std::vector<std::size_t>* offsets) {
  offsets->resize(blocks);
  std::size_t end = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    (*offsets)[b] = end;
    end += size(b);
  }
  return end;
}
}  // namespace

// Copies that cannot be waited for keep what they use.
StagedExecutor::~StagedExecutor() {
  if (stream_ != nullptr) {
    if (!have_copies_ended()) return;
    if (owns_stream_) (void)driver_.destroy_stream(stream_);
  }
  for (std::byte* const memory : memory_) (void)driver_.release_shared(memory);
}

Status StagedExecutor::open(DeviceDriver::Stream stream) {
  owns_stream_ = stream == nullptr;
  if (owns_stream_) TUTTI_TRY(driver_.create_stream(device_, &stream));
  stream_ = stream;
  words_ = std::make_shared<GateWords>(driver_);
  TUTTI_TRY(words_->open());
  return grow(kStaged);
}

Status StagedExecutor::grow(std::size_t bytes) {
  if (bytes <= staged_bytes_) return {};
  void* memory = nullptr;
  bytes = round_up(bytes, kCacheLine);
  TUTTI_TRY(driver_.allocate_shared(Bytes{2 * slots_.size() * bytes}, &memory));
  auto* next = static_cast<std::byte*>(memory);
  memory_.push_back(next);
  staged_bytes_ = bytes;
  for (Slot& slot : slots_) {
    slot.in = std::exchange(next, next + bytes);
    slot.out = std::exchange(next, next + bytes);
  }
  return {};
}

Status StagedExecutor::hold(int device, DeviceDriver::Stream stream, std::shared_ptr<StreamGate>* gate) {
  return StreamGate::hold(words_, driver_, device, stream, gate);
}

void StagedExecutor::begin(TwoLevelStage* stage) {
  stage_ = stage;
  segments_ = 1;
  loading_ = at_ = 0;
  ready_ = running_ = draining_ = false;
  nap_ = kCopyNap;
  fault_ = gate_ == nullptr ? before_.record(driver_, device_, driver_.default_stream()) : Status{};
}

void StagedExecutor::start(const Launch& launch) {
  exchanging_ = false;
  whole_ = launch;
  whole_.one_shot = whole_.stream_stores = whole_.lends = whole_.input_is_shared = false;
  peer_device_input_ = is_foreign(whole_.input);
  peer_device_output_ = is_foreign(whole_.output);
  begin(buffers_.stage);
  if (fault_.ok()) fault_ = cut();
}

/// Bytes of a tile in the larger of the two buffers.
std::size_t StagedExecutor::tile_bytes() const {
  std::size_t block = whole_.count.value;
  std::size_t blocks = std::max(buffers_.input_blocks, buffers_.output_blocks);
  if (whole_.ragged != nullptr) {
    const BlockTable& input = whole_.ragged->input();
    const BlockTable& output = whole_.ragged->output();
    block = std::max(input.largest(), output.largest());
    blocks = std::max(input.size, output.size);
  }
  return std::min(std::max<std::size_t>(whole_.tile.value, 1), block) * whole_.element.value * blocks;
}

Status StagedExecutor::cut() {
  if (stage_ != nullptr) {
    stage_->begin(whole_, buffers_.levels);
    segments_ = stage_->segments();
    return {};
  }
  const std::size_t bytes = tile_bytes();
  const std::size_t tile = std::max<std::size_t>(whole_.tile.value, 1);
  const std::size_t tiles =
      whole_.ragged != nullptr ? whole_.ragged->tiles() : std::max<std::size_t>(div_up(whole_.count.value, tile), 1);
  tiles_ = std::max<std::size_t>(bytes == 0 ? tiles : kStaged / bytes, 1);
  segments_ = div_up(tiles, tiles_);
  return grow(bytes);
}

auto StagedExecutor::part_of(std::size_t segment) const -> Part {
  const std::size_t count = tiles_ * std::max<std::size_t>(whole_.tile.value, 1);
  const std::size_t all = whole_.ragged != nullptr ? SIZE_MAX : whole_.count.value;
  return Part{segment * count, std::min(count, all - segment * count)};
}

bool StagedExecutor::is_ready(const StreamPoint& point, Status* status) {
  bool ready = false;
  *status = point.query(&ready);
  return ready && status->ok();
}

Progress StagedExecutor::advance() {
  Progress outcome = Progress::kFailed;
  if (fault_.ok()) fault_ = step(&outcome);
  return fault_.ok() ? outcome : Progress::kFailed;
}

Status StagedExecutor::step(Progress* outcome) {
  *outcome = Progress::kAgain;
  Status status;
  if (stage_ != nullptr) TUTTI_TRY(stage_->kernels().reported("a call"));
  if (!ready_) {
    ready_ = is_ready(gate_ == nullptr ? before_ : gate_->before(), &status);
    if (!ready_) return status;
  }
  for (;;) {
    TUTTI_TRY(load_ahead());
    if (at_ == segments_) return drain(outcome);
    if (!running_) {
      const bool loaded = is_ready(slot(at_).loaded, &status);
      if (!loaded || !is_ready(slot(at_).stored, &status)) return status;
      start_segment();
    }
    *outcome = host().advance();
    if (*outcome != Progress::kDone) return {};
    TUTTI_TRY(finish_segment());
    *outcome = Progress::kAgain;
  }
}

Status StagedExecutor::load_ahead() {
  while (loading_ < segments_ && loading_ < at_ + slots_.size()) {
    TUTTI_TRY(exchanging_ ? bring_transfers() : load(loading_));
    TUTTI_TRY(slot(loading_).loaded.record(driver_, device_, stream_));
    ++loading_;
  }
  return {};
}

Status StagedExecutor::finish_segment() {
  running_ = false;
  TUTTI_TRY(exchanging_ ? return_transfers() : store(at_));
  TUTTI_TRY(slot(at_).stored.record(driver_, device_, stream_));
  ++at_;
  return {};
}

Status StagedExecutor::drain(Progress* outcome) {
  if (!draining_) {
    if (gate_ != nullptr) TUTTI_TRY(gate_->release(device_, stream_));
    TUTTI_TRY(after_.record(driver_, device_, stream_));
    draining_ = true;
  }
  Status status;
  if (!is_ready(after_, &status)) return status;
  gate_.reset();
  memories_.clear();
  *outcome = Progress::kDone;
  return {};
}

bool StagedExecutor::is_foreign(const std::byte* buffer) {
  const int device = buffer == nullptr ? -1 : driver_.place_of(buffer).device;
  return device >= 0 && device != device_;
}

/// Rows that lie close together in the staging memory and `pitch` bytes apart in the caller's. This device's kernels
/// need not reach the memory of others, its copies do.
Status StagedExecutor::move_rows(std::byte* staged, std::byte* buffer, std::size_t pitch, std::size_t width,
                                 std::size_t rows, bool in) {
  if (width == 0) return {};
  if (!(in ? peer_device_input_ : peer_device_output_))
    return copy_rows(
        driver_, device_, stream_,
        in ? RowsCopy{staged, width, buffer, pitch, width, rows} : RowsCopy{buffer, pitch, staged, width, width, rows});
  for (std::size_t row = 0; row < rows; ++row) {
    std::byte* const here = staged + row * width;
    std::byte* const there = buffer + row * pitch;
    TUTTI_TRY(driver_.copy(device_, in ? here : there, in ? there : here, Bytes{width}, stream_));
  }
  return {};
}

Status StagedExecutor::move_ragged(const BlockTable& blocks, Part part, std::byte* staged, std::byte* buffer, bool in) {
  const std::size_t element = whole_.element.value;
  for (std::size_t b = 0; b < blocks.size; ++b) {
    const std::size_t bytes = part.of(blocks.counts[b]) * element;
    TUTTI_TRY(move_rows(staged, buffer + (blocks.offsets[b] + part.first) * element, bytes, bytes, 1, in));
    staged += bytes;
  }
  return {};
}

Status StagedExecutor::load(std::size_t segment) {
  if (stage_ != nullptr) return stage_->load(segment, slot(segment).in);
  if (whole_.input == nullptr) return {};
  const Part part = part_of(segment);
  auto* const input = const_cast<std::byte*>(whole_.input);  // it is only read: one function serves both ways
  if (whole_.ragged != nullptr) return move_ragged(whole_.ragged->input(), part, slot(segment).in, input, true);
  const std::size_t element = whole_.element.value;
  return move_rows(slot(segment).in, input + part.first * element, whole_.count.value * element, part.count * element,
                   buffers_.input_blocks, true);
}

Status StagedExecutor::store(std::size_t segment) {
  if (stage_ != nullptr) return stage_->store(segment, slot(segment).out);
  if (whole_.output == nullptr) return {};
  const Part part = part_of(segment);
  if (whole_.ragged != nullptr)
    return move_ragged(whole_.ragged->output(), part, slot(segment).out, whole_.output, false);
  const std::size_t element = whole_.element.value;
  return move_rows(slot(segment).out, whole_.output + part.first * element, whole_.count.value * element,
                   part.count * element, buffers_.output_blocks, false);
}

/// The host's part of the call: whole tiles of it, so that messages are those of the whole call.
void StagedExecutor::start_segment() {
  running_ = true;
  ++progress_;
  if (exchanging_) return host().start(std::span(exchanged_));
  if (stage_ != nullptr) return host().start(segment_launch_ = stage_->between(at_, slot(at_).in, slot(at_).out));
  Launch& launch = segment_launch_;
  launch = whole_;
  const Part part = part_of(at_);
  if (whole_.input != nullptr) launch.input = slot(at_).in;
  if (whole_.output != nullptr) launch.output = slot(at_).out;
  if (whole_.ragged != nullptr) {
    BlockTable input = whole_.ragged->input(), output = whole_.ragged->output();
    lay_out(
        input.size, [&](std::size_t b) { return part.of(input.counts[b]); }, &in_offsets_);
    lay_out(
        output.size, [&](std::size_t b) { return part.of(output.counts[b]); }, &out_offsets_);
    input.offsets = in_offsets_.data();
    output.offsets = out_offsets_.data();
    ragged_ = whole_.ragged->window(input, output, at_ * tiles_, tiles_);
    launch.ragged = &ragged_;
  } else {
    launch.count = Elems{part.count};
    if (buffers_.prepare) buffers_.prepare(slot(at_).in, part.count * buffers_.input_blocks);
  }
  host().start(launch);
}

void StagedExecutor::start(std::span<Transfer> transfers) {
  exchanging_ = true;
  exchanged_.assign(transfers.begin(), transfers.end());
  transfers_ = transfers;
  memories_.resize(transfers.size());
  begin(nullptr);
}

Status StagedExecutor::bring_transfers() {
  for (std::size_t i = 0; i < exchanged_.size(); ++i) {
    Transfer& transfer = exchanged_[i];
    if (transfer.count.value == 0 || !driver_.place_of(transfer.data).on_device) continue;
    memories_[i].resize(transfer.bytes().value);
    transfer.data = memories_[i].data();
    if (transfer.kind == Transfer::Kind::kSend)
      TUTTI_TRY(driver_.copy(device_, transfer.data, transfers_[i].data, transfer.bytes(), stream_));
  }
  return {};
}

Status StagedExecutor::return_transfers() {
  for (std::size_t i = 0; i < exchanged_.size(); ++i) {
    const Transfer& transfer = exchanged_[i];
    if (transfer.data == transfers_[i].data || transfer.kind == Transfer::Kind::kSend) continue;
    TUTTI_TRY(driver_.copy(device_, transfers_[i].data, transfer.data, transfer.bytes(), stream_));
  }
  return {};
}

Status StagedExecutor::run(const Launch& launch, WaitMonitor& monitor) {
  start(launch);
  return run(monitor);
}

Status StagedExecutor::run(std::span<Transfer> transfers, WaitMonitor& monitor) {
  start(transfers);
  return run(monitor);
}

Rank StagedExecutor::missing() const {
  const Rank far = running_ ? host().missing() : kNoRank;
  return far != kNoRank || stage_ == nullptr ? far : stage_->kernels().missing();
}

std::uint64_t StagedExecutor::progress() const {
  return progress_ + host().progress() + (stage_ == nullptr ? 0 : stage_->kernels().waits());
}

Status StagedExecutor::run(WaitMonitor& monitor) { return run_polled(*this, monitor, kCopyNap); }

// The buffers are the caller's again when no copy uses them any more.
void StagedExecutor::abandon() {
  host().abandon();
  running_ = false;
  if (stage_ != nullptr) stage_->kernels().stop();
  (void)have_copies_ended();
  gate_.reset();
}

// Where the device has failed nothing runs any more.
bool StagedExecutor::have_copies_ended() {
  Status status = after_.record(driver_, device_, stream_);
  const Deadline timeout = Deadline::in(kCopyTimeout);
  while (status.ok() && !is_ready(after_, &status)) {
    if (timeout.passed()) return false;
    std::this_thread::sleep_for(kCopyNap);
  }
  return true;
}

void StagedExecutor::sleep(std::chrono::nanoseconds slice) {
  if (running_) return host().sleep(slice);
  host().cancel_sleep();
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, ready_ ? kCopyNap : nap_));
  nap_ = std::min<std::chrono::nanoseconds>(nap_ + nap_ / 8, kLongestNap);
}

}  // namespace tutti
