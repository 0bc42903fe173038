#include "comm/queue/call_group.h"

#include <algorithm>
#include <exception>
#include <future>
#include <map>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "comm/progress_state.h"
#include "core/library_thread.h"
#include "core/thread_value.h"

namespace tutti {

thread_local int CallGroup::depth_ = 0;

CallGroup& CallGroup::current() { return value_of_thread<CallGroup>(); }

namespace {
/// Packing pays as long as a call costs more than to copy its data twice.
constexpr Bytes kPackedPart{32 * 1024};
constexpr Bytes kPacked{256 * 1024};
/// With more ranks an average of float8 could lose a single objection (PackedReduction).
constexpr int kPackedRanks = 64;

bool runs_in(const std::vector<std::unique_ptr<Operation>>& operations, const Communicator& comm) {
  return std::any_of(operations.begin(), operations.end(), [&](const auto& operation) {
    return &operation->comm() == &comm && operation->state() != Operation::State::kEnded;
  });
}
}  // namespace

Status CallGroup::run_later(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream) {
  if (depth_ == 0) return enqueue_alone(std::move(comm), std::move(call), std::move(stream));
  current().calls_.push_back(Collected{std::move(comm), std::move(call), std::move(stream), {}, {}});
  return {};
}

namespace {

/// See DeviceCalls::stage_on().
Status stage_on(Communicator& comm, Stream& stream, QueuedCall* call, std::shared_ptr<StreamGate>* gate) {
  if (!call->collective()) return comm.device_calls().stage_on(stream.cuda(), call->transfers(), gate);
  TUTTI_TRY(comm.device_calls().stage_on(stream.cuda(), &stream, call->arguments(), gate));
  if (*gate != nullptr) call->stage();
  return {};
}

}  // namespace

/// What has to be finished on its stream is added to `launched`.
Status CallGroup::enqueue(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream,
                          std::vector<Launched>* launched) {
  if (!stream->is_cuda()) {
    stream->enqueue(std::make_unique<Operation>(std::move(comm), std::move(call)));
    return {};
  }
  std::shared_ptr<StreamGate> gate;
  TUTTI_TRY(stage_on(*comm, *stream, &call, &gate));
  if (gate != nullptr) {
    stream->enqueue(std::make_unique<Operation>(std::move(comm), std::move(call), std::move(gate)));
    return {};
  }
  launched->push_back({std::move(comm), std::move(stream), {}});
  Launched& now = launched->back();
  bool is_launched = false;
  Status begun = now.comm->device_calls().begin_on(call.arguments(), now.stream->cuda(), &is_launched, &now.call);
  if (!begun.ok() || !is_launched) launched->pop_back();
  return begun;
}

Status CallGroup::finish(Launched launched) {
  std::shared_ptr<CallEnd> ended;
  TUTTI_TRY(launched.comm->device_calls().finish_on(&ended));
  if (ended != nullptr)
    launched.stream->enqueue(std::make_unique<Operation>(std::move(launched.comm), std::move(ended), launched.call));
  return {};
}

Status CallGroup::enqueue_alone(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream) {
  std::vector<Launched> launched;
  TUTTI_TRY(enqueue(std::move(comm), std::move(call), std::move(stream), &launched));
  return launched.empty() ? Status{} : finish(std::move(launched.front()));
}

void CallGroup::add(std::shared_ptr<Communicator> parent, std::function<Status()> blocking) {
  calls_.push_back(Collected{std::move(parent), QueuedCall(), nullptr, std::move(blocking), {}});
}

void CallGroup::refuse(const Status& status) {
  if (refused_.ok()) refused_ = status;
}

Status CallGroup::end() {
  if (depth_ == 0) return fail(Code::kInvalidUsage, "tuttiGroupEnd without tuttiGroupStart");
  if (--depth_ != 0) return {};
  CallGroup collected = std::exchange(current(), CallGroup{});
  std::vector<std::shared_ptr<Communicator>> concerned;
  try {
    concerned = collected.communicators();
    return collected.run();
  } catch (...) {
    Status failed = what_was_thrown("a group");
    for (const auto& comm : concerned) failed = comm->failures().fail_call();
    for (const Collected& call : collected.calls_)  // because there may have been no memory to list all communicators
      if (call.comm != nullptr) failed = call.comm->failures().fail_call();
    return failed;
  }
}

std::vector<std::shared_ptr<Communicator>> CallGroup::communicators() const {
  std::vector<std::shared_ptr<Communicator>> found;
  for (const Collected& call : calls_)
    if (call.comm != nullptr && (found.empty() || found.back() != call.comm)) found.push_back(call.comm);
  return found;
}

Status CallGroup::run() {
  TUTTI_TRY(refused_);
  TUTTI_TRY(merge_transfers());
  pack_reductions();
  const bool blocks =
      std::any_of(calls_.begin(), calls_.end(), [](const Collected& call) { return bool{call.blocking}; });
  TUTTI_TRY(check_streams(blocks));
  TUTTI_TRY(check_callback());
  if (!blocks) return run_together();
  run_on_threads();
  for (const Collected& call : calls_) TUTTI_TRY(call.status);
  return refused_;
}

// Refuses, before anything runs, what would be refused in its turn: two ranks of one communicator on one CUDA stream,
// and calls on cudaStreamPerThread if the group runs its calls on threads of its own.
Status CallGroup::check_streams(bool on_threads) const {
  std::map<std::uint64_t, StreamDeadlockCheck> checks;  // by communicator
  std::map<Communicator*, std::uint64_t> numbers;       // of its calls in this group
  for (const Collected& call : calls_) {
    if (call.comm == nullptr || call.blocking || !call.call.collective()) continue;
    const std::uint64_t number = ++numbers[call.comm.get()];
    DeviceSide* const side = call.comm->device_calls().side();
    if (call.stream == nullptr || !call.stream->is_cuda() || side == nullptr) continue;
    if (on_threads && call.stream->cuda().is_per_thread())
      return fail(Code::kInvalidUsage,
                  "calls of a group with joins or splits run on threads of their own, for which cudaStreamPerThread is "
                  "another stream");
    StreamKey place;
    TUTTI_TRY(call.stream->cuda().place_on(side->device_of_calls(), &place));
    StreamDeadlockCheck& check = checks.try_emplace(call.comm->membership().comm_id(), SIZE_MAX).first->second;
    TUTTI_TRY(check.enter(call.comm->rank(), {&place, 1}, number));
  }
  return {};
}

// Refuses, in a callback, what would have to wait for calls on streams, those of this group included.
Status CallGroup::check_callback() const {
  if (!ProgressState::is_here()) return {};
  std::set<const Communicator*> streamed;
  for (const Collected& call : calls_) {
    if (call.comm == nullptr) continue;
    const bool waits = call.stream == nullptr || call.launches();
    if (waits && (!call.comm->turns().is_empty() || streamed.contains(call.comm.get())))
      return ProgressState::refuse_wait();
    if (!waits) streamed.insert(call.comm.get());
  }
  return {};
}

// All sends and receives of a communicator proceed together, whatever their order, and before its collectives. So ranks
// that make different sends and receives between the same collectives agree on the order of the rest.
Status CallGroup::merge_transfers() {
  std::vector<Collected> merged;
  std::vector<Collected> others;
  std::map<Communicator*, std::size_t> batches;
  for (Collected& call : calls_) {
    if (call.blocking || call.call.collective()) {
      others.push_back(std::move(call));
      continue;
    }
    const auto [place, is_new] = batches.emplace(call.comm.get(), merged.size());
    if (is_new) {
      merged.push_back(std::move(call));
      continue;
    }
    Collected& batch = merged[place->second];
    if (batch.stream != call.stream)
      return fail(Code::kInvalidUsage, "the sends and receives of one communicator in a group are on one stream");
    for (const Transfer& transfer : call.call.transfers()) batch.call.add(transfer);
  }
  for (Collected& call : others) merged.push_back(std::move(call));
  calls_ = std::move(merged);
  return {};
}

// Small all-reduces that follow each other on a communicator become one exchange. Every rank decides alike, by what all
// ranks know of the calls. It does not decide by its streams, buffers or other communicators; because of those it may
// object in the exchange. Packing leaves the bits of the results as they are only if an element's operands are added at
// once in rank order.
void CallGroup::pack_reductions() {
  std::map<Communicator*, std::size_t> last;   // the communicator's previous call
  std::map<Communicator*, std::size_t> first;  // the first of the calls that it may be packed with
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    Collected& call = calls_[i];
    if (call.comm == nullptr) continue;
    const auto before = last.find(call.comm.get());
    const bool follows = before != last.end() && fits(calls_[before->second], call) &&
                         fits(calls_[first[call.comm.get()]], call) &&
                         calls_[first[call.comm.get()]].call.packed_bytes() + call.call.bytes() <= kPacked;
    if (follows) {
      const std::size_t leader = first[call.comm.get()];
      call.call.follow(&calls_[leader].call, comes_later(leader, i));
    } else {
      first[call.comm.get()] = i;
    }
    last[call.comm.get()] = i;
  }
}

