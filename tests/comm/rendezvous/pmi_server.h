// A process manager that speaks PMI-1, for tests: one socket a rank, served until all ranks said goodbye or hung up.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <map>
#include <string>
#include <vector>

#include "comm/rendezvous/pmi1.h"
#include "support/patience.h"

namespace tutti::test {

class PmiServer {
 public:
  explicit PmiServer(int ranks) : rank_ends_(static_cast<std::size_t>(ranks)), clients_(rank_ends_.size()) {
    for (std::size_t rank = 0; rank < clients_.size(); ++rank) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
      clients_[rank].socket = Descriptor(ends[0]);
      rank_ends_[rank] = Descriptor(ends[1]);
    }
  }
  /// What a rank's PMI_FD is; the rank's process uses only its own.
  int descriptor(int rank) const { return rank_ends_[static_cast<std::size_t>(rank)].get(); }

  /// Serves until nobody is left. Closes this process's copies of the ranks' ends first.
  void serve() {
    rank_ends_.clear();
    while (serve_once()) {
    }
  }
  int goodbyes() const { return goodbyes_; }
  int barriers() const { return barriers_; }

 private:
  struct Client {
    Descriptor socket;
    std::string received;
    bool in_barrier = false;
  };

  bool serve_once() {
    std::vector<pollfd> entries;
    for (const Client& client : clients_)
      if (client.socket.valid()) entries.push_back({client.socket.get(), POLLIN, 0});
    const auto wait = [&] { return ::poll(entries.data(), entries.size(), 100'000); };
    if (entries.empty() || restarted(wait) <= 0) return false;
    for (const pollfd& entry : entries)
      if (entry.revents != 0) read_from(entry.fd);
    return true;
  }
  void read_from(int socket) {
    for (Client& client : clients_) {
      if (client.socket.get() != socket) continue;
      char buffer[1024];
      const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
      if (got <= 0) return client.socket.reset();
      client.received.append(buffer, static_cast<std::size_t>(got));
      for (std::size_t end; (end = client.received.find('\n')) != std::string::npos; client.received.erase(0, end + 1))
        answer(client, client.received.substr(0, end));
    }
  }
  static void say(const Client& client, const std::string& line) {
    (void)::send(client.socket.get(), (line + "\n").data(), line.size() + 1, MSG_NOSIGNAL);
  }
  void answer(Client& client, const std::string& line) {
    std::string_view command, key, value;
    pmi_value(line, "cmd", &command);
    pmi_value(line, "key", &key);
    pmi_value(line, "value", &value);
    const auto found = keys_.find(std::string(key));
    if (command == "init") {
      say(client, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    } else if (command == "get_maxes") {
      say(client, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
    } else if (command == "get_my_kvsname") {
      say(client, "cmd=my_kvsname kvsname=kvs_1_0");
    } else if (command == "put") {
      const bool added = keys_.emplace(key, value).second;
      say(client, added ? "cmd=put_result rc=0 msg=success" : "cmd=put_result rc=-1 msg=duplicate_key");
    } else if (command == "get") {
      say(client, found == keys_.end() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                                       : "cmd=get_result rc=0 msg=success value=" + found->second);
    } else if (command == "barrier_in") {
      client.in_barrier = true;
      let_out();
    } else if (command == "finalize") {
      ++goodbyes_;
      say(client, "cmd=finalize_ack");
    }
  }
  void let_out() {
    for (const Client& client : clients_)
      if (!client.in_barrier) return;
    ++barriers_;
    for (Client& client : clients_) {
      client.in_barrier = false;
      say(client, "cmd=barrier_out");
    }
  }

  std::vector<Descriptor> rank_ends_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> keys_;
  int goodbyes_ = 0;
  int barriers_ = 0;
};

}  // namespace tutti::test
