#include "comm/communicator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/catalogue.h"
#include "core/cache.h"
#include "core/no_cancel.h"
#include "kernels/kernels.h"

namespace tutti {

namespace {
/// Smaller blocks are always written through the caches.
constexpr std::size_t kStreamFrom = std::size_t{256} << 10;
/// Smaller inputs are copied into a slot sooner than a peer can fetch them.
constexpr std::size_t kSharedFrom = std::size_t{64} << 10;
/// Blocks that far ranks may be lent: the messages of a block may be smaller, and are then copied.
constexpr std::size_t kLentFrom = std::size_t{64} << 10;
}  // namespace

Communicator::Communicator(const Settings& settings, std::string name, JoinResult&& joined,
                           std::unique_ptr<Executor>&& executor, std::shared_ptr<const AutomaticChoice> choice,
                           Oversubscription oversubscription)
    : settings_(settings),
      timeout_seconds_(settings.timeout_seconds),
      name_(std::move(name)),
      joined_(std::move(joined)),
      oversubscription_(std::move(oversubscription)),
      executor_(std::move(executor)),
      active_(executor_.get()),
      board_(executor_->board()),
      launch_(*executor_->launch()),
      rank_(joined_.membership->rank()),
      ranks_(joined_.membership->ranks()),
      network_(choice->machine().network),
      plans_(std::move(choice), rank_, settings.algorithm, settings.tile_bytes, LogSource{rank_, name_}) {
  for (Rank peer{0}; peer.value < ranks_; ++peer)
    if (is_far(peer)) far_.push_back(peer);
  board_.open();
}

void Communicator::start_listening() {
  joined_.membership->set_listener([this] { listen(); });
  if (network_) joined_.membership->set_board(&board_);
}

Communicator::~Communicator() {
  joined_.membership->set_listener({});
  joined_.membership->set_board(nullptr);
}

const char* Communicator::transport() const {
  if (settings_.transport == TransportKind::kInproc) return "inproc";
  if (!network_) return "shm";
  return static_cast<int>(far_.size()) == ranks_ - 1 ? "tcp" : "shm and tcp";
}

void Communicator::listen() {
  alarm_.store(1, std::memory_order_release);
  executor_->wake();
}

Status Communicator::prepare(CallArguments* arguments) const {
  if (reduces(arguments->collective)) {
    if (arguments->op >= kRedOps) [[unlikely]]
      arguments->user = operations_.find(arguments->op).get();
    if (arguments->user != nullptr) [[unlikely]]
      arguments->agreed = arguments->user->kind();
    const bool plain = arguments->type == static_cast<int>(DataType::kFloat32) &&
                       (arguments->user == nullptr || arguments->user->function == nullptr);
    if (settings_.wire_type >= 0 && arguments->wire == CallArguments::kDefaultWire && plain)
      arguments->wire = settings_.wire_type;
  }
  TUTTI_TRY(check_arguments(*arguments, rank_.value, ranks_));
  if (device_ != nullptr) [[unlikely]]
    TUTTI_TRY(device_->locate(arguments, rank_.value));
  if (arguments->wire >= 0 && settings_.deterministic) [[unlikely]]
    return fail(Code::kInvalidArgument, "{}: a wire type cannot be had in the deterministic mode",
                name_of(arguments->collective));
  return {};
}

Status Communicator::prepare(const Transfer& transfer) const {
  const bool sends = transfer.kind == Transfer::Kind::kSend;
  const char* const name = sends ? "send" : "receive";
  const bool any = !sends && transfer.peer == kNoRank;
  if (!any && (transfer.peer.value < 0 || transfer.peer.value >= ranks_))
    return fail(Code::kInvalidArgument, "{}: peer {} is not a rank of this communicator (0 to {})", name,
                transfer.peer.value, ranks_ - 1);
  if (static_cast<int>(transfer.type) >= kDataTypes)
    return fail(Code::kInvalidArgument, "{}: datatype {} is not a tuttiDataType_t", name,
                static_cast<int>(transfer.type));
  if (transfer.count.value > SIZE_MAX / 2 / size_of(transfer.type).value)
    return fail(Code::kInvalidArgument, "{}: count {} is larger than memory can be", name, transfer.count.value);
  if (transfer.count.value != 0 && transfer.data == nullptr)
    return fail(Code::kInvalidArgument, "{}: the buffer of rank {} is NULL", name, rank_.value);
  if (device_ != nullptr) TUTTI_TRY(device_->locate(transfer));
  return {};
}

Status Communicator::run(CallArguments* call) {
  if (failed()) [[unlikely]]
    return failure();
  const CallArguments& arguments = *call;
  if (turns_.is_empty() && is_repeat(arguments) && (device_ == nullptr || device_->is_on_host(arguments))) {
    const bool same = arguments.send == repeat_.call.send && arguments.recv == repeat_.call.recv &&
                      arguments.root == repeat_.call.root;
    if (!same) TUTTI_TRY(check_arguments(arguments, rank_.value, ranks_));
    // Among ranks that share memory a repeated call has no cancellation point, unless it waits for long: see check().
    const NoCancel no_cancel(!far_.empty() || device_ != nullptr || arguments.op >= kRedOps);
    const std::uint64_t ticket = turns_.take();
    begin_again(arguments);
    return finish(run_launch(), ticket);
  }
  const NoCancel no_cancel;
  TUTTI_TRY(prepare(call));
  if (arguments.on_device || arguments.staged) [[unlikely]]
    TUTTI_TRY(check_blocking(arguments));
  if (!turns_.is_empty()) [[unlikely]]
    TUTTI_TRY(wait_until_quiet());
  const std::uint64_t ticket = turns_.take();
  Status status;
  bool empty = false;
  try {
    if (has_unknown_memory(arguments)) [[unlikely]]
      status = wait_for_memory_kind(call);
    if (!arguments.on_device && has_kernels()) (void)wait_for_kernels();  // begin() tells of a failure
    if (status.ok()) status = begin(arguments, &empty);
  } catch (...) {
    status = failed_inside();
  }
  if (status.ok() && !empty) status = run_launch();
  return finish(std::move(status), ticket);
}

Status Communicator::run_launch() {
  try {
    return active_->run(launch_, *this);
  } catch (...) {
    return failed_inside();
  }
}

Status Communicator::run(std::span<Transfer> transfers) {
  if (failed()) return failure();
  for (const Transfer& transfer : transfers) TUTTI_TRY(prepare(transfer));
  TUTTI_TRY(check_blocking(transfers));
  TUTTI_TRY(wait_until_quiet());
  const std::uint64_t ticket = turns_.take();
  Status status;
  try {
    if (has_kernels()) (void)wait_for_kernels();  // begin() tells of a failure
    status = begin(transfers);
    if (status.ok()) status = active_->run(transfers, *this);
  } catch (...) {
    status = failed_inside();
  }
  return finish(std::move(status), ticket);
}

Status Communicator::begin(std::span<Transfer> transfers) {
  if (failed()) return failure();
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", rank_.value);
  repeat_.possible = false;
  active_ = executor_.get();
  if (device_ != nullptr && device_->any_on_device(transfers)) active_ = device_->staged();
  call_ = Call{};
  call_.sequence = turns_.number();
  call_.collective = Collective::kSendRecv;
  board_.begin_peers(turns_.number());
  operation_timeout_ = timeout_seconds_.load(std::memory_order_relaxed);
  waiting_ = false;
  return {};
}

Status Communicator::may_begin() {
  if (failed()) return failure();
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", rank_.value);
  repeat_.possible = false;
  return look_at_graphs();
}

Status Communicator::begin(const CallArguments& arguments, bool* empty, bool placed) {
  TUTTI_TRY(may_begin());
  if (!placed && (arguments.on_device || arguments.staged)) [[unlikely]]
    TUTTI_TRY(device_->follow_default_stream(arguments, turns_.number() + 1));
  describe_call(arguments, turns_.begin_number(), &call_);
  board_.begin(call_);
  operation_timeout_ = timeout_seconds_.load(std::memory_order_relaxed);
  waiting_ = false;
  active_ = arguments.on_device || arguments.staged ? device_->executor_of(arguments) : executor_.get();
  *empty = call_.count == 0 && arguments.collective != Collective::kBarrier &&
           arguments.collective != Collective::kAllToAllV;  // of which nobody knows all counts
  if (*empty) return {};
  Launch* const launch = &launch_;
  *launch = Launch{};
  if (arguments.collective != Collective::kBarrier) launch->carry(call_.type);
  if (call_.wire != DataType::kInt8) [[unlikely]] {
    launch->wire = call_.wire;
    launch->wire_element = size_of(call_.wire);
  }
  const Bytes element = launch->wire_element;
  std::size_t count = arguments.count;
  if (arguments.collective == Collective::kAllGatherV) count = arguments.blocks->recv.largest();
  const Bytes block{count * element.value};
  // A split moves its data as an all-gather; only its name on the boards differs.
  const Collective moved = arguments.collective == Collective::kSplit ? Collective::kAllGather : arguments.collective;
  const bool ordered = arguments.user != nullptr && !arguments.user->commutative;
  PlanCache& plans = arguments.on_device ? device_->plans() : plans_;
  const Plan plan =
      ordered ? plans.find_in_rank_order(moved, block, call_.root.value) : plans.find(moved, block, call_.root.value);
  launch->schedule = plan.schedule;
  launch->input = static_cast<const std::byte*>(arguments.send);
  launch->output = static_cast<std::byte*>(arguments.recv);
  launch->count = Elems{arguments.count};
  launch->tile = Elems{plan.tile.value >> std::countr_zero(element.value)};  // sizes of types are powers of two
  launch->op = call_.op;
  launch->divisor = call_.op == RedOp::kAvg ? static_cast<std::uint32_t>(ranks_) : 1;
  launch->fingerprint = fingerprint_of(call_);
  if (arguments.agreed != 0) [[unlikely]]
    launch->fingerprint = mix64(launch->fingerprint + arguments.agreed);
  launch->alone_reduces = ranks_ == 1 && call_.type == DataType::kBool && reduces(arguments.collective);
  launch->one_shot = plan.one_shot && launch->wire == launch->type;
  launch->stream_stores = block.value >= kStreamFrom && exceeds_cache(arguments.collective, block, *launch);
  launch->tree_order = settings_.deterministic;
  if (arguments.blocks != nullptr) [[unlikely]] {
    ragged_ = RaggedTiling(arguments.blocks->send, arguments.blocks->recv, launch->tile);
    launch->ragged = &ragged_;
  }
  if (arguments.on_device || arguments.staged) [[unlikely]]
    return bind_staged(arguments, launch);
  if (block.value >= kSharedFrom && may_share_input(arguments, *launch)) {
    launch->input_is_shared = true;
    launch->one_shot = false;
  }
  if (arguments.user != nullptr) [[unlikely]]
    bind_reduction(arguments, launch);
  if (network_ && block.value >= kLentFrom) launch->lends = may_lend(arguments, *launch);
  remember(arguments, block);
  return {};
}

// Results that do not stay in the cache until they are used would only push out what is still needed.
bool Communicator::exceeds_cache(Collective collective, Bytes block, const Launch& launch) const {
  const Collective moved = scheduled_as(collective);
  const int local = ranks_ - static_cast<int>(far_.size());
  const std::size_t size = block.value / launch.wire_element.value * launch.element.value;
  const auto input = reinterpret_cast<std::uintptr_t>(launch.input);
  const auto output = reinterpret_cast<std::uintptr_t>(launch.output);
  const bool in_place = input < output + size * static_cast<std::size_t>(recv_blocks(moved, ranks_)) &&
                        output < input + size * static_cast<std::size_t>(send_blocks(moved, ranks_));
  return size * host_blocks(moved, ranks_, local, in_place) > last_level_cache().value;
}

// Programs make the same small call again and again; to check, describe and plan it anew costs more than to run it.
// Above kSharedFrom more depends on the buffers than their addresses.
void Communicator::remember(const CallArguments& arguments, Bytes block) {
  const bool plain = arguments.user == nullptr && arguments.agreed == 0 && arguments.blocks == nullptr;
  if (!plain || block.value >= std::min(kSharedFrom, kLentFrom)) return;
  repeat_.call = arguments;
  repeat_.block = block;
  repeat_.possible = true;
}

// The arguments were stored one by one just before: comparisons of neighbours, which compilers join to one of twice the
// width, would wait until those stores have left the store buffer (16 of 90 ns).
bool Communicator::is_repeat(const CallArguments& arguments) const {
  const CallArguments& last = repeat_.call;
  const int differ = (arguments.type ^ last.type) | (arguments.op ^ last.op) | (arguments.wire ^ last.wire);
  return repeat_.possible && differ == 0 && arguments.count == last.count && arguments.collective == last.collective &&
         arguments.blocks == nullptr && arguments.agreed == 0 &&
         (arguments.root == last.root || plans_.recall(call_.collective, repeat_.block, arguments.root) != nullptr);
}

void Communicator::begin_again(const CallArguments& arguments) {
  if (arguments.root != repeat_.call.root) change_root(arguments);
  call_.sequence = turns_.begin_number();
  board_.begin(call_);
  operation_timeout_ = timeout_seconds_.load(std::memory_order_relaxed);
  waiting_ = false;
  launch_.input = static_cast<const std::byte*>(arguments.send);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the two loads apart, see is_repeat()
  launch_.output = static_cast<std::byte*>(arguments.recv);
  launch_.fingerprint = fingerprint_of(call_);
}

// Roots often take turns. All else that a small call is bound to is the same whoever the root is; which buffers it
// needs is not, and these are the ones that were checked for this root.
void Communicator::change_root(const CallArguments& arguments) {
  repeat_.call.root = arguments.root;
  repeat_.call.send = arguments.send;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in begin_again()
  repeat_.call.recv = arguments.recv;
  call_.root = Rank{arguments.root};
  launch_.schedule = plans_.recall(call_.collective, repeat_.block, arguments.root)->schedule;
}

// Far ranks get large messages straight from the buffers: nothing overwrites them before they have been read.
bool Communicator::may_lend(const CallArguments& arguments, const Launch& launch) const {
  if (launch.wire != launch.type || arguments.blocks != nullptr) return false;
  const auto size = [&](int blocks) {
    return arguments.count * launch.element.value * static_cast<std::size_t>(blocks);
  };
  const std::byte* const read = launch.input + size(send_blocks(arguments.collective, ranks_));
  const std::byte* const written = launch.output + size(recv_blocks(arguments.collective, ranks_));
  const bool apart =
      launch.input == nullptr || launch.output == nullptr || read <= launch.output || written <= launch.input;
  return is_reference_safe(*launch.schedule->algorithm, !apart);
}

// Only an input that nothing is stored into: peers read it while this rank goes on.
bool Communicator::may_share_input(const CallArguments& arguments, const Launch& launch) {
  if (!settings_.cma || launch.wire != launch.type || arguments.send == nullptr || arguments.blocks != nullptr ||
      arguments.user != nullptr)
    return false;
  const std::size_t block = arguments.count * launch.element.value;
  const std::size_t bytes = block * static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  if (!host_allocations().contains(arguments.send, bytes) && !registered_.contains(arguments.send, bytes)) return false;
  const std::size_t written = block * static_cast<std::size_t>(recv_blocks(arguments.collective, ranks_));
  const auto* const send = static_cast<const std::byte*>(arguments.send);
  const auto* const recv = static_cast<const std::byte*>(arguments.recv);
  return send + bytes <= recv || recv + written <= send;
}

// A scalar's product goes where the result will be, if that is as large as the input, else into memory of ours.
void Communicator::bind_reduction(const CallArguments& arguments, Launch* launch) {
  if (arguments.user->function != nullptr) {
    fold_.bind(*arguments.user, call_.type);
    launch->user = &fold_;
    launch->alone_reduces = false;
    return;
  }
  launch->op = RedOp::kSum;
  const std::size_t count = arguments.count * static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  std::byte* product = launch->output;
  if (arguments.collective != Collective::kAllReduce) {
    const std::size_t bytes = count * launch->element.value;
    if (scaled_.size() < bytes) scaled_.resize(bytes);
    product = scaled_.data();
  }
  scale(call_.type, product, arguments.send, count, arguments.user->scalar_now());
  launch->input = product;
}

Status Communicator::finish(Status status, std::uint64_t ticket) {
  if (!status.ok() && status.code() != Code::kInvalidUsage) [[unlikely]]
    status = fail_for_good(std::move(status), kNoRank);
  // A call that failed has not ended for the peers: who waits for its end hears the cause. One that was refused has not
  // begun.
  if (status.ok()) [[likely]] {
    board_.end(turns_.number());
  } else if (status.code() != Code::kInvalidUsage) {
    active_->abandon();
  }
  turns_.end(ticket);
  return status;
}

Status Communicator::async_error() {
  if (failed()) return failure();
  TUTTI_TRY(look_at_graphs());
  TUTTI_TRY(adopt_cause());
  TUTTI_TRY(look_for_past_disagreement(board_.state().sequence));
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (joined_.membership->liveness(peer) != Liveness::kDead) continue;
    TUTTI_TRY(adopt_cause());  // whoever died after giving a cause gave it before it died
    return fail(Code::kRemoteError, "rank {} ({}) died", peer.value, joined_.membership->describe(peer));
  }
  return {};
}

