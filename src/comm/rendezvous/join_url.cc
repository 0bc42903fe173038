#include "comm/rendezvous/join_url.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/rendezvous/file_rendezvous.h"
#include "comm/rendezvous/launcher.h"
#include "comm/rendezvous/launcher_store.h"
#include "comm/rendezvous/tcp_rendezvous.h"
#include "comm/rendezvous/url.h"
#include "core/log.h"
#include "core/retry.h"
#include "net/crypto.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kLongestJoinPause{50};
/// The pause before an id is tried again for which nobody answered.
constexpr std::chrono::seconds kSilentPause{1};

/// Ends the service of a round's id when the scope ends, whatever the outcome.
class PublishedId {
 public:
  PublishedId(std::shared_ptr<Hub> hub, const RendezvousKeys& keys, std::uint64_t round)
      : hub_(std::move(hub)), keys_(keys), round_(round) {}
  ~PublishedId() {
    retry_without_memory([this] { close(); });
  }
  PublishedId(const PublishedId&) = delete;
  PublishedId& operator=(const PublishedId&) = delete;
  void close() {
    if (hub_) withdraw_id(hub_, keys_, round_);
    hub_.reset();
  }

 private:
  std::shared_ptr<Hub> hub_;
  const RendezvousKeys keys_;
  const std::uint64_t round_;
};

Status check_security(const Settings& settings, const std::string& url, Rank rank, bool open) {
  if (!open) return {};
  if (settings.tls)
    return fail(Code::kInvalidUsage, "TUTTI_TLS=on with {} needs TUTTI_SECRET_FILE: nothing else tells friend from foe",
                url);
  if (rank == Rank{0} && Hub::first_time("open door"))
    log(LogLevel::kWarn, {},
        "{} admits whoever comes first while the ranks join: use TUTTI_SECRET_FILE, file:// or a unique id where the "
        "network is not trusted",
        url);
  return {};
}

Status join_tcp(const std::string& url, const std::string& host, std::uint16_t port, const std::string& job,
                JoinRequest request, JoinResult* result) {
  RendezvousKeys keys;
  TUTTI_TRY(rendezvous_keys(request.settings, port, job, &keys));
  TUTTI_TRY(check_security(request.settings, url, request.rank, keys.open));
  std::shared_ptr<Hub> hub;
  TUTTI_TRY(Hub::acquire(request.settings, &hub));
  const std::uint64_t round = Hub::next_round(fmt::format("{}|{}", url, job), request.rank);
  if (request.rank != Rank{0}) {
    TUTTI_TRY(ask_for_id(hub, keys, host, port, round, request.rank, request.deadline, &request.id));
    return join(request, result);
  }
  TUTTI_TRY(make_unique_id(request.settings, &request.id));
  if (const Status opened = publish_id(hub, keys, url, port, round, request.id, request.deadline); !opened.ok()) {
    withdraw_unique_id(request.settings, request.id);
    return opened;
  }
  PublishedId published(hub, keys, round);
  return join(
      request,
      [&published] {
        published.close();
        return Status();
      },
      result);
}

/// A file, and whether it is in a directory of this user alone, which rank 0 makes.
struct RendezvousPlace {
  std::string path;
  bool is_private = false;
};

Status lead_by_file(const RendezvousPlace& place, std::uint64_t round, JoinRequest request, JoinResult* result) {
  const std::string& path = place.path;
  std::shared_ptr<Hub> hub;  // held, because the id must be served from before the file appears
  TUTTI_TRY(Hub::acquire(request.settings, &hub));
  TUTTI_TRY(make_unique_id(request.settings, &request.id));
  const RendezvousFile content{round, request.id};
  const Status written =
      place.is_private ? write_private_rendezvous_file(path, content) : write_rendezvous_file(path, content);
  if (!written.ok()) {
    withdraw_unique_id(request.settings, request.id);
    return written;
  }
  const auto remove = [&] {
    remove_rendezvous_file(path, content);
    return Status();
  };
  const Status status = join(request, remove, result);
  if (!status.ok()) remove_rendezvous_file(path, content);
  return status;
}

bool still_holds(const std::string& path, const RendezvousFile& content) {
  RendezvousFile now;
  bool found = false;
  std::string why;
  read_rendezvous_file(path, &now, &found, &why);
  return found && now == content;
}

