// Gloo as a peer in a race: its TCP transport, met through MPI. Where the library is not there, nobody comes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

/// One per process. All functions are collective over MPI_COMM_WORLD, block, and abort MPI on an error.
class GlooPeer {
 public:
  virtual ~GlooPeer() = default;
  virtual void all_reduce(const float* in, float* out, std::size_t count) = 0;
  virtual void barrier() = 0;

  /// nullptr: this build has no Gloo. `interface`: the network interface to use; empty: the host name's.
  static std::unique_ptr<GlooPeer> connect(const std::string& interface);
};
