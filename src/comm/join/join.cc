#include "comm/join/join.h"

#include <chrono>
#include <utility>

#include "comm/join/join_task.h"
#include "comm/join/root.h"
#include "comm/join/secret_file.h"
#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"

namespace tutti {

Status make_unique_id(const Settings& settings, IdBytes* id, const SecretOf& secret_of) {
  std::shared_ptr<Hub> hub;
  TUTTI_TRY(Hub::acquire(settings, &hub));
  UniqueId made;
  TUTTI_TRY(random_bytes(made.nonce));
  TUTTI_TRY(secret_of ? secret_of(made.nonce, &made.secret) : random_bytes(made.secret));
  hub->locate(&made);
  const IdBytes carried = made.encode();
  TUTTI_TRY(mix_secret_file(settings.secret_file, &made));
  TUTTI_TRY(
      hub->ask([made](const std::shared_ptr<Hub>& there) { return there->service<RootService>().add(made, there); }));
  *id = carried;
  return {};
}

void withdraw_unique_id(const Settings& settings, const IdBytes& id) {
  std::shared_ptr<Hub> hub;
  UniqueId known;
  if (!UniqueId::decode(id, &known).ok() || !Hub::acquire(settings, &hub).ok()) return;
  (void)hub->ask([nonce = known.nonce](const std::shared_ptr<Hub>& there) {
    there->service<RootService>().withdraw(nonce);
    return Status();
  });  // if the service thread is held up, the id is served until the process ends
}

Status check_ranks(const JoinRequest& request) {
  if (request.ranks < 1 || request.ranks > kMaxRanks)
    return fail(Code::kInvalidArgument, "{} ranks: it must be 1 to {}", request.ranks, kMaxRanks);
  if (request.rank.value < 0 || request.rank.value >= request.ranks)
    return fail(Code::kInvalidArgument, "rank {} of {} ranks: it must be 0 to {}", request.rank.value, request.ranks,
                request.ranks - 1);
  return {};
}

namespace {

Status read_id(const JoinRequest& request, UniqueId* id) {
  TUTTI_TRY(UniqueId::decode(request.id, id));
  if (request.has_whole_secret) return {};
  return mix_secret_file(request.settings.secret_file, id);
}

Status join_by(const JoinRequest& request, const UniqueId& id, const BeforeReady& before_ready, JoinAttempt* attempt,
               JoinResult* result) {
  std::shared_ptr<Hub> hub;
  TUTTI_TRY(Hub::acquire(request.settings, &hub));
  const auto task = std::make_shared<JoinTask>(std::move(hub), request, id);
  const Status status = task->run(before_ready, attempt->in_vain, result);
  attempt->service = task->service();
  return status;
}

}  // namespace

Status join(const JoinRequest& request, const BeforeReady& before_ready, JoinResult* result) {
  TUTTI_TRY(check_ranks(request));
  UniqueId id;
  TUTTI_TRY(read_id(request, &id));
  JoinAttempt attempt;
  return join_by(request, id, before_ready, &attempt, result);
}

Status join(const JoinRequest& request, JoinAttempt* attempt, JoinResult* result) {
  TUTTI_TRY(check_ranks(request));
  UniqueId id;
  if (const Status status = read_id(request, &id); !status.ok()) {
    attempt->service = IdService::kRefused;
    return status;
  }
  return join_by(request, id, nullptr, attempt, result);
}

Status join(const JoinRequest& request, JoinResult* result) { return join(request, BeforeReady(), result); }

}  // namespace tutti
