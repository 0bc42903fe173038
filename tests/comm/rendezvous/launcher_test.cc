// Covers comm/rendezvous/launcher.cc, comm/rendezvous/launcher_store.cc.
#include "comm/rendezvous/launcher.h"

#include <sys/stat.h>

#include <fstream>
#include <map>

#include "comm/rendezvous/file_rendezvous.h"
#include "comm/rendezvous/join_url.h"
#include "comm/rendezvous/launcher_store.h"
#include "support/joining_processes.h"
#include "support/ports.h"
#include "support/temporary_directory.h"

namespace tutti {
namespace {

using test::expect_all_ok;
using test::free_port;
using test::JoiningProcesses;
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
                           "PMI_FD",
                           "PMI_PORT",
                           "PMI_ID",
                           "MPI_LOCALRANKID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_LAUNCH_NODE_IPADDR",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_ID",
                           "SLURM_NNODES",
                           "SLURM_STEP_NUM_NODES",
                           "SLURM_LOCALID",
                           "XDG_RUNTIME_DIR"})
    ::unsetenv(name);
  for (const auto& [name, value] : wanted) ::setenv(name.c_str(), value.c_str(), 1);
}

class Launcher : public ::testing::Test {
 protected:
  void TearDown() override { set_environment({}); }
};

TEST_F(Launcher, WithoutOneItIsOneRank) {
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

TEST_F(Launcher, TablesAreRead) {
  ProcessLaunch launch;
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
  EXPECT_EQ(launch.method, RendezvousMethod::kPrivateFile);
  ::setenv("SLURM_STEP_ID", "4294967290", 1);  // salloc's own shell is a step, too
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "none");
}

TEST_F(Launcher, SlurmOnSeveralHosts) {
  ProcessLaunch launch;
  set_environment({{"SLURM_PROCID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "1"},
                   {"SLURM_STEP_NUM_NODES", "2"},
                   {"SLURM_STEP_NODELIST", "n[007-008]"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.method, RendezvousMethod::kTcp);
  EXPECT_EQ(launch.host, "n007");
  EXPECT_EQ(launch.port, 20000 + 7 * 31 + 1);
  Settings ranged;
  for (const int ports : {1, 3, 10, 100}) {  // the ranks' own listeners fill a range from its beginning
    ranged.port_first = 500;
    ranged.port_last = static_cast<std::uint16_t>(500 + ports - 1);
    for (const char* job : {"7", "8", "9", "12345"}) {
      ::setenv("SLURM_JOB_ID", job, 1);
      ASSERT_TRUE(read_launch(ranged, &launch).ok());
      EXPECT_LE(launch.port, ranged.port_last);
      EXPECT_GE(launch.port, 500 + ports - std::max(1, ports / 4)) << ports << " ports, job " << job;
    }
  }
  ::setenv("PMIX_NAMESPACE", "slurm.pmix.7.1", 1);
  ::setenv("PMIX_RANK", "1", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.method, RendezvousMethod::kPmix);
  EXPECT_EQ(launch.info.launcher, "Slurm");
  // mpiexec.hydra in that step is the inner launcher.
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "5"}, {"MPI_LOCALRANKID", "1"}})
    ::setenv(name.c_str(), value.c_str(), 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "MPICH");
  EXPECT_EQ(launch.info.rank, Rank{3});
  EXPECT_EQ(launch.info.local_rank, 1);
  // And so is mpirun, whatever it inherited.
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "Open MPI");
  EXPECT_EQ(launch.info.ranks, 6);
  EXPECT_EQ(launch.method, RendezvousMethod::kPmix);
}

