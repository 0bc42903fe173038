// Connections over loopback TCP, with the congestion control of Tutti's sockets, from every rank to the next one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "player.h"

namespace tutti::peers {

/// One direction of an exchange: how far it has come in a buffer that it goes through again and again.
struct Flow {
  char* buffer;
  std::size_t size, left, at = 0;

  std::size_t next() const;
  void advance(std::size_t bytes);
};

/// This rank's two ends: to the next rank, and from the one before. Two ranks have one connection for both directions.
class SocketRing {
 public:
  /// Collective. nullptr: `text` says why not.
  static std::unique_ptr<SocketRing> connect(const Seat& seat, std::string* text);
  ~SocketRing();

  /// Moves what the kernel takes and gives at once, and yields if that is nothing and ranks share cores. False: a
  /// connection is lost, and `text` says why.
  bool move(Flow* sent, Flow* received, std::string* text) const;

 private:
  SocketRing(const Seat& seat, int to, int from);

  const int to_, from_;
  const bool is_crowded_;
};

}  // namespace tutti::peers
