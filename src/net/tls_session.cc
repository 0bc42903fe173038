#include "net/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti {
namespace {

constexpr unsigned char kCipher[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::size_t kMaxIdentity = 128;
/// What the other end may send before it has proved anything: a hello has less than 300 bytes.
constexpr std::size_t kMaxHandshake = 4096;
/// Encrypted, then handed to the operating system, in one go: four records. Also what one look at the socket may bring.
constexpr std::size_t kBatch = std::size_t{64} * 1024;

using SslPointer = std::unique_ptr<SSL, void (*)(SSL*)>;

/// The oldest error of this thread; the queue is emptied.
std::string ssl_error_text() {
  const unsigned long error = ERR_get_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return reason == nullptr ? "an unknown error" : reason;
}

Status make_session(const TlsKey& key, SSL* ssl, SSL_SESSION** session) {
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipher);
  SSL_SESSION* const made = SSL_SESSION_new();
  if (cipher != nullptr && made != nullptr &&
      SSL_SESSION_set1_master_key(made, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(made, cipher) == 1 && SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1) {
    *session = made;
    return {};
  }
  SSL_SESSION_free(made);
  return fail(Code::kSystemError, "the system's libssl offers no TLS 1.3 with pre-shared keys: {}", ssl_error_text());
}

/// One end over OpenSSL, which reads the socket and writes into a buffer of ours: so what it wrote is never half taken
/// over, and several records leave in one system call.
class OpenSslSession final : public TlsSession {
 public:
  OpenSslSession(int descriptor, bool is_client, std::uint64_t sends_per_key)
      : descriptor_(descriptor), is_client_(is_client), sends_per_key_(sends_per_key), ssl_(nullptr, SSL_free) {}

  Status open();
  void set_client_key(const std::string& identity, const TlsKey& key) { identity_ = identity, key_ = key; }
  void set_lookup(TlsLookup lookup) { lookup_ = std::move(lookup); }
  ~OpenSslSession() override { OPENSSL_cleanse(key_.data(), key_.size()); }

  Status handshake(SocketState* state) override;
  bool established() const override { return established_; }
  Status send(std::span<const std::byte> data, std::size_t* sent, SocketState* state) override;
  Status receive(std::span<std::byte> buffer, std::size_t* got, SocketState* state) override;
  Status flush(SocketState* state) override;
  bool wants_output() const override { return out_sent_ < out_.size(); }

  // For OpenSSL.
  int read_socket(BIO* bio, char* buffer, int size);
  int write_buffer(const char* data, int size);
  bool at_end() const { return ended_; }
  int client_session(SSL_SESSION** session, const unsigned char** identity, std::size_t* size);
  int server_session(std::string_view identity, SSL_SESSION** session);

 private:
  Status encrypt(std::span<const std::byte> data);
  Status outcome(int result, SocketState* state);
  Status finish_handshake();

  const int descriptor_;
  const bool is_client_;
  const std::uint64_t sends_per_key_;
  SslPointer ssl_;
  std::string identity_;
  TlsKey key_{};
  TlsLookup lookup_;
  bool established_ = false;
  bool unknown_ = false;   // the client named a key that is not served
  bool ended_ = false;     // the socket gave an end of file
  bool finished_ = false;  // nothing more comes: an end in order, or failure_
  Status failure_;
  int error_ = 0;  // errno of the socket's failure
  std::size_t handshake_bytes_ = 0;
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  std::uint64_t sends_ = 0;
};

OpenSslSession* session_of(const SSL* ssl) { return static_cast<OpenSslSession*>(SSL_get_app_data(ssl)); }
OpenSslSession* session_of(BIO* bio) { return static_cast<OpenSslSession*>(BIO_get_data(bio)); }

long control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return session_of(bio)->at_end() ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* make_method() {
  BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_read(method,
                    [](BIO* bio, char* buffer, int size) { return session_of(bio)->read_socket(bio, buffer, size); });
  BIO_meth_set_write(method,
                     [](BIO* bio, const char* data, int size) { return session_of(bio)->write_buffer(data, size); });
  BIO_meth_set_ctrl(method, control);
  return method;
}

int use_client_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
                       SSL_SESSION** session) {
  return session_of(ssl)->client_session(session, identity, size);
}

int find_server_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  return session_of(ssl)->server_session({reinterpret_cast<const char*>(identity), size}, session);
}

