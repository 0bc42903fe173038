// Descriptor: owns a file descriptor.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

namespace tutti {

/// Closes its descriptor when destroyed. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  /// Gives the descriptor away; it is no longer closed here.
  int release() { return std::exchange(value_, -1); }
  void reset(int value = -1) {
    if (value_ >= 0) ::close(value_);
    value_ = value;
  }

 private:
  int value_ = -1;
};

/// Lets this process have `count` descriptors, if it may have fewer and its hard limit allows more (getrlimit(2),
/// RLIMIT_NOFILE). Any thread.
void allow_descriptors(std::size_t count);

}  // namespace tutti
