// The connections of a process group: its ranks talk through them while the members stay the same.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "abort_hooks.h"
#include "device_comms.h"
#include "lane.h"
#include "post_office.h"
#include "rendezvous.h"

namespace tutti_torch {

struct Connections {
  Connections(const Joined& joined, int rank, int size, const std::shared_ptr<AbortHooks>& hooks);
  /// Waits for nothing: Python may drop the last reference while it holds its lock.
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Ends what is under way with `reason`; the peers' calls end with an error too. From any thread.
  void abort(const std::string& reason);
  /// Makes way for other connections. If the peers do so too and nothing is under way this is no abort, but a goodbye.
  void replace(const std::string& reason, bool peers_too);
  /// Carries out what is queued, at most for `limit`, then says goodbye without waiting for the peers to do so.
  void shutdown(const std::string& reason, std::chrono::milliseconds limit);

  const std::shared_ptr<Endpoint> collectives;
  const std::shared_ptr<DeviceComms> devices;
  const std::shared_ptr<PostOffice> post;
  const std::shared_ptr<Lane> lane;  // of the collectives, those of devices too
  const std::shared_ptr<Lane> sends;
  const std::string token;                     // of these alone, in all of the Store's life
  std::uint64_t monitored = 0;                 // monitored barriers so far
  std::mutex registers;                        // held while a tensor is registered in a window
  std::atomic<std::int64_t> registrations{0};  // of tensors in windows so far; equal on all ranks
  std::atomic<std::int64_t> windows{0};        // made so far; equal on all ranks

  /// The first error of the collectives' communicators.
  tuttiResult_t error() const;

 private:
  void leave(const std::string& reason);
};

}  // namespace tutti_torch