bool CallGroup::fits(const Collected& earlier, const Collected& call) {
  const auto small = [](const Collected& c) {
    // The processor copies the packed data, so calls that kernels run do not fit.
    return !c.blocking && c.call.collective() && !c.call.arguments().on_device && c.call.bytes() <= kPackedPart &&
           c.comm->ranks() <= kPackedRanks && c.comm->call_driver().binder().adds_in_rank_order(c.call.bytes());
  };
  return small(earlier) && small(call) && PackedReduction::fit(earlier.call.arguments(), call.call.arguments());
}

/// Whether something on this rank comes between the leader and the call: work of the call's stream if the leader is on
/// another one, or work of other communicators on their common stream.
bool CallGroup::comes_later(std::size_t leader, std::size_t call) const {
  const std::shared_ptr<Stream>& stream = calls_[call].stream;
  if (stream != calls_[leader].stream) return true;
  for (std::size_t i = leader + 1; stream != nullptr && i < call; ++i)
    if (calls_[i].stream == stream && calls_[i].comm != calls_[call].comm) return true;
  return false;
}

// One thread makes the calls of all ranks of the group, so none of them waits for another's launch.
Status CallGroup::run_together() {
  for (const Collected& call : calls_)
    if (call.launches()) call.comm->device_calls().note_thread();
  std::vector<std::unique_ptr<Operation>> operations;
  TUTTI_TRY(run_all(&operations, [&] { return begin_ready(&operations); }));
  return refused_;
}

