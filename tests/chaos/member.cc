#include "chaos/member.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>

namespace tutti::chaos {
namespace {

constexpr std::uint64_t kOwn = 1u << 20;  // what is at random for one member; below it, for a team
constexpr int kAttempts = 20;

std::uint64_t sum_of(const std::vector<int>& numbers) {
  std::uint64_t sum = 0;
  for (const int number : numbers) sum = sum * 1'000'003 + static_cast<std::uint64_t>(number) + 1;
  return sum;
}

}  // namespace

Member::Member(Caller& caller)
    : caller_(caller),
      own_(caller.plan().seed, kOwn + static_cast<std::uint64_t>(caller.member() * kMostTeams + caller.team())) {
  config_.joinTimeoutSeconds = caller.plan().join_timeout();
}

void Member::start(int rank) {
  if (join(rank)) live();
}

void Member::come(const Invitation& invitation) {
  tuttiComm_t grown = nullptr;
  if (!caller_.make("grow, as a newcomer", nullptr, [&] {
        return tuttiCommGrow(nullptr, invitation.ranks, &invitation.id, invitation.rank, &grown, &config_);
      }))
    return;
  if (!seal(grown, invitation.ranks)) return;
  const bool has_met = meet();
  ++episode_;  // the others go on with the next one
  if (has_met || recover()) return live();
  leave();
}

bool Member::join(int rank) {
  const Plan& plan = caller_.plan();
  test::MeetingId& id = caller_.board().ids[caller_.team()];
  if (rank == 0) id.make();
  tuttiComm_t comm = nullptr;
  if (!caller_.make("join", nullptr, [&] { return tuttiCommInitRank(&comm, plan.ranks, id.take(), rank); }))
    return false;
  std::vector<int> numbers(static_cast<std::size_t>(plan.ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  return take(comm, numbers);
}

void Member::live() {
  while (place_.comm != nullptr && episode_ < caller_.plan().episodes) {
    const bool done = meet() && plant() && work(caller_, place_, common(1), own_) && change();
    ++episode_;
    if (!done && place_.comm != nullptr && !recover()) return leave();
  }
  // If the last change was a shrink, a rank whose first attempt lacked something comes by recover(), and meets others.
  if (place_.comm != nullptr) (void)meet();
  leave();
}

/// On each new communicator its ranks tell each other who they are, and go on with the same episode.
bool Member::meet() {
  if (has_met_) return true;
  const int mine[2] = {caller_.member(), episode_};
  std::vector<int> all(static_cast<std::size_t>(place_.ranks) * 2, -1);
  if (!caller_.make("all_gather of numbers", place_.comm,
                    [&] { return tuttiAllGather(mine, all.data(), 2, tuttiInt32, place_.comm, nullptr); }))
    return false;
  std::vector<int> numbers;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    numbers.push_back(all[i]);
    episode_ = std::max(episode_, all[i + 1]);
  }
  if (!std::equal(numbers_.begin(), numbers_.end(), numbers.begin()))
    caller_.complain("ranks of a communicator do not agree on its members");
  numbers_ = numbers;
  has_met_ = true;
  return true;
}

/// What comes after the work of an episode: nothing, or other ranks.
bool Member::change() {
  const Plan& plan = caller_.plan();
  Chance chance = common(2);
  const int die = chance.below(6);
  const int chosen = chance.below(place_.ranks);
  if (die == 0 && plan.revokes) return revoke_by_plan(chosen);
  if (die <= 1 && plan.excludes && place_.ranks > 1) return exclude(chosen);
  if (die <= 4 && plan.grows && place_.ranks < kMostRanks)
    return grow(std::min(chance.between(1, 2), kMostRanks - place_.ranks));
  return true;
}

bool Member::revoke_by_plan(int revoker) {
  caller_.board().is_revoked[caller_.team()] = true;
  ++caller_.board().revokes;
  if (place_.rank != revoker) return work(caller_, place_, common(3), own_);
  std::this_thread::sleep_for(std::chrono::microseconds(own_.below(3000)));
  caller_.make("revoke", place_.comm, [&] { return tuttiCommRevoke(place_.comm, 0); });
  return false;
}

/// One rank is to go. It learns of it by its next call, or by the one that it is still in.
bool Member::exclude(int excluded) {
  caller_.board().is_excluded[caller_.team()][numbers_[static_cast<std::size_t>(excluded)]] = true;
  if (place_.rank != excluded) return shrink(&excluded, 1, TUTTI_SHRINK_DEFAULT);
  const std::string what = "barrier of the one who is excluded";
  caller_.board().posts[caller_.team()][caller_.member()].write(what);
  const tuttiResult_t result = tuttiBarrier(place_.comm, nullptr);
  if (result == tuttiSuccess) caller_.complain(what + " has succeeded");
  leave();
  return false;
}

/// If there can be no id, the communicator has failed, and the others' calls end by the recovery.
bool Member::grow(int newcomers) {
  Board& board = caller_.board();
  const int ranks = place_.ranks + newcomers;
  tuttiUniqueId id{};
  const bool invites = place_.rank == 0;
  const auto make_id = [&] { return tuttiCommGetUniqueId(place_.comm, &id); };
  if (invites && !caller_.make("the id of a grow", place_.comm, make_id)) return false;
  for (int rank = place_.ranks; rank < ranks && invites; ++rank) {
    const int place = board.invitations++;
    if (place >= kMostMembers) return caller_.complain("too many newcomers"), false;
    Invitation& invitation = board.invited[place];
    invitation.team = caller_.team();
    invitation.rank = rank;
    invitation.ranks = ranks;
    invitation.id = id;
    invitation.is_written = true;
  }
  tuttiComm_t grown = nullptr;
  if (!caller_.make("grow", place_.comm,
                    [&] { return tuttiCommGrow(place_.comm, ranks, invites ? &id : nullptr, -1, &grown, &config_); }))
    return false;
  ++board.grows;
  return seal(grown, ranks) && meet();
}

/// A grow may have succeeded for some and failed for others if a rank died in its last moment. A shrink gives all the
/// same members; if these are all, every rank has got here.
bool Member::seal(tuttiComm_t grown, int ranks) {
  tuttiComm_t sealed = nullptr;
  const bool shrunk = caller_.make("shrink after a grow", nullptr, [&] {
    return tuttiCommShrink(grown, nullptr, 0, &sealed, &config_, TUTTI_SHRINK_DEFAULT);
  });
  int count = 0;
  if (shrunk) (void)tuttiCommCount(sealed, &count);
  (void)tuttiCommDestroy(grown);
  if (!shrunk) return false;
  if (count == ranks) return take(sealed, numbers_);
  (void)tuttiCommAbort(sealed);
  return false;
}

/// The ranks that are left go on with a communicator of their own; false: this one is not among them.
bool Member::recover() {
  const auto began = std::chrono::steady_clock::now();
  const bool revokes = own_.is_in(1, 2);
  if (revokes) caller_.make("revoke after an error", place_.comm, [&] { return tuttiCommRevoke(place_.comm, 0); });
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (shrink(nullptr, 0, revokes ? TUTTI_SHRINK_DEFAULT : TUTTI_SHRINK_ABORT)) {
      if (meet()) caller_.board().note_recovery(std::chrono::steady_clock::now() - began);
      return true;  // else the next episode meets this failure
    }
    if (caller_.was_left_out()) return ++caller_.board().left_out, false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * attempt));  // for what is short
  }
  // Whose service thread lacked memory in the middle of an agreement is gone for the others, and for good.
  if (caller_.result() == tuttiSystemError) return ++caller_.board().left_out, false;
  caller_.complain("all shrinks have failed, the last with: " + caller_.error());
  return false;
}

