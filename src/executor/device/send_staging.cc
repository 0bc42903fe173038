#include "executor/device/send_staging.h"

#include <algorithm>

namespace tutti {

void SendStaging::clear() {
  largest_ = Bytes{0};
  queues_.clear();
  queue_of_.clear();
  lanes_.clear();
}

void SendStaging::add(std::size_t transfer, const Transfer& send, bool foreign) {
  const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const Queue& q) { return q.peer == send.peer; });
  const auto queue = static_cast<std::size_t>(found - queues_.begin());
  if (found == queues_.end()) queues_.push_back(Queue{send.peer, {}, 0, 0, kNone});
  queues_[queue].sends.push_back(Send{transfer, send.data, send.bytes().value, foreign});
  queue_of_.resize(transfer + 1, kNone);
  queue_of_[transfer] = queue;
  largest_ = std::max(largest_, send.bytes());
}

void SendStaging::begin(std::byte* memory, Bytes room, Bytes piece) {
  if (queues_.empty()) return;
  piece_ = piece.value;
  make_lanes(memory, room.value);
}

void SendStaging::make_lanes(std::byte* memory, std::size_t room) {
  const std::size_t piece = round_up(std::min(piece_, largest_.value), kCacheLine);
  const std::size_t share = room / (2 * queues_.size()) / kCacheLine * kCacheLine;
  is_scarce_ = share < piece;
  chunks_a_lane_ = is_scarce_ ? 1 : 2;
  chunk_bytes_ = is_scarce_ ? piece : std::min(share, std::max(CopyStream::kChunk, piece));
  lanes_.resize(is_scarce_ ? std::min(queues_.size(), room / piece) : queues_.size());
  const std::size_t chunks = lanes_.size() * chunks_a_lane_;
  while (chunks_.size() < chunks) chunks_.emplace_back();
  for (std::size_t i = 0; i < chunks; ++i) chunks_[i].memory = memory + i * chunk_bytes_;
  for (std::size_t i = 0; i < lanes_.size() && !is_scarce_; ++i) {
    lanes_[i].queue = i;
    queues_[i].lane = i;
  }
}

auto SendStaging::chunk(const Lane& lane, std::size_t number) -> Chunk& {
  const auto index = static_cast<std::size_t>(&lane - lanes_.data());
  return chunks_[index * chunks_a_lane_ + number % chunks_a_lane_];
}

/// Returns nullptr if all lanes hold what other peers are about to be sent.
auto SendStaging::lane_of(Queue* queue) -> Lane* {
  if (queue->lane != kNone) return &lanes_[queue->lane];
  const auto idle = std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.filled == l.read; });
  if (idle == lanes_.end()) return nullptr;
  if (idle->queue != kNone) queues_[idle->queue].lane = kNone;
  idle->queue = static_cast<std::size_t>(queue - queues_.data());
  queue->lane = static_cast<std::size_t>(idle - lanes_.begin());
  return &*idle;
}

Status SendStaging::read(std::size_t transfer, Bytes size, const std::byte** data) {
  *data = nullptr;
  Queue& queue = queues_[queue_of_[transfer]];
  Lane* const lane = lane_of(&queue);
  if (lane == nullptr) return {};
  TUTTI_TRY(fill(&queue, lane));
  Chunk& next = chunk(*lane, lane->read);
  if (!next.is_there) TUTTI_TRY(next.loaded.query(&next.is_there));
  if (!next.is_there) return {};
  const Part& part = next.parts[next.reading];
  *data = next.memory + part.place + next.done;
  next.done += size.value;
  if (next.done < part.bytes) return {};
  next.done = 0;
  if (++next.reading == next.parts.size()) ++lane->read;
  return {};
}

const std::byte* SendStaging::take_out(std::size_t transfer) {
  std::vector<Send>& sends = queues_[queue_of_[transfer]].sends;
  const auto send = std::find_if(sends.begin(), sends.end(), [&](const Send& s) { return s.transfer == transfer; });
  const std::byte* const data = send->data;
  sends.erase(send);
  return data;
}

// A lane that goes from peer to peer is filled only when its peer is about to be sent the piece.
Status SendStaging::load_ahead() {
  if (is_scarce_) return {};
  for (Queue& queue : queues_)
    if (queue.lane != kNone) TUTTI_TRY(fill(&queue, &lanes_[queue.lane]));
  return {};
}

Status SendStaging::fill(Queue* queue, Lane* lane) {
  while (lane->filled < lane->read + chunks_a_lane_ && queue->next < queue->sends.size())
    TUTTI_TRY(fill(queue, &chunk(*lane, lane->filled++)));
  return {};
}

/// Starts the copies of as many pieces as the chunk has room for. Pieces of one send lie one right after another.
Status SendStaging::fill(Queue* queue, Chunk* chunk) {
  chunk->parts.clear();
  chunk->reading = chunk->done = 0;
  chunk->is_there = false;
  std::size_t used = 0;
  while (queue->next < queue->sends.size()) {
    const Send& send = queue->sends[queue->next];
    const std::size_t left = send.bytes - queue->loaded;
    const std::size_t place = round_up(used, kCacheLine);
    const std::size_t free = place < chunk_bytes_ ? chunk_bytes_ - place : 0;
    const std::size_t piece = std::min(left, piece_);
    if (free < piece || (is_scarce_ && used != 0)) break;
    const std::size_t bytes = is_scarce_ ? piece : left <= free ? left : free / piece_ * piece_;
    const std::byte* const from = send.data + queue->loaded;
    TUTTI_TRY(copies_.copy(RowsCopy{chunk->memory + place, bytes, from, bytes, bytes, 1}, send.foreign));
    chunk->parts.push_back(Part{send.transfer, place, bytes});
    used = place + bytes;
    queue->loaded += bytes;
    if (queue->loaded != send.bytes) break;
    queue->loaded = 0;
    ++queue->next;
  }
  return copies_.mark(&chunk->loaded);
}

}  // namespace tutti
