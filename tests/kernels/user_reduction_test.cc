// Covers kernels/user_reduction.cc.
// Reductions by a user's function: a right fold in the order of the sources, in place at any of them, whole pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "kernels/guarded.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

/// 2 x 2 matrices of integers that wrap: a product that is associative and does not commute.
using Matrix = std::array<std::uint16_t, 4>;

Matrix product(const Matrix& a, const Matrix& b) {
  const auto entry = [&](int row, int column) {
    return static_cast<std::uint16_t>(1u * a[2 * row] * b[column] + 1u * a[2 * row + 1] * b[2 + column]);
  };
  return {entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)};
}

/// What the fold has seen.
struct Products : UserReduction {
  mutable int calls = 0;
  mutable std::size_t most = 0;
  mutable bool aligned = true;  ///< the accumulator, to 64 bytes
};

void multiply(const UserReduction& self, const void* in, void* inout, std::size_t count) {
  const auto& seen = static_cast<const Products&>(self);
  ++seen.calls;
  seen.most = std::max(seen.most, count);
  seen.aligned = seen.aligned && reinterpret_cast<std::uintptr_t>(inout) % 64 == 0;
  for (std::size_t i = 0; i < count; ++i) {
    Matrix a, b;
    std::copy_n(static_cast<const unsigned char*>(in) + 8 * i, 8, reinterpret_cast<unsigned char*>(a.data()));
    std::copy_n(static_cast<unsigned char*>(inout) + 8 * i, 8, reinterpret_cast<unsigned char*>(b.data()));
    const Matrix result = product(a, b);
    std::copy_n(reinterpret_cast<const unsigned char*>(result.data()), 8, static_cast<unsigned char*>(inout) + 8 * i);
  }
}

Products products() {
  Products made;
  made.fold = multiply;
  made.element = Bytes{8};
  return made;
}

std::vector<std::vector<Matrix>> random_matrices(std::size_t sources, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(sources * 1000 + count));
  std::vector<std::vector<Matrix>> rows(sources, std::vector<Matrix>(count));
  for (auto& row : rows) {
    for (Matrix& matrix : row) {
      for (std::uint16_t& entry : matrix) entry = static_cast<std::uint16_t>(random());
    }
  }
  return rows;
}

/// How one reduction is laid out.
struct UserPlace {
  std::size_t offset = 0;
  int in_place = -1;
  bool second = false;
  bool slot = false;
};

std::string error_of(std::size_t sources, std::size_t count, const UserPlace& place) {
  const auto rows = random_matrices(sources, count);
  std::vector<Matrix> expected = rows[0];
  for (std::size_t k = 1; k < sources; ++k) {
    for (std::size_t i = 0; i < count; ++i) expected[i] = product(expected[i], rows[k][i]);
  }
  const std::size_t bytes = 8 * count;
  Guarded destination(place.offset, bytes);
  Guarded second(place.offset / 2, bytes);
  std::vector<std::vector<unsigned char>> copies(sources);
  std::vector<const void*> pointers(sources);
  for (std::size_t k = 0; k < sources; ++k) {
    copies[k].resize(place.offset + bytes);
    unsigned char* to = copies[k].data() + place.offset;
    if (static_cast<int>(k) == place.in_place) to = destination.data();
    std::copy_n(reinterpret_cast<const unsigned char*>(rows[k].data()), bytes, to);
    pointers[k] = to;
  }
  const Products user = products();
  ReduceArgs args{pointers.data(), static_cast<int>(sources), destination.data()};
  args.second = place.second ? second.data() : nullptr;
  args.count = count;
  args.divisor = 7;  // ignored, as the order
  args.order = ReduceOrder::kTree;
  args.user = &user;
  SlotStores stores;
  place.slot ? reduce_into_slot(reduce_by_user, Bytes{8}, args, stores) : reduce_by_user(args);
  const auto* want = reinterpret_cast<const unsigned char*>(expected.data());
  if (!std::equal(want, want + bytes, destination.data())) return "destination differs";
  if (place.second && !std::equal(want, want + bytes, second.data())) return "second differs";
  if (!destination.guards_untouched() || !second.guards_untouched()) return "written outside a destination";
  if (!user.aligned || user.most > 2048) return "pieces are misaligned or larger than 16 KiB";
  if (count == 0 && user.calls != 0) return "called for nothing";
  return "";
}

TEST(UserReduction, FoldsInTheOrderOfTheSources) {
  for (std::size_t sources : {1u, 2u, 3u, 8u, 70u}) {
    for (std::size_t count : {0u, 1u, 7u, 63u, 64u, 65u, 2047u, 2048u, 2049u, 5000u}) {
      for (bool slot : {false, true}) {
        EXPECT_EQ(error_of(sources, count, {8, -1, count % 2 == 0, slot}), "")
            << sources << " sources of " << count << (slot ? " into a slot" : "");
      }
    }
  }
}

TEST(UserReduction, InPlaceAtEverySource) {
  for (int k = 0; k < 5; ++k) {
    for (std::size_t count : {1u, 100u, 4100u}) {
      EXPECT_EQ(error_of(5, count, {0, k, false, false}), "") << k << " of " << count;
      EXPECT_EQ(error_of(5, count, {0, k, true, true}), "") << k << " of " << count;
    }
  }
}

TEST(UserReduction, AtEveryMisalignment) {
  for (std::size_t offset = 0; offset < 64; ++offset) {
    EXPECT_EQ(error_of(3, 2500, {offset, offset % 2 == 0 ? 1 : -1, true, offset % 3 == 0}), "") << offset;
  }
}

TEST(UserReduction, PiecesHoldWholeElements) {
  // 16 KiB is no multiple of 24.
  struct Largest24 {
    static void fold(const UserReduction&, const void* in, void* inout, std::size_t count) {
      const auto* from = static_cast<const unsigned char*>(in);
      auto* to = static_cast<unsigned char*>(inout);
      for (std::size_t i = 0; i < count; ++i, from += 24, to += 24) {
        if (std::lexicographical_compare(to, to + 24, from, from + 24)) std::copy_n(from, 24, to);
      }
    }
  };
  constexpr std::size_t kCount = 3000;
  std::mt19937 random(3);
  std::vector<std::vector<unsigned char>> rows(3, std::vector<unsigned char>(24 * kCount));
  for (auto& row : rows) {
    for (unsigned char& byte : row) byte = static_cast<unsigned char>(random() % 3);
  }
  std::vector<unsigned char> expected = rows[0];
  for (std::size_t i = 0; i < kCount; ++i) {
    for (int k : {1, 2}) {
      const auto here = rows[k].begin() + 24 * i;
      const auto best = expected.begin() + 24 * i;
      if (std::lexicographical_compare(best, best + 24, here, here + 24)) std::copy_n(here, 24, best);
    }
  }
  const UserReduction user{Largest24::fold, Bytes{24}};
  const void* pointers[] = {rows[0].data(), rows[1].data(), rows[2].data()};
  std::vector<unsigned char> result(24 * kCount);
  ReduceArgs args{pointers, 3, result.data(), nullptr, kCount};
  args.user = &user;
  reduce_by_user(args);
  EXPECT_TRUE(result == expected);
}

}  // namespace
}  // namespace tutti
