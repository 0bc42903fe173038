#include "comm/launcher.h"

#include <sys/stat.h>

#include "comm/file_rendezvous.h"
#include "comm/places.h"
#include "comm/world.h"

namespace tutti {
namespace {

using test::expect_all_ok;
using test::free_port;
using test::Processes;
using test::SharedPage;
using test::TemporaryDirectory;

/// Removes what launchers set, then sets what the test wants.
void set_environment(const std::vector<std::pair<std::string, std::string>>& wanted) {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_RESTART_COUNT",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "PMIX_NAMESPACE",
                           "PMIX_RANK",
                           "OMPI_MCA_orte_hnp_uri",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_ID",
                           "SLURM_NNODES",
                           "SLURM_STEP_NUM_NODES",
                           "SLURM_LOCALID"})
    ::unsetenv(name);
  for (const auto& [name, value] : wanted) ::setenv(name.c_str(), value.c_str(), 1);
}

TEST(Launcher, WithoutOneItIsOneRank) {
  set_environment({});
  LaunchInfo info;
  ASSERT_TRUE(detect_launcher(&info).ok());
  EXPECT_EQ(info.ranks, 1);
  EXPECT_EQ(info.rank, Rank{0});
  EXPECT_EQ(info.launcher, "none");
  JoinRequest request = test::request_for(-1, -1, IdBytes{});
  JoinResult joined;
  const Status status = join_url("env://", request, &joined);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(joined.membership->ranks(), 1);
}

TEST(Launcher, TablesAreRead) {
  Launch launch;
  set_environment(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "torchrun");
  EXPECT_EQ(launch.info.rank, Rank{3});
  EXPECT_EQ(launch.info.local_rank, 1);
  EXPECT_EQ(launch.host, "n0");
  EXPECT_EQ(launch.port, 29501);
  const std::string first_job = launch.job;
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_NE(launch.job, first_job);

  set_environment({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "7"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "none");  // an allocation's shell, not a step
  ::setenv("SLURM_STEP_ID", "0", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "Slurm");
  EXPECT_EQ(launch.meeting, Meeting::kPrivateFile);
  ::setenv("SLURM_NNODES", "2", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.meeting, Meeting::kNone);

  set_environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "MPICH");
  EXPECT_EQ(launch.meeting, Meeting::kNone);
}

TEST(Launcher, NonsenseIsNamed) {
  Launch launch;
  set_environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  const Status status = read_launch(Settings{}, &launch);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("OMPI_COMM_WORLD_RANK"), std::string::npos) << status.text();
}

// Half of torchrun's variables would otherwise make many communicators of one rank, silently.
TEST(Launcher, ATorchrunWithoutAPlaceToMeetIsRefused) {
  LaunchInfo info;
  set_environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  const Status status = detect_launcher(&info);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("MASTER_ADDR"), std::string::npos) << status.text();
  set_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(detect_launcher(&info).ok());
  EXPECT_EQ(info.ranks, 1);
}

TEST(Launcher, OpenMpiRanksMeetInAPrivateFile) {
  const TemporaryDirectory directory;
  Processes processes;
  processes.start_all(3, [&](int rank, SharedPage&) {
    set_environment({{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_SIZE", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                     {"PMIX_NAMESPACE", "prterun-1@1"},
                     {"TMPDIR", directory.path()}});
    for (int round = 0; round < 5; ++round) {
      JoinResult joined;
      TUTTI_TRY(join_url("env://", test::request_for(-1, -1, IdBytes{}), &joined));
      if (joined.membership->rank() != Rank{rank}) return fail(Code::kInternalError, "another rank");
      joined.membership->say_goodbye(0);
    }
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 3);
  EXPECT_TRUE(directory.empty());
}

TEST(Launcher, TorchrunRanksMeetNextToTheAgentsPort) {
  const std::uint16_t port = free_port();
  Processes processes;
  processes.start_all(3, [&](int rank, SharedPage&) {
    set_environment({{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", "3"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", std::to_string(port - 1)},
                     {"TORCHELASTIC_RESTART_COUNT", "2"}});
    JoinResult joined;
    TUTTI_TRY(join_url("env://", test::request_for(-1, -1, IdBytes{}), &joined));
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 3);
}

TEST(Launcher, ADirectoryOpenToOthersIsRefused) {
  const TemporaryDirectory directory;
  const std::string mine = directory.file(fmt::format("tutti-{}", ::geteuid()));
  ASSERT_EQ(::mkdir(mine.c_str(), 0700), 0);
  ::chmod(mine.c_str(), 0755);
  std::string path;
  ASSERT_TRUE(private_meeting_path(directory.path(), "job", &path).ok());
  EXPECT_EQ(write_private_meeting(path, MeetingFile{}).code(), Code::kSystemError);
  ::chmod(mine.c_str(), 0700);
  EXPECT_TRUE(write_private_meeting(path, MeetingFile{}).ok());
}

}  // namespace
}  // namespace tutti
