// What device buffers give is what host buffers give, bit for bit: in the deterministic mode, with types on the wire,
// with sums of products.
// Covers executor/device/device_executor.cc, comm/device/device_side.cc, kernels/device/device_pass.h.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "core/types.h"
#include "kernels/kernels.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

using Raw = std::vector<std::byte>;

constexpr tuttiDataType_t kFloats[] = {tuttiFloat16,  tuttiFloat32,    tuttiFloat64,
                                       tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};

std::size_t width(tuttiDataType_t type) { return size_of(static_cast<DataType>(type)).value; }

/// Between 1/2 and 2 with either sign for floats, so that sums lose bits; anything for the others.
Raw numbers(tuttiDataType_t type, int rank, std::size_t count) {
  Raw raw(count * width(type));
  std::vector<float> floats(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = mix64((static_cast<std::uint64_t>(rank) << 32) + i + 1);
    const float value = 0.5f + static_cast<float>(random % 100'003) / 66'669.0f;
    floats[i] = (random >> 40 & 1) != 0 ? -value : value;
    if (type == tuttiFloat64) {
      const double wide = static_cast<double>(floats[i]) / 3;
      std::memcpy(raw.data() + i * sizeof wide, &wide, sizeof wide);
    } else if (!is_float(static_cast<DataType>(type))) {
      std::memcpy(raw.data() + i * width(type), &random, width(type));
    }
  }
  if (type == tuttiFloat32) std::memcpy(raw.data(), floats.data(), raw.size());
  narrow_floats(static_cast<DataType>(type), raw.data(), floats.data(), count);
  return raw;
}

/// A reduction of one rank: the buffers, NULL where it has none, in bytes.
struct Reduction {
  std::size_t input = 0;
  std::size_t output = 0;
  std::function<tuttiResult_t(const void* send, void* recv)> call;
};

/// Runs it on host and on device memory; the results.
void run_both(tuttiComm_t comm, const Raw& data, const Reduction& what, bool in_place) {
  Raw input = data, host(what.output);
  DeviceMemory<std::byte> send(what.input + 1, std::byte{0}), recv(what.output + 1, std::byte{0});
  std::memcpy(send.data(), data.data(), what.input);
  void* const host_to = what.output == 0 ? nullptr : in_place ? input.data() : host.data();
  void* const to = what.output == 0 ? nullptr : in_place ? send.data() : recv.data();
  ASSERT_EQ(what.call(input.data(), host_to), tuttiSuccess) << tuttiGetLastError(comm);
  ASSERT_EQ(what.call(send.data(), to), tuttiSuccess) << tuttiGetLastError(comm);
  if (what.output == 0) return;
  ASSERT_EQ(std::memcmp(host_to, to, what.output), 0) << (in_place ? "in place" : "apart");
}

class DeviceNumbers : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { EXPECT_EQ(stand_in().allocations(), before_); }
  const std::size_t before_ = stand_in().allocations();  // tests of aborts may leave memory behind
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
};

