#include "comm/rendezvous/tcp_rendezvous.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/join/secret_file.h"
#include "comm/rendezvous/url_service.h"
#include "core/log.h"
#include "core/mutex.h"
#include "net/dialer.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::chrono::seconds kLookUpPause{1};
/// A port may be in use for a short time only, if it is the local end of a connection. A program that listens there
/// uses it for longer.
constexpr std::chrono::seconds kBusyTimeout{10};

/// One question, from the joining thread to the loop and back.
struct Question {
  Mutex mutex;
  ConditionVariable answered;
  bool done TUTTI_GUARDED_BY(mutex) = false;
  Status why TUTTI_GUARDED_BY(mutex);            // an error if there was no answer
  GiveIdMessage answer TUTTI_GUARDED_BY(mutex);  // the answer, with its id unmasked

  void finish(const Status& status, const GiveIdMessage& its_answer = {}) {
    const MutexLock lock(mutex);
    why = status;
    answer = its_answer;
    done = true;
    answered.notify_all();
  }
};

/// An exception in the loop's thread ends the question, because nothing else would.
template <class Step>
void run_or_finish(const std::shared_ptr<Question>& question, const Step& step) {
  try {
    step();
  } catch (...) {
    question->finish(what_was_thrown("the question for an id"));
  }
}

Status take_answer(Connection& connection, const KeyAgreement& own, MessageType type, ByteView payload,
                   GiveIdMessage* answer) {
  if (type != MessageType::kGiveId) return fail(Code::kRemoteError, "an answer to another question");
  TUTTI_TRY(decode(payload, answer));
  if (!answer->given) return {};
  return mask_id(connection.handshake().receive_key(), own, answer->public_key, &answer->id);
}

void put_question(const std::shared_ptr<Question>& question, const std::shared_ptr<Connection>& connection,
                  AskIdMessage ask) {
  KeyAgreement own;
  if (const Status made = KeyAgreement::make(&own); !made.ok()) {
    connection->close();
    return question->finish(made);
  }
  ask.public_key = own.public_key();
  Connection* const raw = connection.get();
  ConnectionEvents events;
  events.on_message = [question, raw, own](MessageType type, ByteView payload) {
    GiveIdMessage answer;
    const Status taken = take_answer(*raw, own, type, payload, &answer);
    question->finish(taken, answer);
    raw->close();
    return Status();
  };
  events.on_close = [question](const Status& why) { question->finish(why); };
  connection->set_events(std::move(events));
  connection->send(MessageType::kAskId, encode(ask));
}

/// The addresses of the URL's host. Its name may not be known yet, or get another address while its container starts,
/// so it is looked up again, but not more often than each second.
class NamedHost {
 public:
  NamedHost(const std::string& host, std::uint16_t port, bool tls) : host_(host), port_(port), tls_(tls) {}
  /// A good answer counts until there is a newer one.
  Status find(std::vector<DialTarget>* targets) {
    if (asked_ == Clock::time_point() || Clock::now() - asked_ >= kLookUpPause) look_up();
    *targets = tcp_targets(addresses_, port_, tls_);
    return targets->empty() ? why_ : Status();
  }

 private:
  void look_up() {
    std::vector<IpAddress> found;
    why_ = resolve(host_, &found);
    asked_ = Clock::now();
    if (why_.ok()) addresses_ = std::move(found);
    if (!why_.ok() && addresses_.empty() && !std::exchange(told_, true))
      log(LogLevel::kWarn, {}, "{}: trying again until the join's deadline", why_.text());
  }
  const std::string host_;
  const std::uint16_t port_;
  const bool tls_;
  std::vector<IpAddress> addresses_;
  Clock::time_point asked_{};
  Status why_;
  bool told_ = false;
};