SSL_CTX* make_context() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_psk_use_session_callback(context, use_client_session);
  SSL_CTX_set_psk_find_session_callback(context, find_server_session);
  const bool good = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set1_groups_list(context, "X25519") == 1 && SSL_CTX_set_num_tickets(context, 0) == 1;
  if (good) return context;
  SSL_CTX_free(context);
  return nullptr;
}

// Constants, in effect: made on first need (130 us) and the same for all sessions. Never freed: sessions may be left
// when the process ends.
SSL_CTX* context() {
  static SSL_CTX* const instance = make_context();
  return instance;
}
const BIO_METHOD* method() {
  static const BIO_METHOD* const instance = make_method();
  return instance;
}

Status OpenSslSession::open() {
  ERR_clear_error();
  if (context() != nullptr && method() != nullptr) ssl_.reset(SSL_new(context()));
  BIO* const bio = ssl_ ? BIO_new(method()) : nullptr;
  if (bio == nullptr) return fail(Code::kSystemError, "libssl cannot make a TLS session: {}", ssl_error_text());
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_mode(ssl_.get(),
               SSL_MODE_RELEASE_BUFFERS);  // little is kept before the handshake is done; finish_handshake() ends it
  // There is no certificate to verify: a server that knows no key must fail, and this makes a client demand one.
  if (is_client_) SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
  is_client_ ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  return {};
}

int OpenSslSession::read_socket(BIO* bio, char* buffer, int size) {
  BIO_clear_retry_flags(bio);
  if (ended_ || size <= 0) return 0;
  if (!established_ && handshake_bytes_ >= kMaxHandshake) {
    error_ = EMSGSIZE;
    return -1;
  }
  const ssize_t got = ::recv(descriptor_, buffer, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got > 0) {
    if (!established_) handshake_bytes_ += static_cast<std::size_t>(got);
    return static_cast<int>(got);
  }
  if (got == 0) {
    ended_ = true;
    return 0;
  }
  if (errno == EAGAIN || errno == EINTR) {
    BIO_set_retry_read(bio);
  } else {
    error_ = errno;
  }
  return -1;
}

int OpenSslSession::write_buffer(const char* data, int size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  out_.insert(out_.end(), bytes, bytes + size);
  return size;
}

int OpenSslSession::client_session(SSL_SESSION** session, const unsigned char** identity, std::size_t* size) {
  if (!make_session(key_, ssl_.get(), session).ok()) return 0;
  *identity = reinterpret_cast<const unsigned char*>(identity_.data());
  *size = identity_.size();
  return 1;
}

int OpenSslSession::server_session(std::string_view identity, SSL_SESSION** session) {
  TlsKey key{};
  unknown_ = identity.size() > kMaxIdentity || !lookup_(identity, &key);
  if (unknown_) return 0;
  const Status made = make_session(key, ssl_.get(), session);
  OPENSSL_cleanse(key.data(), key.size());
  return made.ok() ? 1 : 0;
}

Status OpenSslSession::flush(SocketState* state) {
  while (wants_output()) {
    const ssize_t sent =
        ::send(descriptor_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out_sent_ += static_cast<std::size_t>(sent);
      continue;
    }
    if (errno == EAGAIN || errno == EINTR) {
      *state = SocketState::kAgain;
      return {};
    }
    if (errno == EPIPE || errno == ECONNRESET) {
      *state = SocketState::kClosed;
      return {};
    }
    return fail(Code::kSystemError, "cannot send to a peer: {}", errno_text());
  }
  out_.clear();
  out_sent_ = 0;
  *state = SocketState::kDone;
  return {};
}

/// What a call into OpenSSL that gave `result`, not success, means. An end is for good.
Status OpenSslSession::outcome(int result, SocketState* state) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    *state = SocketState::kAgain;
    return {};
  }
  const std::string text = ssl_error_text();
  SocketState ignored = SocketState::kDone;
  (void)flush(&ignored);  // an alert, so that the other end knows why
  finished_ = true;
  if (error_ == EMSGSIZE) {
    failure_ = fail(Code::kRemoteError, "TLS: more bytes than a handshake needs");
  } else if (unknown_) {
    failure_ = fail(Code::kRemoteError, "TLS: asked for something that is not served here");
  } else if (error != SSL_ERROR_ZERO_RETURN && !ended_ && error_ != EPIPE && error_ != ECONNRESET) {
    failure_ = error_ != 0 ? fail(Code::kSystemError, "cannot receive from a peer: {}", errno_text(error_))
                           : fail(Code::kRemoteError, "TLS: {}", text);
  }
  *state = SocketState::kClosed;
  return failure_;
}

