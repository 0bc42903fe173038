// Covers transport/tcp/tcp_link.cc.
// What a tcp endpoint tells of lost connections.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "core/log.h"
#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

/// What is logged at info, as long as it lives.
class LogLines {
 public:
  LogLines() {
    log_configure(LogLevel::kInfo, "");
    log_set_callback([](int, const char* line, void* user) { static_cast<LogLines*>(user)->text_ += line; }, this);
  }
  ~LogLines() {
    log_set_callback(nullptr, nullptr);
    log_configure(LogLevel::kWarn, "");
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  /// All so far; nothing must be logged meanwhile.
  const std::string& text() const {
    EXPECT_TRUE(log_drain(test::kPatience));
    return text_;
  }

 private:
  std::string text_;
};

// An endpoint lives longer than the options that its communicator was made by.
TEST(TcpLog, ALossNamesTheCommunicator) {
  const LogLines lines;
  Descriptor copy;
  TcpFabric fabric(2, [&copy](Descriptor* first, Descriptor* second) {
    tcp_pair(first, second);
    copy.reset(::dup(first->get()));
  });
  std::string name = "one of many words";
  std::unique_ptr<TcpEndpoint> endpoint;
  ASSERT_TRUE(TcpEndpoint::open(fabric.tcp_streams(Rank{0}), TcpGeometry{Bytes{4096}, 8, false},
                                TcpEndpoint::Place{Rank{0}, 2, 1, {Rank{0}}}, LogSource{Rank{0}, name}, &endpoint)
                  .ok());
  name.assign(name.size(), 'x');
  const Route route{Rank{1}, false, 0};
  for (int looks = 0; looks < 3; ++looks) {  // the first asks for a connection, the next takes it
    EXPECT_EQ(endpoint->recv_peek(route, Bytes{8}, Fingerprint{}, nullptr).state, PeekState::kAgain);
    if (copy.valid()) ::shutdown(copy.get(), SHUT_RDWR);
  }
  EXPECT_NE(lines.text().find("rank 0 comm one of many words: the connection to rank 1, lane 0, was lost"),
            std::string::npos)
      << lines.text();
}

}  // namespace
}  // namespace tutti::testing_traffic
