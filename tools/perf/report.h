// What rank 0 prints: the table on stdout, progress on stderr, the JSON file, the list of settings.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gpu_bench.h"
#include "measure.h"
#include "options.h"

namespace tutti::perf {

class Report {
 public:
  /// Borrows `gpus`, nullptr on host buffers.
  Report(const Options& options, int ranks, const char* ranks_are, const GpuFacts* gpus);

  void begin() const;
  /// On stderr when it is a terminal: what is being measured now.
  void progress(const Row& row, std::size_t index, std::size_t rows) const;
  void note(const std::string& text) const;
  void add(RowResult result);
  /// Footer and JSON file. False: an element was wrong or the file could not be written.
  bool end() const;

 private:
  void clear_progress() const;
  void print_devices() const;

  const Options& options_;
  int ranks_;
  const char* ranks_are_;
  const GpuFacts* gpus_;
  bool terminal_;
  std::vector<RowResult> results_;
};

/// Microseconds with three or four significant figures, in seven columns.
std::string time_text(double seconds);

/// A file that has all of the text or, if it cannot be written, is as it was: then false, told on stderr.
bool write_whole(const std::string& path, const std::string& text);

/// Every setting: name, value in force, default, meaning.
void print_settings();

}  // namespace tutti::perf
