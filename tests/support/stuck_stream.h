// A callback that holds up the thread that runs the calls of all streams.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>

#include "support/await.h"

namespace tutti::test {

/// A stream of its own. The callback is under way once this is made, and until go_on().
class StuckStream {
 public:
  StuckStream() {
    EXPECT_EQ(tuttiStreamCreate(&stream_), tuttiSuccess);
    const auto hold = [](tuttiResult_t, void* user) {
      auto* const self = static_cast<StuckStream*>(user);
      self->held_ = true;
      await([self] { return self->go_.load(); }, "the end of the callback");
    };
    EXPECT_EQ(tuttiStreamAddCallback(stream_, hold, this), tuttiSuccess);
    await([this] { return held_.load(); }, "the callback");
  }
  ~StuckStream() {
    go_on();
    EXPECT_EQ(tuttiStreamDestroy(stream_), tuttiSuccess);
  }
  StuckStream(const StuckStream&) = delete;
  StuckStream& operator=(const StuckStream&) = delete;

  void go_on() { go_ = true; }

 private:
  tuttiStream_t stream_ = nullptr;
  std::atomic<bool> held_{false}, go_{false};
};

}  // namespace tutti::test
