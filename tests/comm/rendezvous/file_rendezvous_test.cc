// Covers comm/rendezvous/file_rendezvous.cc.
// The rendezvous file on a full disk, and where two jobs use one path.
#include "comm/rendezvous/file_rendezvous.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support/rank_processes.h"
#include "support/temporary_directory.h"

namespace tutti {
namespace {

using test::TemporaryDirectory;

RendezvousFile content_of(std::uint64_t round) {
  RendezvousFile content;
  content.round = round;
  return content;
}

TEST(FileRendezvous, WithoutRoomNothingIsLeftAndTheReasonIsTold) {
  const TemporaryDirectory directory;
  const int end = test::end_of_process([&directory] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{10, 10};
    if (::setrlimit(RLIMIT_FSIZE, &little) != 0) ::_exit(2);
    const Status status = write_rendezvous_file(directory.file("m"), content_of(1));
    // The system takes ten bytes of it, and so tells of no error of its own.
    const bool told = status.code() == Code::kSystemError && status.text().find("No space left") != std::string::npos;
    ::_exit(told && directory.empty() ? 0 : 1);
  });
  EXPECT_EQ(end, 0);
}

TEST(FileRendezvous, OnlyTheOwnMeetingIsRemoved) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m");
  ASSERT_TRUE(write_rendezvous_file(path, content_of(2)).ok());
  remove_rendezvous_file(path, content_of(1));
  EXPECT_FALSE(directory.empty());
  remove_rendezvous_file(path, content_of(2));
  EXPECT_TRUE(directory.empty());
}

// One job ends while the next one begins at the same path: its ranks find their meeting whoever comes first.
TEST(FileRendezvous, AMeetingThatReplacesTheRemovedOneStays) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("m");
  for (std::uint64_t round = 0; round < 300; ++round) {
    ASSERT_TRUE(write_rendezvous_file(path, content_of(2 * round)).ok());
    std::thread ending([&] { remove_rendezvous_file(path, content_of(2 * round)); });
    ASSERT_TRUE(write_rendezvous_file(path, content_of(2 * round + 1)).ok());
    ending.join();
    RendezvousFile found;
    bool is_there = false;
    std::string why;
    read_rendezvous_file(path, &found, &is_there, &why);
    ASSERT_TRUE(is_there && found == content_of(2 * round + 1)) << "round " << round << ": " << why;
    ::unlink(path.c_str());
    ASSERT_TRUE(directory.empty()) << "something is left beside it";
  }
}

}  // namespace
}  // namespace tutti
