// Takes the place of the words' functions in what is included after it: in one function of the library, acquires or
// releases are relaxed.
#pragma once

#include <cstdint>
#include <string>

#include "device/device_word.h"

namespace tutti::test {

/// The function of the library, or the barrier of a block, that orders nothing. Empty if all do what they should.
inline std::string weakened;

inline std::uint64_t weakly_load_acquire(const std::uint64_t* word, bool wide, const char* function) {
  return weakened == function ? load_relaxed(word) : load_acquire(word, wide);
}
inline void weakly_store_release(std::uint64_t* word, std::uint64_t value, bool wide, const char* function) {
  weakened == function ? store_relaxed(word, value) : store_release(word, value, wide);
}

}  // namespace tutti::test

#define load_acquire(word, wide) test::weakly_load_acquire(word, wide, __func__)
#define store_release(word, value, wide) test::weakly_store_release(word, value, wide, __func__)
