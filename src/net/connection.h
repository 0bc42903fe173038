// Connection: authenticated messages over a connected socket, each in a frame (frame_codec.h). A frame that is not the
// next one of the other end's ends the connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "net/codec.h"
#include "net/event_loop.h"
#include "net/frame_codec.h"
#include "net/handshake.h"
#include "net/peer_exit_watch.h"
#include "net/socket.h"
#include "net/tcp_stream.h"

namespace tutti {

class Connection;
struct TlsName;

/// All are called in the loop's thread. on_close is the last; it is not called after close().
struct ConnectionEvents {
  std::function<void(const std::shared_ptr<Connection>& connection)> on_open;
  std::function<Status(MessageType type, ByteView payload)> on_message;  ///< not ok: the connection closes
  std::function<void(const Status& why)> on_close;
};

/// Lives in the loop's thread, except for send(). It closes if the other end has not authenticated itself within 10 s;
/// a client must have sent its first message by then, too. A client's socket may be encrypted from the start. A
/// server's becomes so if the client begins with TLS.
class Connection final : public EventHandler, public std::enable_shared_from_this<Connection> {
 public:
  /// The largest control message has five sets of all ranks, as bits, and some texts: 91 KiB with 131,072 ranks.
  static constexpr std::size_t kDefaultLimit = 128 * 1024;

  /// Starts the handshake on a connected or connecting socket and watches it.
  static Status start(EventLoop& loop, Socket connected, Handshake handshake, ConnectionEvents events,
                      std::shared_ptr<Connection>* connection);
  Connection(EventLoop& loop, Socket connected, Handshake handshake, ConnectionEvents events);
  ~Connection() override;

  /// Replaces what start() was given. Loop thread, any time before on_close.
  void set_events(ConnectionEvents events) { events_ = std::move(events); }
  /// The largest payload that is accepted; kDefaultLimit until set.
  void set_limit(std::size_t bytes) { limit_ = bytes; }

  /// Any thread; does not block. On return the message is in the operating system's hands, unless the peer reads so
  /// slowly that the socket is full: then the loop sends it later. `passed` goes with it, and `owner` keeps it open
  /// until then. False: the connection is closed.
  bool send(MessageType type, ByteView payload, int passed = -1, std::shared_ptr<const void> owner = nullptr);
  /// Acknowledges at once what has come, because the other end waits for that. Loop thread only.
  void acknowledge() const { socket_.acknowledge(); }
  /// Any thread; does not block. Whether the other end's system has all that was sent, or the connection is closed.
  bool delivered();

  /// The oldest descriptor that came with the messages so far; invalid: none.
  Descriptor take_descriptor();
  /// Ends the messages: the socket is the caller's, nothing more is read here. `leftover` gets what was received after
  /// the message that is being handled. TCP only, from within on_message. Fails if something sent is not in the
  /// operating system's hands.
  Status hand_over(TcpStream* stream);
  /// TCP: how long the other end may be silent, see Socket.
  void set_timeout(double seconds, bool output = true) { socket_.set_timeout(seconds, output); }
  /// TCP: where the other end is, see Socket.
  bool peer(IpAddress* address, std::uint32_t* scope) const { return socket_.peer(address, scope); }
  /// TCP: whether the other end's system has taken the connection; once closed, whether it had to the end.
  bool taken() const;
  /// How much the other end of an accepted connection has said before it has proved anything. Loop thread only.
  enum class Said : std::uint8_t { kNothing, kSomething, kPurpose };
  Said said() const;
  /// Closes without on_close. What send() could not hand to the operating system is lost.
  void close();

  const Handshake& handshake() const { return handshake_; }
  bool is_unix() const { return is_unix_; }
  /// Whether others can read along. A unix socket does not leave the host.
  bool in_clear() const { return !is_unix_ && !socket_.encrypted(); }
  bool open() const { return handshake_.done(); }

  void on_events(std::uint32_t events) override;

 private:
  struct Outgoing {
    std::vector<std::byte> data{};
    std::size_t sent = 0;
    int passed = -1;
    std::shared_ptr<const void> owner{};
  };

  Status begin();
  void watch_exit();
  Status read_all(bool until_empty, bool* ended);
  Status receive(std::size_t* got, Descriptor* passed, SocketState* state);
  Status decide_on_tls(bool* ended);
  Status after_reading();
  Status take_input();
  Status take_handshake(std::size_t* used);
  Status take_frame(std::size_t* used);
  Status put_raw(std::vector<std::byte> data);
  Status flush_locked() TUTTI_REQUIRES(out_mutex_);
  bool waits_for_output() const TUTTI_REQUIRES(out_mutex_);
  void arm_output();
  void update_interest();
  void peer_exited();
  void fail_after_reading(const Status& why);
  void fail_with(const Status& why);
  Status connect_error() const;

  EventLoop& loop_;
  Handshake handshake_;
  ConnectionEvents events_;
  std::size_t limit_ = kDefaultLimit;
  std::vector<std::byte> input_;
  std::size_t taken_ = 0;       // of the input: has been handled
  std::size_t frame_size_ = 0;  // of the message that is being handled
  FrameCodec decoder_;
  std::deque<Descriptor> descriptors_;
  EventLoop::TimerId timer_ = 0;
  std::shared_ptr<PeerExitWatch> exit_watch_;
  bool closed_ = false;
  bool was_taken_ = false;  // when it was closed
  bool is_unix_ = false;
  std::shared_ptr<const TlsName> tls_name_;  // of an encrypted one that was accepted
  bool undecided_ = false;                   // accepted, and the other end has not shown yet whether it speaks TLS

  Mutex out_mutex_;  // senders are any threads
  /// Senders use it with the mutex held, once sendable_. The loop's thread changes it with the mutex held from then on,
  /// and reads it without: a guard cannot say that.
  Socket socket_;
  std::deque<Outgoing> out_ TUTTI_GUARDED_BY(out_mutex_);
  std::size_t out_bytes_ TUTTI_GUARDED_BY(out_mutex_) = 0;  // of those
  FrameCodec encoder_ TUTTI_GUARDED_BY(out_mutex_);
  bool sendable_ TUTTI_GUARDED_BY(out_mutex_) = false;
  Status broken_ TUTTI_GUARDED_BY(out_mutex_);  // why something could not be sent
};

}  // namespace tutti
