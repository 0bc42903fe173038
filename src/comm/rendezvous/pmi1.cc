#include "comm/rendezvous/pmi1.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>
#include <vector>

#include "core/printable.h"
#include "net/address.h"
#include "net/unix_socket.h"

namespace tutti {
namespace {

/// No server sends longer lines, because names have at most 256 characters and values 1024 in all known servers.
constexpr std::size_t kLongestLine = 8192;
constexpr std::chrono::seconds kLongestPoll{60};

bool to_number(std::string_view text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Makes what a server sent, which may be anything, fit for a message.
std::string quoted(std::string_view line) { return printable(line.substr(0, 80)); }

std::string_view command_of(std::string_view line) {
  std::string_view command;
  return line.starts_with("cmd=") && pmi_value(line, "cmd", &command) ? command : std::string_view();
}

Status await(int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(kLongestPoll));
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(Code::kSystemError, "poll: {}", errno_text());
    if (deadline.passed()) return fail(Code::kTimeout, "no answer before the join's deadline");
  }
}

}  // namespace

bool pmi_value(std::string_view line, std::string_view key, std::string_view* value) {
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (word.size() <= key.size() || !word.starts_with(key) || word[key.size()] != '=') continue;
    *value = word.substr(key.size() + 1);
    return true;
  }
  return false;
}

namespace {

FileId file_of(int descriptor) {
  struct stat state {};
  return ::fstat(descriptor, &state) == 0 ? FileId{state.st_dev, state.st_ino} : FileId{};
}

}  // namespace

PmiClient::PmiClient(std::string name, Descriptor socket, bool borrowed)
    : name_(std::move(name)), socket_(std::move(socket)), borrowed_(borrowed), file_(file_of(socket_.get())) {}

/// Whether the descriptor still stands for the server. If MPI runs in the same process, it owns PMI_FD and closes it in
/// MPI_Finalize.
bool PmiClient::is_ours() const { return !borrowed_ || file_of(socket_.get()) == file_; }

PmiClient::~PmiClient() {
  if (borrowed_) socket_.release();
}

Status PmiClient::send_line(const std::string& line, Deadline deadline) {
  for (std::size_t sent = 0; sent < line.size();) {
    TUTTI_TRY(await(socket_.get(), POLLOUT, deadline));
    const ssize_t done = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) sent += static_cast<std::size_t>(done);
    if (done < 0 && errno != EAGAIN && errno != EINTR) return fail(Code::kSystemError, "cannot send: {}", errno_text());
  }
  return {};
}

Status PmiClient::receive_line(Deadline deadline, std::string* line) {
  for (;;) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      *line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return {};
    }
    if (received_.size() > kLongestLine)
      return fail(Code::kRemoteError, "it sends a line that does not end: \"{}...\"", quoted(received_));
    TUTTI_TRY(await(socket_.get(), POLLIN, deadline));
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) received_.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0) return fail(Code::kRemoteError, "it has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return fail(Code::kSystemError, "{}", errno_text());
  }
}

Status PmiClient::exchange(const std::string& request, std::string_view answer, Deadline deadline, std::string* line) {
  TUTTI_TRY(send_line(request + "\n", deadline));
  TUTTI_TRY(receive_line(deadline, line));
  return command_of(*line) == answer ? Status() : fail(Code::kRemoteError, "it answers \"{}\"", quoted(*line));
}

Status PmiClient::ask(const std::string& request, std::string_view answer, Deadline deadline, std::string* line) {
  if (!broken_.ok()) return fail(broken_.code(), "{} (in an earlier join)", broken_.text());
  const Status status = is_ours() ? exchange(request, answer, deadline, line)
                                  : fail(Code::kInvalidUsage, "PMI_FD was closed in this process, by MPI_Finalize?");
  if (!status.ok())
    broken_ = fail(status.code(), "{}'s PMI, asked \"{}\": {}", name_, command_of(request), status.text());
  return broken_;
}

/// When the server of PMI_PORT has the id, it sends this process's place in three lines: size, rank and whether to
/// debug.
Status PmiClient::take_place(Deadline deadline) {
  std::string line;
  for (int i = 0; i < 3; ++i) {
    std::string_view value;
    TUTTI_TRY(receive_line(deadline, &line));
    if (command_of(line) != "set") break;
    if (pmi_value(line, "rank", &value) && !to_number(value, &rank_)) break;
    if (pmi_value(line, "size", &value) && !to_number(value, &ranks_)) break;
  }
  if (rank_ >= 0 && rank_ < ranks_) return {};
  return fail(Code::kRemoteError, "it says \"{}\"", quoted(line));
}