TEST_P(DeviceNumbers, AreTheHostsInTheDeterministicMode) {
  const ScopedSetting deterministic("TUTTI_DETERMINISTIC", "1");
  const int ranks = GetParam();
  run_threads(ranks, [ranks](tuttiComm_t comm, int rank) {
    for (const tuttiDataType_t type : kFloats) {
      for (const tuttiRedOp_t op : {tuttiSum, tuttiProd, tuttiAvg}) {
        for (const std::size_t count : {std::size_t{7}, std::size_t{9001}}) {
          const std::size_t bytes = count * width(type);
          const auto all = static_cast<std::size_t>(ranks);
          const Raw data = numbers(type, rank, count * all);
          run_both(comm, data,
                   {bytes, bytes,
                    [&](const void* send, void* recv) {
                      return tuttiAllReduce(send, recv, count, type, op, comm, nullptr);
                    }},
                   count == 7);
          run_both(comm, data,
                   {bytes * all, bytes,
                    [&](const void* send, void* recv) {
                      return tuttiReduceScatter(send, recv, count, type, op, comm, nullptr);
                    }},
                   false);
        }
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// One algorithm for both, because each has an order of additions of its own.
TEST_P(DeviceNumbers, AreTheHostsWithATypeOnTheWire) {
  const ScopedSetting algorithm("TUTTI_ALGO", "all_pairs");
  const int ranks = GetParam();
  run_threads(ranks, [ranks](tuttiComm_t comm, int rank) {
    const auto all = static_cast<std::size_t>(ranks);
    for (const tuttiDataType_t wire : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
      for (const std::size_t count : {std::size_t{7}, std::size_t{9001}}) {
        const std::size_t bytes = count * sizeof(float);
        const Raw data = numbers(tuttiFloat32, rank, count * all);
        const auto reduce = [&](const void* send, void* recv) {
          return tuttiAllReduceWire(send, recv, count, tuttiFloat32, tuttiAvg, wire, comm, nullptr);
        };
        run_both(comm, data, {bytes, bytes, reduce}, false);
        run_both(comm, data, {bytes, bytes, reduce}, true);
        const auto to_last = [&](const void* send, void* recv) {
          return tuttiReduceWire(send, recv, count, tuttiFloat32, tuttiMax, ranks - 1, wire, comm, nullptr);
        };
        run_both(comm, data, {bytes, rank == ranks - 1 ? bytes : 0, to_last}, false);
        const auto scatter = [&](const void* send, void* recv) {
          return tuttiReduceScatterWire(send, recv, count, tuttiFloat32, tuttiSum, wire, comm, nullptr);
        };
        run_both(comm, data, {bytes * all, bytes, scatter}, false);
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST_P(DeviceNumbers, AreTheHostsInSumsOfProducts) {
  const ScopedSetting algorithm("TUTTI_ALGO", "all_pairs");
  const int ranks = GetParam();
  run_threads(ranks, [ranks](tuttiComm_t comm, int rank) {
    const auto all = static_cast<std::size_t>(ranks);
    for (int t = 0; t < kDataTypes; ++t) {
      const auto type = static_cast<tuttiDataType_t>(t);
      Raw factor = numbers(type, rank + 50, 1);
      tuttiRedOp_t op = tuttiSum;
      ASSERT_EQ(tuttiRedOpCreatePreMulSum(&op, factor.data(), type, tuttiScalarHostImmediate, comm), tuttiSuccess);
      for (const std::size_t count : {std::size_t{5}, std::size_t{3001}}) {
        const std::size_t bytes = count * width(type);
        const Raw data = numbers(type, rank, count * all);
        const auto reduce = [&](const void* send, void* recv) {
          return tuttiAllReduce(send, recv, count, type, op, comm, nullptr);
        };
        run_both(comm, data, {bytes, bytes, reduce}, false);
        run_both(comm, data, {bytes, bytes, reduce}, true);
        const auto scatter = [&](const void* send, void* recv) {
          return tuttiReduceScatter(send, recv, count, type, op, comm, nullptr);
        };
        run_both(comm, data, {bytes * all, bytes, scatter}, false);
        if (type != tuttiFloat32) continue;
        const auto on_wire = [&](const void* send, void* recv) {
          return tuttiAllReduceWire(send, recv, count, type, op, tuttiBfloat16, comm, nullptr);
        };
        run_both(comm, data, {bytes, bytes, on_wire}, false);
      }
      EXPECT_EQ(tuttiRedOpDestroy(op, comm), tuttiSuccess);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceNumbers, ::testing::Values(1, 2, 5, 8));

// A scalar in memory is read when the call runs, which for a device's is when the kernel does.
TEST(DeviceScalars, AreReadWhenTheCallRuns) {
  const std::size_t before = stand_in().allocations();
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  run_threads(2, [](tuttiComm_t comm, int) {
    DeviceVector data(40, 3.0f), factor(1, 0.0f);
    float host_factor = 5.0f;
    tuttiRedOp_t on_device = tuttiSum, on_host = tuttiSum;
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&on_device, factor.data(), tuttiFloat32, tuttiScalarDevice, comm),
              tuttiSuccess);
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&on_host, &host_factor, tuttiFloat32, tuttiScalarDevice, comm), tuttiSuccess);
    DeviceDriver::Stream cuda = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(0, &cuda).ok());
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess);
    const auto reduce = [&](float* buffer, tuttiRedOp_t op) {
      return tuttiAllReduce(buffer, buffer, 40, tuttiFloat32, op, comm, stream);
    };
    StandInDriver::put(cuda, [&factor] { factor.fill(2.0f); });
    EXPECT_EQ(reduce(data.data(), on_device), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_TRUE(data.is(12.0f));
    EXPECT_EQ(reduce(data.data(), on_host), tuttiSuccess) << tuttiGetLastError(comm);
    host_factor = 0.0f;
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_TRUE(data.is(120.0f));
    stand_in().begin_capture(cuda);
    EXPECT_EQ(reduce(data.data(), on_device), tuttiSuccess) << tuttiGetLastError(comm);
    std::shared_ptr<const Graph> graph;
    ASSERT_TRUE(stand_in().end_capture({cuda}, &graph).ok());
    for (const float value : {0.5f, 1.0f, 2.0f}) {
      StandInDriver::put(cuda, [&, value] { data.fill(1.0f), factor.fill(value); });
      StandInDriver::launch(graph, cuda);
      ASSERT_TRUE(stand_in().synchronize(cuda).ok());
      EXPECT_TRUE(data.is(2 * value));
    }
    std::vector<float> host(40, 1.0f);
    EXPECT_EQ(tuttiAllReduce(host.data(), host.data(), 40, tuttiFloat32, on_device, comm, nullptr),
              tuttiInvalidArgument);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("scalar is device memory"), std::string::npos)
        << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
  });
  EXPECT_EQ(stand_in().allocations(), before);
}

}  // namespace
}  // namespace tutti::test
