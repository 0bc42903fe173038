// UCC over UCX, one context and one team.
#include <sched.h>
#include <ucc/api/ucc.h>

#include <cstring>

#include "player.h"

namespace tutti::peers {
namespace {

using race::Contested;

constexpr int kLooks = 4;  // between two offers of the core to other ranks, where ranks share cores

// How UCC's ranks meet. A gathering is done when the function that begins it returns.
ucc_status_t gather_for_ucc(void* mine, void* all, std::size_t bytes, void* seat, void** request) {
  std::vector<std::string> parts;
  if (!static_cast<const Seat*>(seat)->gather(std::string(static_cast<const char*>(mine), bytes), &parts))
    return UCC_ERR_NO_MEMORY;
  for (std::size_t i = 0; i < parts.size(); ++i)
    std::memcpy(static_cast<char*>(all) + i * bytes, parts[i].data(), bytes);
  *request = nullptr;
  return UCC_OK;
}
ucc_status_t done(void*) { return UCC_OK; }

ucc_oob_coll_t meeting_of(const Seat& seat) {
  ucc_oob_coll_t meeting{};
  meeting.allgather = gather_for_ucc;
  meeting.req_test = done;
  meeting.req_free = done;
  meeting.coll_info = const_cast<Seat*>(&seat);
  meeting.n_oob_eps = static_cast<std::uint32_t>(seat.ranks());
  meeting.oob_ep = static_cast<std::uint32_t>(seat.rank());
  return meeting;
}

class UccPlayer final : public Player {
 public:
  explicit UccPlayer(const Seat& seat) : seat_(seat), ranks_(static_cast<std::size_t>(seat.ranks())) {}

  ucc_status_t join() {
    ucc_status_t status = open();
    if (status != UCC_OK) return status;
    ucc_team_params_t team{};
    team.mask = UCC_TEAM_PARAM_FIELD_OOB;
    team.oob = meeting_of(seat_);
    status = ucc_team_create_post(&context_, 1, &team, &team_);
    if (status != UCC_OK) return status;
    while ((status = ucc_team_create_test(team_)) == UCC_INPROGRESS) {
      ucc_context_progress(context_);
      sched_yield();
    }
    return status;
  }

  std::string name() const override { return std::string("UCC ") + ucc_get_version_string(); }

  std::uint32_t offers() const override { return kOffersAll & ~offer_of(Contested::kScatter); }  // scatterv alone
  bool run(const Operation& operation, std::string* text) override {
    ucc_coll_args_t call = call_of(operation);
    ucc_coll_req_h request = nullptr;
    ucc_status_t status = ucc_collective_init(&call, &request, team_);
    if (status == UCC_OK) status = ucc_collective_post(request);
    for (int looks = 1; status >= UCC_OK && (status = ucc_collective_test(request)) == UCC_INPROGRESS; ++looks) {
      ucc_context_progress(context_);
      if (!seat_.is_pinned() && looks % kLooks == 0) sched_yield();
    }
    if (request != nullptr) ucc_collective_finalize(request);
    if (status != UCC_OK) *text = ucc_status_string(status);
    return status == UCC_OK;
  }

 private:
  ucc_status_t open() {
    ucc_lib_params_t library{};
    library.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
    library.thread_mode = UCC_THREAD_SINGLE;
    ucc_lib_config_h library_config = nullptr;
    ucc_status_t status = ucc_lib_config_read(nullptr, nullptr, &library_config);
    if (status != UCC_OK) return status;
    status = ucc_init(&library, library_config, &library_);
    ucc_lib_config_release(library_config);
    if (status != UCC_OK) return status;
    ucc_context_params_t context{};
    context.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
    context.oob = meeting_of(seat_);
    ucc_context_config_h context_config = nullptr;
    status = ucc_context_config_read(library_, nullptr, &context_config);
    if (status != UCC_OK) return status;
    status = ucc_context_create(library_, &context, context_config, &context_);
    ucc_context_config_release(context_config);
    return status;
  }

  static ucc_coll_type_t type_of(Contested what) {
    switch (what) {
      case Contested::kAllReduce:
        return UCC_COLL_TYPE_ALLREDUCE;
      case Contested::kAllGather:
        return UCC_COLL_TYPE_ALLGATHER;
      case Contested::kBroadcast:
        return UCC_COLL_TYPE_BCAST;
      case Contested::kReduce:
        return UCC_COLL_TYPE_REDUCE;
      case Contested::kReduceScatter:
        return UCC_COLL_TYPE_REDUCE_SCATTER;
      case Contested::kAllToAll:
        return UCC_COLL_TYPE_ALLTOALL;
      case Contested::kGather:
        return UCC_COLL_TYPE_GATHER;
      case Contested::kScatter:
        return UCC_COLL_TYPE_SCATTER;
      case Contested::kBarrier:
        break;
    }
    return UCC_COLL_TYPE_BARRIER;
  }

  /// UCC counts the elements of a whole buffer, blocks for others included.
  ucc_coll_args_t call_of(const Operation& operation) const {
    ucc_coll_args_t call{};
    call.coll_type = type_of(operation.what);
    call.op = UCC_OP_SUM;
    call.root = static_cast<std::uint64_t>(operation.root);
    if (operation.what == Contested::kBarrier) return call;
    const bool in_place = operation.what == Contested::kBroadcast;
    void* const in = in_place ? operation.out : const_cast<float*>(operation.in);  // UCC does not write to inputs
    const std::size_t sent = race::is_split(operation.what) ? operation.count * ranks_ : operation.count;
    const std::size_t received = race::is_joined(operation.what) ? operation.count * ranks_ : operation.count;
    call.src.info = {in, sent, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    if (!in_place) call.dst.info = {operation.out, received, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
    return call;
  }

  const Seat& seat_;
  const std::size_t ranks_;
  ucc_lib_h library_ = nullptr;
  ucc_context_h context_ = nullptr;
  ucc_team_h team_ = nullptr;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string* text) {
  auto player = std::make_unique<UccPlayer>(seat);
  const ucc_status_t status = player->join();
  if (status == UCC_OK) return player;
  *text = std::string("joining: ") + ucc_status_string(status);
  return nullptr;
}

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