Status PmiClient::start(const std::string& id, Deadline deadline) {
  std::string line;
  std::string_view value;
  if (!id.empty()) {
    TUTTI_TRY(ask("cmd=initack pmiid=" + id, "initack", deadline, &line));
    if (const Status place = take_place(deadline); !place.ok()) {
      broken_ = fail(place.code(), "{}'s PMI does not tell this process's rank: {}", name_, place.text());
      return broken_;
    }
  }
  TUTTI_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline, &line));
  if (pmi_value(line, "rc", &value) && value != "0") {
    broken_ = fail(Code::kUnsupported, "{}'s PMI does not speak version 1: \"{}\"", name_, quoted(line));
    return broken_;
  }
  TUTTI_TRY(ask("cmd=get_maxes", "maxes", deadline, &line));
  int longest = 0;
  if (!pmi_value(line, "vallen_max", &value) || !to_number(value, &longest) || longest < 1) {
    broken_ = fail(Code::kRemoteError, "{}'s PMI gives no limits: \"{}\"", name_, quoted(line));
    return broken_;
  }
  longest_value_ = static_cast<std::size_t>(longest);
  TUTTI_TRY(ask("cmd=get_my_kvsname", "my_kvsname", deadline, &line));
  if (!pmi_value(line, "kvsname", &value) || value.empty()) {
    broken_ = fail(Code::kRemoteError, "{}'s PMI has no key space: \"{}\"", name_, quoted(line));
    return broken_;
  }
  space_ = value;
  return {};
}

Status PmiClient::put(const std::string& key, const std::string& value, Deadline deadline) {
  if (value.size() >= longest_value_)
    return fail(Code::kUnsupported, "{}'s PMI takes values of {} bytes, a unique id needs {}", name_, longest_value_,
                value.size());
  std::string line;
  std::string_view result;
  TUTTI_TRY(ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result", deadline, &line));
  if (pmi_value(line, "rc", &result) && result == "0") return {};
  return fail(Code::kRemoteError, "{}'s PMI refuses to keep \"{}\": \"{}\"", name_, key, quoted(line));
}

Status PmiClient::get(const std::string& key, Deadline deadline, std::string* value) {
  std::string line;
  std::string_view result, found;
  TUTTI_TRY(ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline, &line));
  if (pmi_value(line, "rc", &result) && result == "0" && pmi_value(line, "value", &found)) {
    *value = found;
    return {};
  }
  return fail(Code::kRemoteError, "{}'s PMI has nothing under \"{}\": rank 0's join failed, or it joins another time",
              name_, key);
}

Status PmiClient::barrier(Deadline deadline) {
  std::string line;
  return ask("cmd=barrier_in", "barrier_out", deadline, &line);
}

Status PmiClient::finalize(Deadline deadline) {
  std::string line;
  return ask("cmd=finalize", "finalize_ack", deadline, &line);
}

namespace {

Status connect_to(const IpAddress& address, std::uint16_t port, Deadline deadline, Descriptor* socket) {
  const SocketAddress at = socket_address(address, port);
  Descriptor made(::socket(at.data.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return fail(Code::kSystemError, "{}", errno_text());
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) != 0 && errno != EINPROGRESS)
    return fail(Code::kSystemError, "{}", errno_text());
  TUTTI_TRY(await(made.get(), POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(Code::kSystemError, "{}", errno_text(error));
  *socket = std::move(made);
  return {};
}

}  // namespace

Status connect_pmi(const ProcessLaunch& launch, Deadline deadline, Descriptor* socket, bool* borrowed) {
  *borrowed = launch.pmi_port.empty();
  if (*borrowed) {
    struct stat state {};
    if (::fstat(launch.pmi_descriptor, &state) != 0 || !S_ISSOCK(state.st_mode))
      return fail(Code::kInvalidUsage,
                  "PMI_FD={} is not {}'s connection: it was closed or not handed to this process; join by another URL, "
                  "or, with MPI in this process, by tuttiCommInitMPI",
                  launch.pmi_descriptor, launch.info.launcher);
    *socket = Descriptor(launch.pmi_descriptor);
    return {};
  }
  std::vector<IpAddress> addresses;
  TUTTI_TRY(resolve(launch.host, &addresses));
  Status last = fail(Code::kSystemError, "the host has no address");
  for (const IpAddress& address : addresses) {
    last = connect_to(address, launch.port, deadline, socket);
    if (last.ok()) return {};
  }
  return fail(last.code(), "cannot connect to {}'s PMI_PORT={}: {}", launch.info.launcher, launch.pmi_port,
              last.text());
}

}  // namespace tutti
