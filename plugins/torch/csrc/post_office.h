// Sends and receives between pairs of ranks, any number of them open at once.
//
// A communicator does one operation at a time, torch's isend and irecv are open in any number and order. So sends and
// receives have a communicator of their own of 2n ranks: of each process, rank r only receives and rank n + r only
// sends. One thread takes whatever arrives: into the buffer of the receive that fits, else into memory, until its
// receive comes. Since it always takes, a send waits for the link only, and no order of sends, receives and collectives
// can block itself. A message is a letter of fixed size with the data, if it is short, inside; longer data follows with
// another tag.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "abort_hooks.h"
#include "endpoint.h"
#include "lane.h"

namespace tutti_torch {

constexpr int kAnySource = -1;

class PostOffice : public Carrier, public std::enable_shared_from_this<PostOffice> {
 public:
  /// `receiver` is rank `rank` of 2 * `size`, `sender` rank `size + rank`.
  PostOffice(std::shared_ptr<Endpoint> receiver, std::shared_ptr<Endpoint> sender, int rank, int size,
             std::shared_ptr<AbortHooks> hooks);

  const Endpoint& sender() const { return *sender_; }
  /// From here on messages are taken. Later calls do nothing.
  void start();
  /// To be run in the order of the sends: the body of a work on a lane.
  void send(const void* data, std::size_t bytes, int peer, int tag, std::chrono::milliseconds timeout);
  /// Completes `work` when the message is in `data`; the memory stays valid until then.
  void receive(const WorkPointer& work, void* data, std::size_t bytes, int peer_or_any, int tag);

  void help(TuttiWork& work) override;
  void give_up(TuttiWork& work) override;
  /// Ends all open receives with `reason`, refuses further ones. Does not wait: a thread leaves what `sends` has under
  /// way so much time, then ends the taking of messages and says goodbye.
  void close(const std::string& reason, const std::shared_ptr<Lane>& sends, std::chrono::milliseconds patience);
  void abort();

 private:
  struct Letter;
  struct Open {
    WorkPointer work;
    void* data;
    std::size_t bytes;
    int peer;
    int tag;
  };
  struct Early {
    int source;
    int tag;
    std::vector<char> data;
  };

  void serve();
  void dismiss();
  void take(const Letter& letter, int source);
  void hand_over(const Open& open, int source, std::size_t bytes, const void* data);
  void fetch(void* data, std::size_t bytes, int source);
  bool find_open(int source, int tag, Open* open);
  void fail(const std::exception_ptr& error);

  std::shared_ptr<Endpoint> receiver_;
  std::shared_ptr<Endpoint> sender_;
  const int rank_;
  const int size_;
  const std::shared_ptr<AbortHooks> hooks_;
  std::mutex mutex_;
  std::deque<Open> open_;
  std::deque<Early> early_;
  std::exception_ptr error_;
  bool serving_ = false;
  bool closed_ = false;
  std::shared_ptr<void> farewell_;  // owed once closed: see owe_goodbye()
};

}  // namespace tutti_torch