TEST_F(Launcher, SlurmsPmiIsUsedBetweenHosts) {
  ProcessLaunch launch;
  set_environment({{"SLURM_PROCID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "2"},
                   {"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "1"},
                   {"SLURM_STEP_NUM_NODES", "2"},
                   {"PMI_FD", "9"},
                   {"PMI_RANK", "1"},
                   {"PMI_SIZE", "2"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "Slurm");
  EXPECT_EQ(launch.method, RendezvousMethod::kPmi);
  EXPECT_EQ(launch.pmi_descriptor, 9);
}

TEST_F(Launcher, Hydra) {
  ProcessLaunch launch;
  set_environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "MPICH");
  EXPECT_EQ(launch.method, RendezvousMethod::kNone);  // who is there, but no way to meet
  EXPECT_NE(launch.reason.find("PMI_FD"), std::string::npos);
  ::setenv("PMI_FD", "7", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.method, RendezvousMethod::kPmi);
  EXPECT_EQ(launch.pmi_descriptor, 7);

  set_environment({{"PMI_PORT", "n1:4000"}, {"PMI_ID", "3"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.ranks, 0);  // the server knows
  EXPECT_EQ(launch.host, "n1");
  EXPECT_EQ(launch.port, 4000);
  for (const char* port : {"n1", ":4000", "n1:", "n1:0", "n1:70000", "n1:4000x"}) {
    ::setenv("PMI_PORT", port, 1);
    EXPECT_EQ(read_launch(Settings{}, &launch).code(), Code::kInvalidUsage) << port;
  }
  ::setenv("PMI_PORT", "n1:4000", 1);
  ::setenv("PMI_ID", "3 cmd=abort", 1);
  EXPECT_EQ(read_launch(Settings{}, &launch).code(), Code::kInvalidUsage);
}

TEST_F(Launcher, TwoThatCannotBeToldApartAreRefused) {
  ProcessLaunch launch;
  set_environment(
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "7"}, {"PMIX_NAMESPACE", "prte-1"}, {"PMIX_RANK", "0"}});
  const Status status = read_launch(Settings{}, &launch);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("PMIX_NAMESPACE=prte-1"), std::string::npos) << status.text();
  set_environment({{"PMIX_NAMESPACE", "prte-1"}, {"PMIX_RANK", "3"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.info.launcher, "PMIx");
  EXPECT_EQ(launch.method, RendezvousMethod::kPmix);
}

TEST_F(Launcher, SlurmsNotationForHosts) {
  for (const auto& [list, first] : std::map<std::string, std::string>{{"n1", "n1"},
                                                                      {"n1,n2", "n1"},
                                                                      {"n[1-3]", "n1"},
                                                                      {"n[007,9]", "n007"},
                                                                      {"rack[1-2]n[30-40],x", "rack1n30"},
                                                                      {"n[3]-ib", "n3-ib"},
                                                                      {"127.0.0.[1-2]", "127.0.0.1"},
                                                                      {"", ""},
                                                                      {"n[", ""},
                                                                      {"n[1-2", ""},
                                                                      {"n[]", ""},
                                                                      {"n]", ""},
                                                                      {"n[-2]", ""},
                                                                      {",n1", ""}})
    EXPECT_EQ(first_slurm_host(list), first) << list;
}

TEST_F(Launcher, NonsenseIsNamed) {
  ProcessLaunch launch;
  set_environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  const Status status = read_launch(Settings{}, &launch);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("OMPI_COMM_WORLD_RANK"), std::string::npos) << status.text();
}

// Half of torchrun's variables would otherwise make many communicators of one rank, silently.
TEST_F(Launcher, ATorchrunWithoutAPlaceToMeetIsRefused) {
  LaunchInfo info;
  set_environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  const Status status = detect_launcher(&info);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("MASTER_ADDR"), std::string::npos) << status.text();
  set_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(detect_launcher(&info).ok());
  EXPECT_EQ(info.ranks, 1);
}

TEST_F(Launcher, OpenMpiRanksMeetInAPrivateFile) {
  const TemporaryDirectory directory;
  JoiningProcesses processes;
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

TEST_F(Launcher, TorchrunRanksMeetNextToTheAgentsPort) {
  const std::uint16_t port = free_port();
  JoiningProcesses processes;
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

// Another user has taken the name first. All ranks say so at once.
TEST_F(Launcher, ATakenDirectoryEndsTheJoinOfAllRanks) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file(fmt::format("tutti-{}", ::geteuid()))) << "taken";
  JoiningProcesses processes;
  processes.start_all(2, [&](int rank, SharedPage&) {
    set_environment({{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"TMPDIR", directory.path()}});
    JoinResult joined;
    return join_url("env://", test::request_for(-1, -1, IdBytes{}, test::kFarSeconds), &joined);
  });
  processes.wait();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(processes.page().code(rank), Code::kSystemError) << processes.page().text(rank);
    EXPECT_NE(processes.page().text(rank).find("TMPDIR"), std::string::npos) << processes.page().text(rank);
  }
}

TEST_F(Launcher, TheRuntimeDirectoryIsPreferredIfItIsThisUsersAlone) {
  const TemporaryDirectory directory;
  ProcessLaunch launch;
  set_environment({{"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"XDG_RUNTIME_DIR", directory.path()},
                   {"TMPDIR", "/var/tmp"}});
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.directory, directory.path());
  EXPECT_EQ(launch.otherwise, RendezvousMethod::kNone);
  ::chmod(directory.path().c_str(), 0755);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.directory, "/var/tmp");
  ::setenv("PMIX_NAMESPACE", "prterun-1@1", 1);
  ::setenv("PMIX_RANK", "0", 1);
  ASSERT_TRUE(read_launch(Settings{}, &launch).ok());
  EXPECT_EQ(launch.method, RendezvousMethod::kPrivateFile);
  EXPECT_EQ(launch.otherwise, RendezvousMethod::kPmix) << "where the directory is taken";
}

TEST_F(Launcher, ADirectoryOpenToOthersIsRefused) {
  const TemporaryDirectory directory;
  const std::string mine = directory.file(fmt::format("tutti-{}", ::geteuid()));
  ASSERT_EQ(::mkdir(mine.c_str(), 0700), 0);
  ::chmod(mine.c_str(), 0755);
  std::string path;
  ASSERT_TRUE(private_rendezvous_path(directory.path(), "job", &path).ok());
  EXPECT_EQ(write_private_rendezvous_file(path, RendezvousFile{}).code(), Code::kSystemError);
  ::chmod(mine.c_str(), 0700);
  EXPECT_TRUE(write_private_rendezvous_file(path, RendezvousFile{}).ok());
}

}  // namespace
}  // namespace tutti
