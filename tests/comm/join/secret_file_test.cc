// Covers comm/join/secret_file.cc, net/crypto.cc.
#include "comm/join/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "support/joining_processes.h"
#include "support/sanitized.h"
#include "support/temporary_directory.h"

namespace tutti {
namespace {

using test::SharedPage;
using test::TemporaryDirectory;

std::string write_secret(const TemporaryDirectory& directory, const std::string& name, const std::string& content) {
  const std::string path = directory.file(name);
  std::ofstream(path) << content;
  ::chmod(path.c_str(), 0600);
  return path;
}

TEST(SecretFile, IsStretchedByScrypt) {
  const TemporaryDirectory directory;
  Key key;
  ASSERT_TRUE(secret_file_key(write_secret(directory, "s", "training-cluster-2026"), &key).ok());
  // Python: hashlib.scrypt(b"training-cluster-2026", salt=b"tutti secret file", n=1 << 14, r=8, p=1, dklen=32)
  EXPECT_EQ(to_hex(key), "9a4c34aa097969bd19587a634f11731e7e4f0bf22c9a720b2df0807a72e46dd9");
  Key again;
  ASSERT_TRUE(secret_file_key(directory.file("s"), &again).ok());
  EXPECT_EQ(again, key);
  ASSERT_TRUE(secret_file_key(write_secret(directory, "s", "training-cluster-2027"), &again).ok());
  EXPECT_NE(again, key) << "the file has changed";
}

TEST(SecretFile, ThatOthersCanReadIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = write_secret(directory, "s", "a long enough secret");
  Key key;
  ::chmod(path.c_str(), 0640);
  EXPECT_EQ(secret_file_key(path, &key).code(), Code::kInvalidUsage);
  ::chmod(path.c_str(), 0600);
  EXPECT_TRUE(secret_file_key(path, &key).ok());
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const Status others = secret_file_key(path, &key);
  EXPECT_EQ(others.code(), Code::kInvalidUsage);
  EXPECT_NE(others.text().find("belongs to user 65534"), std::string::npos) << others.text();
}

TEST(SecretFile, OfTheWrongSizeIsRefused) {
  const TemporaryDirectory directory;
  Key key;
  EXPECT_EQ(secret_file_key(write_secret(directory, "s", "fifteen bytes.."), &key).code(), Code::kInvalidUsage);
  EXPECT_TRUE(secret_file_key(write_secret(directory, "s", "sixteen bytes..."), &key).ok());
  EXPECT_EQ(secret_file_key(write_secret(directory, "s", std::string(64 * 1024 + 1, 'x')), &key).code(),
            Code::kInvalidUsage);
  EXPECT_EQ(secret_file_key(directory.file("none"), &key).code(), Code::kInvalidUsage);
}

// A launcher that reads the file in one thread forks in another: its children can read it, too.
TEST(AloneSecretFile, IsReadInChildrenOfAProcessThatReadsIt) {
  if (test::kSanitized) GTEST_SKIP() << "a child may inherit a lock of the sanitizer's";
  const TemporaryDirectory directory;
  const std::array<std::string, 2> paths{write_secret(directory, "a", "a long enough secret a"),
                                         write_secret(directory, "b", "a long enough secret b")};
  std::atomic<bool> over{false};
  std::atomic<int> read{0};
  std::thread reader([&] {  // another file each time, so that each takes its time
    for (Key key; !over; ++read)
      if (!secret_file_key(paths[static_cast<std::size_t>(read) % 2], &key).ok()) return;
  });
  test::await([&] { return read > 2; }, "the reader");
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      Key key;
      ::_exit(secret_file_key(paths[0], &key).ok() ? 0 : 1);
    }
    EXPECT_EQ(test::await_end(child), 0);
  }
  over = true;
  reader.join();
}

/// Rank 0 makes the id with its file; the others join by it with theirs.
void join_with_files(SharedPage& page, const std::string& of_rank_0, const std::string& of_rank_1, double seconds) {
  Settings maker;
  maker.secret_file = of_rank_0;
  IdBytes id;
  ASSERT_TRUE(make_unique_id(maker, &id).ok());
  test::run_threads(2, page, [&](int rank, SharedPage&) {
    JoinRequest request = test::request_for(rank, 2, id, rank == 0 ? seconds / 2 : seconds);
    request.settings.secret_file = rank == 0 ? of_rank_0 : of_rank_1;
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    joined.membership->say_goodbye(0);
    return Status();
  });
}

TEST(SecretFile, MakesAnIdWorthlessToWhoOnlyCarriesIt) {
  const TemporaryDirectory directory;
  const std::string mine = write_secret(directory, "a", "a long enough secret a");
  const std::string other = write_secret(directory, "b", "a long enough secret b");
  SharedPage same;
  join_with_files(same, mine, mine, test::kFarSeconds);
  test::expect_all_ok(same, 2);
  for (const std::string& wrong : {std::string(), other}) {
    SharedPage page;
    join_with_files(page, mine, wrong, 6);
    EXPECT_EQ(page.code(1), Code::kRemoteError) << page.text(1);
    EXPECT_NE(page.text(1).find("TUTTI_SECRET_FILE"), std::string::npos) << page.text(1);
    EXPECT_EQ(page.code(0), Code::kTimeout) << page.text(0);
  }
}

TEST(KeyAgreement, BothEndsGetTheSameAndNobodyElse) {
  KeyAgreement ends[3];
  for (KeyAgreement& end : ends) ASSERT_TRUE(KeyAgreement::make(&end).ok());
  Key first;
  Key second;
  Key third;
  ASSERT_TRUE(ends[0].agree(ends[1].public_key(), &first).ok());
  ASSERT_TRUE(ends[1].agree(ends[0].public_key(), &second).ok());
  ASSERT_TRUE(ends[2].agree(ends[0].public_key(), &third).ok());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(first, ends[0].public_key());
}

TEST(KeyAgreement, AKeyWithAKnownResultIsRefused) {
  KeyAgreement own;
  ASSERT_TRUE(KeyAgreement::make(&own).ok());
  Key shared;
  EXPECT_EQ(own.agree(Key{}, &shared).code(), Code::kRemoteError);
}

}  // namespace
}  // namespace tutti