bool Member::shrink(const int* exclude, int count, int flags) {
  tuttiComm_t made = nullptr;
  if (!caller_.make("shrink", nullptr,
                    [&] { return tuttiCommShrink(place_.comm, exclude, count, &made, &config_, flags); }))
    return false;
  ++caller_.board().shrinks;
  return take(made, members_of(made));
}

/// Nothing where those of the old one are not known.
std::vector<int> Member::members_of(tuttiComm_t made) {
  if (numbers_.size() < static_cast<std::size_t>(place_.ranks)) return {};
  char text[200] = {};
  if (tuttiCommGetInfo(made, "members", text, sizeof text) != tuttiSuccess) caller_.complain("no members");
  std::istringstream ranks(text);
  std::vector<int> numbers;
  for (int rank = 0; ranks >> rank;) numbers.push_back(numbers_.at(static_cast<std::size_t>(rank)));
  return numbers;
}

bool Member::take(tuttiComm_t made, const std::vector<int>& numbers) {
  if (place_.comm != nullptr) (void)tuttiCommDestroy(place_.comm);  // it failed, or all is done on it
  place_.comm = made;
  numbers_ = numbers;
  has_met_ = false;
  (void)tuttiCommCount(made, &place_.ranks);
  (void)tuttiCommUserRank(made, &place_.rank);
  const auto rank = static_cast<std::size_t>(place_.rank);
  if (rank < numbers.size() && numbers[rank] != caller_.member()) caller_.complain("it has the rank of somebody else");
  return true;
}

void Member::leave() {
  if (place_.comm == nullptr) return;
  // It may hear of a failure in its last moment.
  (void)tuttiCommDestroy(place_.comm);
  place_.comm = nullptr;
  caller_.board().posts[caller_.team()][caller_.member()].write("nothing more");
}

bool Member::plant() {
  const bool is_guilty = caller_.member() == 1;
  cases::Case one;
  switch (episode_ == 0 ? caller_.plan().planted : Planted::kNone) {
    case Planted::kWrongValue:
      one.count = 100;
      one.seed = is_guilty ? 1 : 0;
      return call(caller_, place_, one);
    case Planted::kWrongCall:
      one.kind = cases::Kind::kBroadcast;
      one.root = place_.ranks;
      return !is_guilty || call(caller_, place_, one);
    case Planted::kCrash:
      return !is_guilty || ::raise(SIGKILL) == 0;
    case Planted::kHang:
      while (is_guilty) ::pause();
      return true;
    case Planted::kNone:
      break;
  }
  return true;
}

Chance Member::common(std::uint64_t purpose) const {
  return {caller_.plan().seed + purpose * 31 + static_cast<std::uint64_t>(caller_.team()),
          sum_of(numbers_) * 64 + static_cast<std::uint64_t>(episode_)};
}

}  // namespace tutti::chaos
