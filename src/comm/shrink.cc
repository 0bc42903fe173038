#include "comm/shrink.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/child.h"
#include "comm/create.h"
#include "comm/progress_state.h"
#include "comm/recovery/process_recovery.h"
#include "core/retry.h"

namespace tutti {
namespace {

constexpr double kUsualTimeout = 10;  // seconds
/// A join of those who stay has so much time, even if the caller's has nearly passed.
constexpr double kLeastToBuild = 5;  // seconds
/// So often it looks whether the caller has aborted the communicator, and whether the service thread is there.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::seconds kServiceLook{2};

/// A join knows its ranks by their numbers in the new communicator, and the caller knows them by the parent's.
Status in_numbers_of_parent(const Status& why, const std::vector<Rank>& members) {
  if (why.ok()) return why;
  return fail(why.code(), "{} (ranks of the new communicator, which are {} of the one that shrinks)", why.text(),
              text_of(members));
}

/// One rank's shrink. For the API's thread.
class Shrinking {
 public:
  Shrinking(Communicator& parent, const ShrinkOptions& options)
      : parent_(parent),
        options_(options),
        call_(std::make_shared<ShrinkCall>(parent.rank(), options.excluded, Deadline::in(options.timeout))) {}
  ~Shrinking() {
    if (call_->has_ended()) return;
    call_->abandon();
    hurry();
  }
  Shrinking(const Shrinking&) = delete;
  Shrinking& operator=(const Shrinking&) = delete;

  Status run(std::shared_ptr<Communicator>* made) {
    TUTTI_TRY(begin_shrink(parent_.membership(), call_));
    TUTTI_TRY(wait_for_end());
    const ShrinkCall::End end = call_->take_end();
    (void)parent_.failures().adopt_cause();  // ranks may have been left out
    TUTTI_TRY(end.status);
    if (built_ == nullptr || end.nonce != nonce_)
      return fail(Code::kRemoteError, "a shrink ended by a join that rank {} had given up for another one",
                  parent_.rank().value);
    built_->set_members(end.members);
    parent_.note_shrink();
    revoke_descendants(parent_, NumberSet::of(end.members));
    *made = std::move(built_);
    return {};
  }

 private:
  Status wait_for_end() {
    Clock::time_point looked = Clock::now();
    while (!call_->has_ended()) {
      call_->wait(kLook);
      if (const auto build = call_->take_build()) make(*build);
      TUTTI_TRY(check_caller());
      if (Clock::now() - looked < kServiceLook) continue;
      TUTTI_TRY(parent_.membership().hub()->ask([](const std::shared_ptr<Hub>&) { return Status(); }));
      looked = Clock::now();
    }
    return {};
  }

  Status check_caller() const {
    return options_.given_up() ? fail(Code::kAborted, "rank {} aborted the communicator", parent_.rank().value)
                               : Status();
  }

  /// Joins those who stay, and reports to the service thread how that went. No exception leaves it.
  void make(const ShrinkCall::Build& build) {
    built_.reset();
    nonce_ = build.id.nonce;
    Status made;
    try {
      made = in_numbers_of_parent(join_members(build), build.members);
    } catch (...) {
      made = what_was_thrown("a shrink");
    }
    if (options_.given_up()) return;  // this rank's end is the reason, and not the failure of its join
    call_->report(build.number, made);
    hurry();
  }

  void hurry() const {
    retry_without_memory([this] { hurry_shrink(parent_.membership()); });
  }

  Status join_members(const ShrinkCall::Build& build) {
    CreateOptions created = options_.created;
    created.ranks = static_cast<int>(build.members.size());
    const auto self = std::find(build.members.begin(), build.members.end(), parent_.rank());
    created.rank = static_cast<int>(self - build.members.begin());
    JoinRequest request;
    TUTTI_TRY(prepare_join(created, &request));
    request.id = build.id.encode();
    request.has_whole_secret = true;
    const Deadline least = Deadline::in(kLeastToBuild);
    request.deadline = call_->deadline().at() < least.at() ? least : call_->deadline();
    request.check = [this, number = build.number] {
      TUTTI_TRY(check_caller());
      return call_->wants(number) ? Status() : fail(Code::kRemoteError, "the ranks that stay have changed");
    };
    return create_prepared(request, created, &built_);
  }

