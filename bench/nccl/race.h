// Tutti against NCCL on GPU buffers, in turn in the same ranks and on the same memory.
//
// Where there is a GPU for each rank, ranks are threads and NCCL goes as it likes. Ranks that share a GPU are processes
// with a host id each (NCCL refuses two of one host on a card), so NCCL's messages go through its socket transport:
// this measures NCCL's sockets, and Tutti is made to use its own (TUTTI_TRANSPORT=tcp). It says nothing about ranks
// that share memory.
//
// Method. A pair is a block of operations of one library and one of the other; who is first changes. An operation that
// is not timed begins a block; time runs on CUDA events to the end of the last, or by the host's clock where calls are
// to block; the slowest rank counts. Every size is checked first, by both libraries, on poisoned output.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::bench {

struct Race {
  std::string collective = "all_reduce";
  int ranks = 2;
  int devices = 1;
  std::size_t min_bytes = 8, max_bytes = 64 << 20;
  double factor = 8;
  int pairs = 7;
  double block_ms = 20;
  bool blocking = false;
  std::string json;  ///< a file; empty: none
  std::string url;   ///< where the ranks meet

  bool shares_devices() const { return ranks > devices; }
};

/// One rank, on device rank mod devices; rank 0 prints. Ends the process with code 1 when something fails.
void run_rank(const Race& race, int rank);

/// Says why and ends the process, at once and with code 1.
[[noreturn]] void give_up(const std::string& text);

}  // namespace tutti::bench
