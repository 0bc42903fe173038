// Covers transport/shm/shm.cc, transport/shm/shm_layout.h.
// What is special about shm: the layout, the checks of open(), the independence from /dev/shm, and nothing left behind.
#include "transport/shm/shm.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "support/process_usage.h"
#include "transport/segment_exchange.h"

namespace tutti::testing_traffic {
namespace {

using Range = std::pair<std::size_t, std::size_t>;  // begin, end

std::vector<Range> ranges_of(const ShmGeometry& geometry) {
  const ShmLayout layout(geometry);
  std::vector<Range> ranges{{0, sizeof(ControlPage)}};
  const auto add = [&](std::size_t begin, std::size_t bytes) { ranges.emplace_back(begin, begin + bytes); };
  for (int lane = 0; lane < geometry.lanes; ++lane) {
    const auto l = static_cast<std::uint16_t>(lane);
    for (Rank writer{0}; writer.value < geometry.ranks; ++writer)
      add(layout.release_line(writer, l), sizeof(ReleaseLine));
    for (std::size_t target = 0; target <= layout.ranks(); ++target) {
      for (const RingKind kind : {RingKind::kCells, RingKind::kSlots}) {
        const std::size_t largest = kind == RingKind::kCells ? ShmLayout::kCellBytes : geometry.slot_bytes.value;
        add(layout.headers(target, l, kind), layout.capacity(kind) * sizeof(MessageHeader));
        for (std::size_t i = 0; i < layout.capacity(kind); ++i)
          add(layout.payloads(target, l, kind) + i * layout.payload_stride(kind), largest);
      }
    }
  }
  return ranges;
}

TEST(ShmLayout, NothingOverlapsAndEverythingIsAligned) {
  for (const ShmGeometry& geometry : {ShmGeometry{1, 1, Bytes(4096), 2}, ShmGeometry{2, 3, Bytes(10'001), 3},
                                      ShmGeometry{8, 1, Bytes(256 * 1024), 4}, ShmGeometry{61, 5, Bytes(65536), 1}}) {
    std::vector<Range> ranges = ranges_of(geometry);
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(ranges[i].first % kCacheLine, 0u);
      const std::size_t next = i + 1 < ranges.size() ? ranges[i + 1].first : geometry.segment_bytes().value;
      ASSERT_LE(ranges[i].second, next) << geometry.ranks << " ranks, range " << i;
    }
  }
}

TEST(ShmLayout, DigestsDifferWithTheGeometry) {
  std::set<std::uint64_t> digests;
  for (const int ranks : {1, 2, 3})
    for (const int lanes : {1, 2})
      for (const std::size_t bytes : {65536, 131072})
        for (const std::uint32_t slots : {2u, 4u})
          digests.insert(ShmLayout({ranks, lanes, Bytes(bytes), slots}).digest());
  EXPECT_EQ(digests.size(), 24u);
  EXPECT_EQ(ShmLayout({2, 1, Bytes(65536), 3}).digest(), ShmLayout({2, 1, Bytes(65536), 4}).digest());  // rounded up
}

TEST(ShmEndpoint, OpenRefusesWhatDoesNotFit) {
  const ShmGeometry geometry{2, 1, Bytes(65536), 2};
  std::unique_ptr<ShmEndpoint> endpoint;
  Segments segments = make_segments(geometry);
  const auto code = [&](const ShmGeometry& wanted, int rank, Segments given) {
    return ShmEndpoint::open(wanted, Rank(rank), std::move(given), &endpoint).code();
  };
  EXPECT_EQ(code(geometry, 2, segments), Code::kInternalError);
  EXPECT_EQ(code(geometry, -1, segments), Code::kInternalError);
  EXPECT_EQ(code(geometry, 0, {segments[0]}), Code::kInternalError);
  EXPECT_EQ(code(geometry, 0, {segments[0], nullptr}), Code::kInternalError);
  EXPECT_EQ(code({2, 2, Bytes(65536), 2}, 0, segments), Code::kInternalError);
  EXPECT_EQ(code({2, 1, Bytes(100), 2}, 0, segments), Code::kInternalError);
  EXPECT_EQ(code({2, 1, Bytes(65536), 65}, 0, segments), Code::kInternalError);
  EXPECT_EQ(endpoint, nullptr);
  EXPECT_EQ(code(geometry, 0, segments), Code::kOk);
  EXPECT_EQ(code(geometry, 0, segments), Code::kInternalError);  // a segment serves one endpoint

  auto* page = reinterpret_cast<ControlPage*>(segments[0]->front());
  page->digest.store(page->digest.load(std::memory_order_relaxed) + 2, std::memory_order_relaxed);
  EXPECT_EQ(code(geometry, 1, segments), Code::kMismatch);
}

TEST(ShmEndpoint, MessagesWaitForAnEndpointThatComesLater) {
  const ShmGeometry geometry{2, 1, Bytes(65536), 2};
  const Segments segments = make_segments(geometry);
  const auto early = open_endpoint(geometry, Rank(0), segments);
  ASSERT_TRUE(try_send(*early, unicast(Rank(1)), Bytes(8), 1));
  ASSERT_TRUE(try_send(*early, multicast_to_all(), Bytes(60'000), 2));
  const auto late = open_endpoint(geometry, Rank(1), segments);
  EXPECT_TRUE(try_receive(*late, unicast(Rank(0)), Bytes(8), 1));
  EXPECT_TRUE(try_receive(*late, multicast_from(Rank(0)), Bytes(60'000), 2));
}

TEST(ShmEndpoint, DataOutlivesItsSender) {
  const ShmGeometry geometry{2, 1, Bytes(65536), 2};
  Segments segments = make_segments(geometry);
  const auto reader = open_endpoint(geometry, Rank(1), segments);
  auto writer = open_endpoint(geometry, Rank(0), std::move(segments));
  ASSERT_TRUE(try_send(*writer, unicast(Rank(1)), Bytes(5000), 1));
  writer.reset();
  EXPECT_TRUE(try_receive(*reader, unicast(Rank(0)), Bytes(5000), 1));
}

/// Two ranks as processes exchange small and large messages.
void talk(const ShmGeometry& geometry, Rank rank, UnixSocket& exchange) {
  const auto endpoint = open_endpoint(geometry, rank, exchange_segments(geometry, rank, exchange));
  const Route peer = unicast(Rank(1 - rank.value));
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Bytes bytes(i % 2 == 0 ? 8 : geometry.slot_bytes.value);
    send(*endpoint, peer, bytes, i);
    receive(*endpoint, peer, bytes, i);
  }
}

/// Mounts over /dev/shm in a mount namespace of this process's own. False: not permitted here.
bool replace_dev_shm(unsigned long flags, const char* options) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/dev/shm", "tmpfs", flags, options) == 0;
}

/// Runs `body` in a child whose /dev/shm is replaced. Exit status 0: well, 1: failed, 77: no permission to mount.
int with_dev_shm(unsigned long flags, const char* options, const std::function<bool()>& body) {
  const int status = test::end_of_process([&] { ::_exit(!replace_dev_shm(flags, options) ? 77 : body() ? 0 : 1); });
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool talks() {
  const ShmGeometry geometry{2, 1, Bytes(1 << 20), 4};
  run_processes(2, [&](Rank rank, UnixSocket& exchange) { talk(geometry, rank, exchange); });
  return !::testing::Test::HasFailure();
}

TEST(ShmEndpoint, ReadOnlyDevShmDoesNotMatter) {
  const int result = with_dev_shm(MS_RDONLY, nullptr, [] { return ::access("/dev/shm", W_OK) != 0 && talks(); });
  if (result == 77) GTEST_SKIP() << "no permission to mount a read-only /dev/shm";
  EXPECT_EQ(result, 0);
}

TEST(ShmEndpoint, FullDevShmDoesNotMatter) {
  const int result = with_dev_shm(0, "size=4096", [] {
    std::ofstream file("/dev/shm/filler");
    file << std::string(8192, 'x') << std::flush;
    return !file.good() && talks();
  });
  if (result == 77) GTEST_SKIP() << "no permission to mount a small /dev/shm";
  EXPECT_EQ(result, 0);
}

struct Traces {
  std::set<std::string> dev_shm;
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  bool operator==(const Traces&) const = default;
};

Traces traces() {
  Traces found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) found.dev_shm.insert(entry.path());
  found.descriptors = test::open_descriptors();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:tutti") != std::string::npos) ++found.mappings;
  return found;
}

void leave_nothing() {
  const ShmGeometry geometry{2, 2, Bytes(65536), 2};
  const Traces before = traces();
  for (int i = 0; i < 20; ++i) {
    const Segments segments = make_segments(geometry);
    const auto first = open_endpoint(geometry, Rank(0), segments);
    const auto second = open_endpoint(geometry, Rank(1), segments);
    ASSERT_TRUE(try_send(*first, unicast(Rank(1)), Bytes(60'000), 1));
    ASSERT_TRUE(try_receive(*second, unicast(Rank(0)), Bytes(60'000), 1));
  }
  const int status = test::end_of_process([&geometry] {
    const Segments segments = make_segments(geometry);
    const auto endpoint = open_endpoint(geometry, Rank(0), segments);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  talks();
  EXPECT_EQ(traces(), before);
}

// Where nobody else has files meanwhile, if that is permitted.
TEST(ShmEndpoint, NothingIsLeftBehindEvenByKilledRanks) {
  const auto leaves_nothing = [] { return leave_nothing(), !::testing::Test::HasFailure(); };
  const int result = with_dev_shm(0, "size=64m", leaves_nothing);
  if (result == 77) return leave_nothing();
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace tutti::testing_traffic