// A kernel can be put on a CUDA stream only when the communicator's earlier calls have ended, and some of these are
// driven by this thread. Until then the call is held, and with it what comes later on its communicator or its stream.
// Among ranks that share a device each launches one kernel before the first of them puts anything after its own,
// because their streams may share a hardware queue.
bool CallGroup::begin_ready(std::vector<std::unique_ptr<Operation>>* operations) {
  std::vector<Collected> later;
  std::vector<Launched> launched;
  std::set<const void*> held;  // the communicators and streams of held calls
  for (Collected& call : calls_) {
    const void* const stream = call.stream == nullptr ? nullptr : call.stream->place();
    const bool launches = call.launches();
    const bool waits = launches && !call.comm->turns().is_empty();
    if (launches && (!waits || runs_in(*operations, *call.comm))) {
      waits_.end(*call.comm);
    } else if (Status held_up = waits ? waits_.check(*call.comm) : Status(); !held_up.ok()) {
      refuse(held_up);
      continue;
    }
    if (held.contains(call.comm.get()) || held.contains(stream) || waits) {
      held.insert(call.comm.get());
      if (stream != nullptr) held.insert(stream);
      later.push_back(std::move(call));
    } else if (stream == nullptr) {
      operations->push_back(std::make_unique<Operation>(std::move(call.comm), std::move(call.call)));
    } else {
      const std::size_t before = launched.size();  // if the call is refused, the others run all the same
      refuse(enqueue(std::move(call.comm), std::move(call.call), std::move(call.stream), &launched));
      if (launched.size() != before && launched.back().comm->device_calls().shares_device()) {
        held.insert(launched.back().comm.get());
      } else if (launched.size() != before) {
        refuse(finish(std::move(launched.back())));
        launched.pop_back();
      }
    }
  }
  for (Launched& one : launched) refuse(finish(std::move(one)));
  calls_ = std::move(later);
  return calls_.empty();
}

// Each chain waits for other ranks, perhaps for others of this group. So if there is no thread for each, none runs.
void CallGroup::run_on_threads() {
  std::map<Communicator*, std::vector<Collected*>> by_communicator;
  std::vector<std::vector<Collected*>> chains;  // calls of one chain run one after another
  for (Collected& call : calls_) {
    if (call.comm == nullptr) {
      chains.push_back({&call});
    } else {
      by_communicator[call.comm.get()].push_back(&call);
    }
  }
  for (auto& [comm, chain] : by_communicator) chains.push_back(std::move(chain));
  std::promise<Status> all_started;
  const std::shared_future<Status> start = all_started.get_future().share();
  // They are made before the first thread is started, because from then on nothing may fail.
  std::vector<std::function<void()>> mains;
  mains.reserve(chains.size());
  for (const std::vector<Collected*>& chain : chains)
    mains.emplace_back([start, &chain] {
      const Status& ready = start.get();
      for (Collected* const call : chain) call->status = ready.ok() ? run_safely(call) : ready;
    });
  std::vector<std::thread> threads(chains.size());
  Status started;
  for (std::size_t i = 0; i < chains.size() && started.ok(); ++i)
    started = start_thread("tutti-group", std::move(mains[i]), &threads[i]);
  all_started.set_value(started);
  for (std::thread& thread : threads)
    if (thread.joinable()) thread.join();
  if (!started.ok()) refuse(started);
}

/// Runs a call so that no exception leaves the thread.
Status CallGroup::run_safely(Collected* call) {
  try {
    const auto run = [call] { return run_one(call); };
    return call->comm != nullptr ? call->comm->failures().attempt(run) : run();
  } catch (...) {
    return what_was_thrown("a join of a group");
  }
}

Status CallGroup::run_one(Collected* call) {
  if (call->blocking) return call->blocking();
  if (call->stream != nullptr) return enqueue_alone(call->comm, std::move(call->call), call->stream);
  std::vector<std::unique_ptr<Operation>> operations;
  operations.push_back(std::make_unique<Operation>(call->comm, std::move(call->call)));
  return run_all(&operations, [] { return true; });
}

}  // namespace tutti
