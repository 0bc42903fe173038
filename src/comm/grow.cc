#include "comm/grow.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "comm/child.h"
#include "comm/create.h"
#include "comm/join/root.h"
#include "comm/parent_monitor.h"
#include "core/printable.h"
#include "net/crypto.h"

namespace tutti {
namespace {

/// Each rank sends it to all others.
struct Offer {
  std::int32_t ranks = 0;
  std::int32_t has_id = 0;
  std::int32_t code = 0;        ///< why the rank cannot take part; 0 if it can
  std::array<char, 256> why{};  ///< cut if it is longer
  IdBytes id{};                 ///< without its secret
};

bool is_own(Communicator& parent, const KeyId& nonce) {
  const std::vector<KeyId>& made = parent.grow_ids();
  return std::find(made.begin(), made.end(), nonce) != made.end();
}

/// Fails unless this rank made the id, and it has not been used.
Status check_id(Communicator& parent, const KeyId& nonce) {
  if (!is_own(parent, nonce))
    return fail(Code::kInvalidArgument,
                "the id is not one that this rank made by tuttiCommGetUniqueId on this communicator");
  return parent.membership().hub()->ask(
      [nonce](const std::shared_ptr<Hub>& there) { return there->service<RootService>().answer(nonce); });
}

/// Does what can fail on one rank alone.
Status prepare(Communicator& parent, const GrowOptions& options, Offer* mine, JoinRequest* request) {
  if (options.ranks <= parent.ranks())
    return fail(Code::kInvalidArgument, "nranks is {}, which is not more than the {} ranks that there are",
                options.ranks, parent.ranks());
  if (options.id) {
    UniqueId id;
    TUTTI_TRY(UniqueId::decode(*options.id, &id));
    TUTTI_TRY(check_id(parent, id.nonce));
    id.secret = Key{};
    mine->id = id.encode();
  }
  TUTTI_TRY(check_place(options.created));
  TUTTI_TRY(prepare_join(options.created, request));
  return check_ranks(*request);
}

std::string text_of(const Offer& offer) {
  return printable(std::string_view(offer.why.data(), ::strnlen(offer.why.data(), offer.why.size())));
}

/// Fails unless all ranks can take part and agree. It fails with the same text on all ranks.
Status check_offers(const std::vector<Offer>& offers, std::size_t* maker) {
  std::vector<std::size_t> makers;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& offer = offers[rank];
    const auto code = static_cast<Code>(offer.code);
    if (code != Code::kOk) return fail(code, "grow: rank {}: {}", rank, text_of(offer));
    if (offer.has_id != 0) makers.push_back(rank);
  }
  for (std::size_t rank = 1; rank < offers.size(); ++rank)
    if (offers[rank].ranks != offers[0].ranks)
      return fail(Code::kInvalidArgument, "grow: nranks is {} on rank 0, but {} on rank {}", offers[0].ranks,
                  offers[rank].ranks, rank);
  if (makers.empty())
    return fail(Code::kInvalidArgument, "grow: id is NULL on all ranks: the rank that made it has to pass it");
  if (makers.size() > 1)
    return fail(Code::kInvalidArgument, "grow: ranks {} and {} pass an id, but only one rank may", makers[0],
                makers[1]);
  *maker = makers[0];
  return {};
}

Status join_newcomers(Communicator& parent, const GrowOptions& options, std::shared_ptr<Communicator>* comm) {
  Offer mine;
  JoinRequest request;
  const Status ready = prepare(parent, options, &mine, &request);
  mine.ranks = options.ranks;
  mine.has_id = options.id ? 1 : 0;
  mine.code = static_cast<std::int32_t>(ready.code());
  ready.text().copy(mine.why.data(), mine.why.size() - 1);
  std::vector<Offer> offers;
  TUTTI_TRY(gather_all(parent, Collective::kGrow, mine, &offers));
  std::size_t maker = 0;
  TUTTI_TRY(check_offers(offers, &maker));
  TUTTI_TRY(complete_id(parent, offers[maker].id, &request.id));
  request.deadline = Deadline::in(options.created.settings.join_timeout_seconds);  // the exchange took time
  std::vector<int> group(offers.size());
  std::iota(group.begin(), group.end(), 0);
  ParentMonitor monitor(parent, group, "grow");
  request.check = [&monitor] { return monitor.check(); };
  const Status made = create_prepared(request, options.created, comm);
  return made.ok() ? made : monitor.judge(made);
}

/// The newcomers that have the id get the reason why nobody joins them. Nothing happens if the join has ended.
void cancel_id(Communicator& parent, const IdBytes& bytes, const Status& why) {
  UniqueId id;
  if (!UniqueId::decode(bytes, &id).ok() || !is_own(parent, id.nonce)) return;
  // For others an abort is a remote error, and a revocation is not.
  const bool aborted = why.code() == Code::kAborted && !parent.failures().revoked();
  const Status reason = fail(aborted ? Code::kRemoteError : why.code(),
                             "the ranks that the newcomers were to join gave up: {}", why.text());
  (void)parent.membership().hub()->ask([nonce = id.nonce, reason](const std::shared_ptr<Hub>& there) {
    there->service<RootService>().cancel(nonce, reason);
    return Status();
  });  // if the service thread is held up, the newcomers wait until their deadline
}

}  // namespace

Status make_grow_id(Communicator& comm, IdBytes* id) {
  if (comm.failures().failed()) return comm.failures().status();
  if (comm.finalized()) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", comm.rank().value);
  TUTTI_TRY(comm.async_error());
  comm.grow_ids().reserve(comm.grow_ids().size() + 1);  // an id that is served is known in any case
  TUTTI_TRY(make_child_id(comm, comm.settings(), id));
  UniqueId made;
  TUTTI_TRY(UniqueId::decode(*id, &made));
  comm.grow_ids().push_back(made.nonce);
  return {};
}

void end_grow_ids(Communicator& comm) noexcept {
  if (comm.grow_ids().empty() || hub_forked()) return;
  try {
    const Status why =
        fail(Code::kRemoteError, "rank {} has ended the communicator that was to grow", comm.rank().value);
    const std::shared_ptr<Hub>& hub = comm.membership().hub();
    // An id that is served keeps the hub, so without a hub there is none.
    hub->loop().post([weak = std::weak_ptr<Hub>(hub), ids = comm.grow_ids(), why] {
      const std::shared_ptr<Hub> there = weak.lock();
      for (const KeyId& id : ids)
        if (there != nullptr) there->service<RootService>().cancel(id, why);
    });
  } catch (const std::bad_alloc&) {  // the ids are served until the process ends
  }
}

Status read_grow(Communicator& parent, int ranks, const tuttiUniqueId* id, const tuttiConfig_t* config,
                 GrowOptions* options) {
  options->ranks = ranks;
  options->created = options_of_child(parent);
  TUTTI_TRY(apply_config(config, &options->created));
  options->created.ranks = ranks;
  options->created.rank = parent.rank().value;
  if (id == nullptr) return {};
  static_assert(sizeof id->internal == sizeof(IdBytes));
  std::memcpy(options->id.emplace().data(), id->internal, sizeof id->internal);
  return {};
}

Status grow(Communicator& parent, const GrowOptions& options, std::shared_ptr<Communicator>* comm) {
  Status status;
  try {
    status = join_newcomers(parent, options, comm);
  } catch (...) {
    if (options.id) cancel_id(parent, *options.id, what_was_thrown("a grow"));
    throw;
  }
  if (!status.ok() && options.id) cancel_id(parent, *options.id, status);
  return status;
}

}  // namespace tutti
