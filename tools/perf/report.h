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
  /// Borrows `gpus`, which is nullptr on host buffers.
  Report(const Options& options, int ranks, const char* ranks_are, const GpuFacts* gpus);

  void begin() const;
  /// If stderr is a terminal, shows there what is being measured now.
  void progress(const Row& row, std::size_t index, std::size_t rows) const;
  void note(const std::string& text) const;
  /// Prints the row and writes the JSON file with the rows so far.
  void add(RowResult result);
  /// Prints the footer and completes the JSON file. Returns false if an element was wrong or the file could not be
  /// written.
  bool end() const;

 private:
  void clear_progress() const;
  void print_devices() const;
  bool write_json(bool complete) const;

  const Options& options_;
  int ranks_;
  const char* ranks_are_;
  const GpuFacts* gpus_;
  bool terminal_;
  std::vector<RowResult> results_;
};

/// Microseconds with three or four significant figures, in seven columns.
std::string time_text(double seconds);

/// Writes all of the text into the file. If that fails, leaves the file as it was, reports it on stderr and returns
/// false.
bool write_whole(const std::string& path, const std::string& text);

/// Every setting: name, value in force, default, meaning.
void print_settings();

}  // namespace tutti::perf