Status OpenSslSession::handshake(SocketState* state) {
  if (finished_) {
    *state = SocketState::kClosed;
    return failure_;
  }
  TUTTI_TRY(flush(state));
  if (established_ || *state != SocketState::kDone) return {};
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) TUTTI_TRY(outcome(result, state));
  if (result == 1) TUTTI_TRY(finish_handshake());
  SocketState flushed = SocketState::kDone;  // what it does not take leaves with the next call
  TUTTI_TRY(flush(&flushed));
  if (flushed == SocketState::kClosed) *state = SocketState::kClosed;
  return {};
}

Status OpenSslSession::finish_handshake() {
  OPENSSL_cleanse(key_.data(), key_.size());
  lookup_ = nullptr;
  if (SSL_session_reused(ssl_.get()) != 1) return fail(Code::kRemoteError, "TLS: the other end did not prove anything");
  established_ = true;
  SSL_clear_mode(ssl_.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_set_default_read_buffer_len(ssl_.get(), kBatch);
  SSL_set_read_ahead(ssl_.get(), 1);
  SSL_free_buffers(ssl_.get());  // they are made again, of the new size
  return {};
}

Status OpenSslSession::encrypt(std::span<const std::byte> data) {
  ERR_clear_error();
  if (++sends_ % sends_per_key_ == 0 && SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
    return fail(Code::kInternalError, "TLS: cannot renew the keys: {}", ssl_error_text());
  std::size_t written = 0;
  if (SSL_write_ex(ssl_.get(), data.data(), data.size(), &written) == 1 && written == data.size()) return {};
  return fail(Code::kRemoteError, "TLS: {}", ssl_error_text());
}

Status OpenSslSession::send(std::span<const std::byte> data, std::size_t* sent, SocketState* state) {
  *sent = 0;
  TUTTI_TRY(handshake(state));
  if (!established_ || *state == SocketState::kClosed) return {};
  while (*sent < data.size() && !wants_output()) {
    const auto batch = data.subspan(*sent, std::min(data.size() - *sent, kBatch));
    TUTTI_TRY(encrypt(batch));
    *sent += batch.size();
    TUTTI_TRY(flush(state));
  }
  if (*state != SocketState::kClosed) *state = *sent > 0 || data.empty() ? SocketState::kDone : SocketState::kAgain;
  return {};
}

Status OpenSslSession::receive(std::span<std::byte> buffer, std::size_t* got, SocketState* state) {
  *got = 0;
  if (!established_) {
    TUTTI_TRY(handshake(state));
    if (!established_ || *state == SocketState::kClosed) return {};
  }
  SocketState ignored = SocketState::kDone;
  if (wants_output()) (void)flush(&ignored);  // whoever does not read any more may have sent something before
  *state = SocketState::kDone;
  while (*got < buffer.size() && *state == SocketState::kDone) {
    std::size_t size = 0;
    Status status;
    ERR_clear_error();
    const int result = finished_ ? 0 : SSL_read_ex(ssl_.get(), buffer.data() + *got, buffer.size() - *got, &size);
    if (finished_) {
      *state = SocketState::kClosed, status = failure_;
    } else if (result != 1) {
      status = outcome(result, state);
    }
    if (!status.ok() && *got == 0) return status;
    *got += size;
  }
  if (*got > 0) *state = SocketState::kDone;  // an end is reported next time
  return {};
}

}  // namespace

Status TlsSession::client(int descriptor, const std::string& identity, const TlsKey& key,
                          std::unique_ptr<TlsSession>* session, std::uint64_t sends_per_key) {
  if (identity.empty() || identity.size() > kMaxIdentity)
    return fail(Code::kInternalError, "a TLS identity of {} characters", identity.size());
  auto made = std::make_unique<OpenSslSession>(descriptor, true, sends_per_key);
  made->set_client_key(identity, key);
  TUTTI_TRY(made->open());
  *session = std::move(made);
  return {};
}

Status TlsSession::server(int descriptor, TlsLookup lookup, std::unique_ptr<TlsSession>* session,
                          std::uint64_t sends_per_key) {
  auto made = std::make_unique<OpenSslSession>(descriptor, false, sends_per_key);
  made->set_lookup(std::move(lookup));
  TUTTI_TRY(made->open());
  *session = std::move(made);
  return {};
}

}  // namespace tutti