Status Communicator::algorithm_for(Collective collective, Bytes bytes, bool on_device, std::string* text) {
  if (on_device) TUTTI_TRY(device_transport(text));
  TUTTI_TRY(wait_until_quiet());  // the plans are the running operation's
  PlanCache& plans = on_device && device_->executor() != nullptr ? device_->plans() : plans_;
  if (on_device) *text = device_->describe_levels(collective, bytes);
  if (on_device && !text->empty()) return {};
  const Plan plan = plans.find(collective, bytes, is_rooted(collective) ? 0 : -1);
  *text = plan.schedule->algorithm->name;
  return {};
}

Status Communicator::algorithms_of(Collective collective, std::string* text) const {
  text->clear();
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.collective == scheduled_as(collective) && plans_.offers(collective, algorithm.name))
      *text += (text->empty() ? "" : ",") + std::string(algorithm.name);
  return {};
}

Status Communicator::host_bytes(std::uint64_t* bytes) {
  TUTTI_TRY(wait_until_quiet());
  const std::size_t staged = device_ == nullptr ? 0 : device_->staging_memory().value;
  *bytes = plans_.bytes() + executor_->scratch_bytes() + scaled_.capacity() + staged;
  return {};
}

Status Communicator::device_bytes(std::uint64_t* bytes) {
  TUTTI_TRY(wait_until_quiet());
  *bytes = device_ == nullptr ? 0 : device_->device_memory().value;
  return {};
}

Settings Communicator::settings() const {
  Settings now = settings_;
  now.timeout_seconds = timeout_seconds_.load(std::memory_order_relaxed);
  return now;
}

std::uint64_t Communicator::shared_bytes() const {
  const std::shared_ptr<Segment>& own =
      joined_.segments.empty() ? nullptr : joined_.segments[static_cast<std::size_t>(rank_.value)];
  if (own == nullptr) return 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(div_up(own->size().value, page));
  if (mincore(own->data(), own->size().value, resident.data()) != 0) return own->size().value;
  std::uint64_t pages = 0;
  for (const unsigned char flags : resident) pages += flags & 1;
  return pages * page;
}

}  // namespace tutti
