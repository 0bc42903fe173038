// A stream of the caller's, as CUDA and Tutti know it.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "support/await.h"
#include "support/device/stand_in_driver.h"

namespace tutti::test {

class CallerStream {
 public:
  explicit CallerStream(int device = 0) {
    EXPECT_TRUE(stand_in().create_caller_stream(device, &cuda_).ok());
    EXPECT_EQ(tuttiStreamFromCuda(&stream_, cuda_), tuttiSuccess) << tuttiGetLastError(nullptr);
  }
  ~CallerStream() {
    EXPECT_EQ(tuttiStreamDestroy(stream_), tuttiSuccess);
    EXPECT_TRUE(stand_in().destroy_stream(cuda_).ok());
  }
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  tuttiStream_t get() const { return stream_; }
  DeviceDriver::Stream cuda() const { return cuda_; }
  /// Work of the caller's own.
  void put(std::function<void()> work) const { StandInDriver::put(cuda_, std::move(work)); }
  /// Nothing that is put there later begins before `go`.
  void hold_until(const std::atomic<bool>& go) const {
    put([&go] { await([&] { return go.load(); }, "the word to go on"); });
  }
  /// What `calls` puts on the stream.
  std::shared_ptr<const Graph> capture(const std::function<void()>& calls) const {
    stand_in().begin_capture(cuda_);
    calls();
    std::shared_ptr<const Graph> graph;
    const Status status = stand_in().end_capture({cuda_}, &graph);
    EXPECT_TRUE(status.ok()) << status.text();
    return graph;
  }
  void drain() const { EXPECT_TRUE(stand_in().synchronize(cuda_).ok()); }

 private:
  DeviceDriver::Stream cuda_ = nullptr;
  tuttiStream_t stream_ = nullptr;
};

}  // namespace tutti::test
