#include "connections.h"

namespace tutti_torch {
namespace {

// How long an isend is left to the thread that may be about to wait for it: a wake-up costs more.
constexpr std::chrono::microseconds kPatience{50};
constexpr std::chrono::seconds kLinger{5};

}  // namespace

Connections::Connections(const Joined& joined, int rank, int size, const std::shared_ptr<AbortHooks>& hooks)
    : collectives(joined.collectives),
      devices(std::make_shared<DeviceComms>(joined.collectives, rank, joined.name)),
      post(std::make_shared<PostOffice>(joined.receiver, joined.sender, rank, size, hooks)),
      lane(std::make_shared<Lane>(std::chrono::microseconds(0))),
      sends(std::make_shared<Lane>(kPatience)),
      token(joined.token) {
  if (size > 1) post->start();  // a peer may send before this rank thinks of it
}

Connections::~Connections() { leave("the process group is gone"); }

void Connections::leave(const std::string& reason) {
  lane->close(reason);
  sends->close(reason);
  post->close(reason, sends, kLinger);
  if (!lane->idle()) return;
  devices->leave();
  collectives->leave();
}

void Connections::replace(const std::string& reason, bool peers_too) {
  if (peers_too && lane->idle() && sends->idle() && error() == tuttiSuccess)
    leave(reason);
  else
    abort(reason);
}

void Connections::abort(const std::string& reason) {
  lane->close(reason);
  sends->close(reason);
  devices->abort();
  collectives->abort();
  post->abort();
}

tuttiResult_t Connections::error() const {
  const tuttiResult_t own = collectives->error();
  return own != tuttiSuccess ? own : devices->error();
}

void Connections::shutdown(const std::string& reason, std::chrono::milliseconds limit) {
  if (!collectives->aborted()) {
    lane->drain(limit);
    if (!sends->drain(kLinger)) post->abort();  // nobody takes them
  }
  leave(reason);
}

}  // namespace tutti_torch