/// Asks once. The dialer lives as long as the question.
Status ask_once(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::vector<DialTarget>& targets,
                const AskIdMessage& ask, Deadline deadline, GiveIdMessage* answer) {
  const auto question = std::make_shared<Question>();
  std::shared_ptr<Dialer> dialer;
  const auto done = [question, ask](const Status& why, const std::shared_ptr<Connection>& connection) {
    run_or_finish(question, [&] { connection ? put_question(question, connection, ask) : question->finish(why); });
  };
  dialer = std::make_shared<Dialer>(hub->loop(), targets, Role::kAskId, keys.id, keys.secret, done);
  hub->loop().post([dialer, question] { run_or_finish(question, [&] { dialer->start(); }); });
  MutexLock lock(question->mutex);
  const Clock::time_point end = Clock::now() + deadline.left(std::chrono::hours(1));
  while (!question->done && question->answered.wait_until(lock, end)) continue;
  const Status why = question->done ? question->why : fail(Code::kTimeout, "no answer");
  if (why.ok()) *answer = question->answer;
  lock.unlock();
  hub->loop().post([dialer] { dialer->cancel(); });
  return why;
}

}  // namespace

Status rendezvous_keys(const Settings& settings, std::uint16_t port, const std::string& job, RendezvousKeys* keys) {
  keys->open = settings.secret_file.empty();
  keys->tls = settings.tls;
  if (keys->open) {
    TUTTI_TRY(hmac_sha256(bytes_of("tutti open door"), {}, &keys->secret));
  } else {
    TUTTI_TRY(secret_file_key(settings.secret_file, &keys->secret));
  }
  Key hash;
  TUTTI_TRY(hmac_sha256(bytes_of("tutti door"), {bytes_of(fmt::format("{}/{}", port, job))}, &hash));
  std::copy_n(hash.begin(), keys->id.size(), keys->id.begin());
  return {};
}

Status publish_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& url,
                  std::uint16_t port, std::uint64_t round, const IdBytes& id, Deadline deadline) {
  const Clock::time_point begin = Clock::now();
  for (bool told = false;; told = true) {
    const Status status = hub->ask([keys, port, round, id](const std::shared_ptr<Hub>& there) {
      return there->service<UrlService>().publish(keys.id, keys.secret, port, round, id);
    });
    if (status.ok() || !is_in_use(status)) return status;
    const std::chrono::duration<double> tried = Clock::now() - begin;
    if (deadline.passed() || tried >= kBusyTimeout)
      return fail(status.code(), "rank 0 of {} {} (tried for {:.1f} s)", url, status.text(), tried.count());
    if (!told)
      log(LogLevel::kWarn, {}, "rank 0 of {} {}: trying again for {} s", url, status.text(), kBusyTimeout.count());
    std::this_thread::sleep_for(deadline.left(kLongestPause));
  }
}

void withdraw_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, std::uint64_t round) {
  (void)hub->ask([id = keys.id, round](const std::shared_ptr<Hub>& there) {
    there->service<UrlService>().withdraw(id, round);
    return Status();
  });  // if the service thread is held up, the id is given until the process ends
}

Status ask_for_id(const std::shared_ptr<Hub>& hub, const RendezvousKeys& keys, const std::string& host,
                  std::uint16_t port, std::uint64_t round, Rank rank, Deadline deadline, IdBytes* id) {
  NamedHost there(host, port, keys.tls);
  std::vector<DialTarget> targets;
  std::string last;
  for (std::chrono::nanoseconds pause = std::chrono::milliseconds(1);;
       pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestPause)) {
    GiveIdMessage answer;
    Status asked = there.find(&targets);
    if (asked.ok()) asked = ask_once(hub, keys, targets, AskIdMessage{round, rank}, deadline, &answer);
    if (asked.ok() && answer.given) {
      *id = answer.id;
      return {};
    }
    if (asked.ok())
      last = fmt::format("rank 0 joins there for time {}, this rank for time {}", answer.round, round);
    else if (asked.code() != Code::kTimeout || last.empty())
      last = asked.text();  // the error of a question that the deadline cut short says less than the one before
    if (deadline.passed())
      return fail(Code::kTimeout, "rank 0 did not give the unique id at {}:{} before the join's deadline ({})", host,
                  port, last);
    std::this_thread::sleep_for(deadline.left(pause));
  }
}

}  // namespace tutti