  /// Revokes what was split from `comm` and contains a rank that is not among `staying`.
  static void revoke_descendants(Communicator& comm, const NumberSet& staying) {
    comm.descendants().for_each([&](Communicator& child, const std::vector<int>& group) {
      NumberSet staying_there;
      for (std::size_t rank = 0; rank < group.size(); ++rank)
        if (staying.has(static_cast<std::size_t>(group[rank]))) staying_there.add(rank);
      if (staying_there.size() == group.size()) return;
      child.failures().revoke();
      revoke_descendants(child, staying_there);
    });
  }

  Communicator& parent_;
  const ShrinkOptions& options_;
  const std::shared_ptr<ShrinkCall> call_;
  std::shared_ptr<Communicator> built_;  // the newest communicator of those who stay, which may not be the last one
  KeyId nonce_{};                        // of the id by which it was joined
};

Status check_open(const Communicator& parent) {
  if (!parent.finalized()) return {};
  return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", parent.rank().value);
}

/// Waits until this rank's operations have ended. Those of a communicator that has failed end by themselves.
Status end_operations(Communicator& parent) {
  (void)parent.failures().adopt_cause();
  if (const Status status = parent.call_driver().wait_until_quiet(); !status.ok() && !parent.failures().failed())
    return status;
  if (parent.failures().failed()) return {};
  const Status ended = parent.kernels().wait(parent.call_driver().running().call);
  return parent.failures().failed() ? Status() : ended;
}

}  // namespace

Status read_shrink(Communicator& parent, const int* exclude, int count, const tuttiConfig_t* config, int flags,
                   ShrinkOptions* options) {
  if (flags != TUTTI_SHRINK_DEFAULT && flags != TUTTI_SHRINK_ABORT)
    return fail(Code::kInvalidArgument, "shrink: flags {} are neither TUTTI_SHRINK_DEFAULT nor TUTTI_SHRINK_ABORT",
                flags);
  if (count < 0 || (count > 0 && exclude == nullptr))
    return fail(Code::kInvalidArgument, "shrink: {} ranks to exclude, and exclude is {}", count,
                exclude == nullptr ? "NULL" : "not NULL");
  for (int i = 0; i < count; ++i) {
    if (exclude[i] < 0 || exclude[i] >= parent.ranks())
      return fail(Code::kInvalidArgument, "shrink: exclude[{}] is {}, which is no rank", i, exclude[i]);
    if (exclude[i] == parent.rank().value)
      return fail(Code::kInvalidArgument, "shrink: exclude[{}] is {}, the calling rank", i, exclude[i]);
    options->excluded.add(Rank{exclude[i]});
  }
  CreateOptions& created = options->created;
  created = options_of_child(parent);
  const double of_parent = std::exchange(created.settings.join_timeout_seconds, -1);
  TUTTI_TRY(apply_config(config, &created));
  const bool is_given = created.settings.join_timeout_seconds >= 0;
  options->timeout = is_given ? created.settings.join_timeout_seconds : kUsualTimeout;
  if (!is_given) created.settings.join_timeout_seconds = of_parent;
  options->aborts = flags == TUTTI_SHRINK_ABORT;
  return {};
}

Status shrink(Communicator& parent, const ShrinkOptions& options, std::shared_ptr<Communicator>* comm) {
  TUTTI_TRY(ProgressState::refuse_wait());
  TUTTI_TRY(check_open(parent));
  if (options.aborts) parent.failures().revoke();
  TUTTI_TRY(end_operations(parent));
  return Shrinking(parent, options).run(comm);
}

}  // namespace tutti
