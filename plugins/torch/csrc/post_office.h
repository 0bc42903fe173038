// Sends and receives between pairs of ranks, any number of them open at once.
//
// A communicator does one operation at a time, torch's isend and irecv are open in any number and order. So sends and
// receives have a communicator of their own of 2n ranks: of each process, rank r only receives and rank n + r only
// sends. One thread takes whatever arrives: into the buffer of the receive that fits, else into memory, until its
// receive comes. Since it always takes, a send waits for the link only, and no order of sends, receives and collectives
// can block itself. A message is a letter of fixed size with the data, if it is short, inside; longer data follows with
// another tag. A put goes the same way, into the memory of a window instead of a receive.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include <c10/core/Storage.h>

#include "abort_hooks.h"
#include "endpoint.h"
#include "lane.h"

namespace tutti_torch {

constexpr int kAnySource = -1;

/// The tag of a message. torch's tags have 32 bits, and windows use larger numbers.
using Tag = std::int64_t;

/// The messages of a window have its number as their tag, or that and one; both are as large as this or larger.
constexpr Tag kFirstWindow = Tag{1} << 32;

/// Memory that other ranks put into, and what keeps it.
struct OpenMemory {
  char* data = nullptr;
  std::size_t bytes = 0;
  c10::Storage storage;
};

class PostOffice : public Carrier, public std::enable_shared_from_this<PostOffice> {
 public:
  /// `receiver` is rank `rank` of 2 * `size`, `sender` rank `size + rank`.
  PostOffice(std::shared_ptr<Endpoint> receiver, std::shared_ptr<Endpoint> sender, int rank, int size,
             std::shared_ptr<AbortHooks> hooks);

  const Endpoint& sender() const { return *sender_; }
  /// From here on messages are taken. Later calls do nothing.
  void start();
  /// To be run in the order of the sends: the body of a work on a lane.
  void send(const void* data, std::size_t bytes, int peer, Tag tag, std::chrono::milliseconds timeout,
            const char* operation = "send");
  /// Completes `work` when the message is in `data`; the memory stays valid until then. Errors name the operation.
  void receive(const WorkPointer& work, void* data, std::size_t bytes, int peer_or_any, Tag tag,
               const char* operation = "recv");
  /// Like send(), into the peer's window of that number. What is sent to the peer later comes after it.
  void put(const void* data, std::size_t bytes, int peer, Tag window, std::size_t offset,
           std::chrono::milliseconds timeout);
  /// From here on others may put into this rank's window of that number. Raises an error if no messages are taken any
  /// more.
  void open_window(Tag window, OpenMemory memory);
  /// Ends the window of that number, which is even. Later puts into it are thrown away, and so are its messages. A
  /// receive that waits for one of these ends with an error.
  void close_window(Tag window);

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
    Tag tag;
    const char* operation;
  };
  struct Early {
    int source;
    Tag tag;
    std::vector<char> data;
  };

  void serve();
  void dismiss();
  void post(Letter& letter, const void* data, int peer, const char* operation, std::chrono::milliseconds timeout);
  void take(const Letter& letter, int source);
  void take_put(const Letter& letter, int source);
  bool is_for_closed_window(const Letter& letter);
  std::exception_ptr refusal(const char* operation) const;
  void hand_over(const Open& open, int source, std::size_t bytes, const void* data);
  void fetch(void* data, std::size_t bytes, int source);
  bool find_open(int source, Tag tag, Open* open);
  void fail(const std::exception_ptr& error);

  std::shared_ptr<Endpoint> receiver_;
  std::shared_ptr<Endpoint> sender_;
  const int rank_;
  const int size_;
  const std::shared_ptr<AbortHooks> hooks_;
  std::mutex mutex_;
  std::deque<Open> open_;
  std::deque<Early> early_;
  std::map<Tag, OpenMemory> windows_;
  std::exception_ptr error_;
  std::chrono::milliseconds patience_{0};  // of the last receive: data whose letter has come must come in this time
  int fetches_from_ = kAnySource;          // whose data is being taken now
  bool serving_ = false;
  bool closed_ = false;
  std::shared_ptr<void> farewell_;  // owed once closed: see owe_goodbye()
};

}  // namespace tutti_torch