/// A file may be left from a dead job, or be about to be replaced, so an id counts only if it is served. If it is
/// refused, it is not tried again until the file changes. If nobody answers, because its host is down or out of reach,
/// it is tried for as long as the file holds it.
Status follow_by_file(const RendezvousPlace& place, std::uint64_t round, JoinRequest request, JoinResult* result) {
  const std::string& path = place.path;
  RendezvousFile tried;
  Clock::time_point again{};  // when the same id may be tried once more
  std::string why;
  for (std::chrono::nanoseconds pause = std::chrono::milliseconds(1);;
       pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestJoinPause)) {
    RendezvousFile content;
    bool found = false;
    if (place.is_private) TUTTI_TRY(check_private_directory(path));
    read_rendezvous_file(path, &content, &found, &why);
    if (found && content.round != round) {
      why = fmt::format("rank 0 joins there for time {}, this rank for time {}", content.round, round);
    } else if (found && (content != tried || Clock::now() >= again)) {
      JoinAttempt attempt{[&] { return !still_holds(path, content); }};
      request.id = content.id;
      const Status status = join(request, &attempt, result);
      if (attempt.service == IdService::kServed) return status;
      const bool refused = attempt.service == IdService::kRefused;
      tried = content;
      again = refused ? Clock::time_point::max() : Clock::now() + kSilentPause;
      why = refused ? "it is left from a job that has ended" : status.text();
    }
    if (request.deadline.passed())
      return fail(Code::kTimeout, "rank 0 did not write {} before the join's deadline ({})", path, why);
    std::this_thread::sleep_for(request.deadline.left(pause));
  }
}

Status join_file(const RendezvousPlace& place, const JoinRequest& request, JoinResult* result) {
  const std::uint64_t round = Hub::next_round("file://" + place.path, request.rank);
  return request.rank == Rank{0} ? lead_by_file(place, round, request, result)
                                 : follow_by_file(place, round, request, result);
}

/// Joins through the launcher's key-value store, under a key of this round.
Status join_by_store(const ProcessLaunch& launch, JoinRequest request, JoinResult* result) {
  std::unique_ptr<LauncherStore> store;
  TUTTI_TRY(open_store(launch, request.deadline, &store));
  const std::uint64_t round = Hub::next_round("env://" + launch.info.launcher, request.rank);
  const std::string key = fmt::format("tutti-{}", round);
  std::shared_ptr<Hub> hub;  // held, because the id must be served from before it is published
  TUTTI_TRY(Hub::acquire(request.settings, &hub));
  if (request.rank == Rank{0}) {
    TUTTI_TRY(make_unique_id(request.settings, &request.id));
    const Status published = store->publish(key, to_hex(request.id), request.deadline);
    if (!published.ok()) {
      withdraw_unique_id(request.settings, request.id);
      return published;
    }
    return join(request, result);
  }
  std::string text;
  TUTTI_TRY(store->fetch(key, request.deadline, &text));
  if (!from_hex(text, request.id))
    return fail(Code::kRemoteError, "{}'s key-value store holds no unique id under \"{}\"", launch.info.launcher, key);
  return join(request, result);
}

Status join_private_file(ProcessLaunch launch, const JoinRequest& request, JoinResult* result) {
  std::string path;
  TUTTI_TRY(private_rendezvous_path(launch.directory, launch.job, &path));
  const Status usable = check_private_directory(path);
  if (!usable.ok() && launch.otherwise != RendezvousMethod::kNone) {
    launch.method = launch.otherwise;
    return join_by_store(launch, request, result);
  }
  TUTTI_TRY(usable);
  const Status status = join_file({path, true}, request, result);
  if (request.rank == Rank{0}) remove_private_directory(path);
  return status;
}

Status join_env(JoinRequest request, JoinResult* result) {
  ProcessLaunch launch;
  TUTTI_TRY(read_launch(request.settings, &launch));
  TUTTI_TRY(ask_launcher(&launch));
  if (request.ranks == -1) request.ranks = launch.info.ranks;
  if (request.rank == Rank{-1}) request.rank = launch.info.rank;
  if (launch.info.ranks != request.ranks || launch.info.rank != request.rank)
    return fail(Code::kInvalidArgument, "env://: {} says rank {} of {}, not rank {} of {}",
                launch.info.launcher == "none" ? "the lack of a launcher" : launch.info.launcher,
                launch.info.rank.value, launch.info.ranks, request.rank.value, request.ranks);
  switch (launch.method) {
    case RendezvousMethod::kAlone:
      TUTTI_TRY(make_unique_id(request.settings, &request.id));
      return join(request, result);
    case RendezvousMethod::kTcp:
      return join_tcp("env:// of " + launch.info.launcher, launch.host, launch.port, launch.job, std::move(request),
                      result);
    case RendezvousMethod::kPrivateFile:
      return join_private_file(launch, request, result);
    case RendezvousMethod::kPmix:
    case RendezvousMethod::kPmi:
      return join_by_store(launch, std::move(request), result);
    case RendezvousMethod::kNone:
      break;
  }
  return fail(Code::kUnsupported, "env://: {}", launch.reason);
}

}  // namespace

Status join_url(const std::string& text, JoinRequest request, JoinResult* result) {
  RendezvousUrl url;
  TUTTI_TRY(parse_url(text, &url));
  if (url.scheme == UrlScheme::kEnv) return join_env(std::move(request), result);
  TUTTI_TRY(check_ranks(request));
  if (url.scheme == UrlScheme::kFile) return join_file({url.path, false}, request, result);
  return join_tcp(text, url.host, url.port, "", std::move(request), result);
}

}  // namespace tutti
