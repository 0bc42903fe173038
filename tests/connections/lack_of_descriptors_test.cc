// A process without file descriptors says so, and its join ends for all ranks, not at the deadline.
// Covers net/acceptor.cc, comm/join/join_task.cc, comm/membership/peer_process.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>
#include <tuple>

#include "support/joining_processes.h"

namespace tutti {
namespace {

using test::JoiningProcesses;
using test::SharedPage;

/// At most so many descriptors, for a scope.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

Status join_poor(int rank, int poor, rlim_t most, bool apart, SharedPage& page) {
  const Status status = [&] {
    std::optional<FewDescriptors> few;
    if (rank == poor) few.emplace(most);
    IdBytes id;
    const Status made = test::obtain_id(rank, page, &id);
    if (!made.ok()) return page.publish(IdBytes{}), made;  // the other need not wait for it
    JoinRequest request = test::request_for(rank, 2, id, test::kFarSeconds);
    if (apart) request.settings.host_id = "host " + std::to_string(rank);
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    page.mark(0);
    page.wait_for_mark(0, 2);
    joined.membership->say_goodbye(0);
    return Status();
  }();
  if (!status.ok()) page.mark(0);
  return status;
}

class Lack : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Lack, OfDescriptorsEndsAJoinAndIsNamed) {
  const auto [poor, apart] = GetParam();
  int named = 0;
  for (const rlim_t most : {4u, 7u, 10u, 12u, 13u, 14u, 15u, 16u, 18u, 20u, 24u, 28u}) {
    if (poor != 0 && most < 10) continue;  // it does not come so far that rank 0 knows of it
    JoiningProcesses processes;
    const auto begin = std::chrono::steady_clock::now();
    processes.start_all(2, [&, poor = poor, apart = apart](int rank, SharedPage& page) {
      return join_poor(rank, poor, most, apart, page);
    });
    processes.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), test::kFarSeconds / 4) << most << " descriptors: an end by the deadline";
    const SharedPage& page = processes.page();
    if (page.code(0) == Code::kOk && page.code(1) == Code::kOk) continue;
    const std::string texts = page.text(0) + "; " + page.text(1);
    EXPECT_NE(page.code(0), Code::kTimeout) << most << ": " << texts;
    EXPECT_NE(page.code(1), Code::kTimeout) << most << ": " << texts;
    EXPECT_NE(texts.find("Too many open files"), std::string::npos) << most << ": " << texts;
    ++named;
  }
  EXPECT_GE(named, 1) << "the limits have met nothing";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Lack, ::testing::Combine(::testing::Values(0, 1), ::testing::Bool()),
                         [](const auto& info) {
                           return "rank" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_apart" : "_near");
                         });

}  // namespace
}  // namespace tutti
