// How processes agree on who stays when a communicator shrinks, as a state machine without sockets, clocks and threads.
//
// The process at the lowest place that is not gone leads. It asks all others, proposes who stays, lets them join each
// other, lets all members know that all have joined, and then decides. That is a non-blocking commitment in three
// phases (D. Skeen, "Nonblocking commit protocols", SIGMOD 1981): if the leader dies, the next one asks how far the
// others are. If any knows that all have joined, somebody may have returned, so the proposal stands; else it makes
// another one. docs/design/recovery.md has the protocol, its invariants and what of it is explored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "comm/recovery/agreement_message.h"
#include "comm/recovery/number_set.h"
#include "core/status.h"

namespace tutti {

/// One process's part. Events come in by the functions below; after each, take_actions() says what is to be done, in
/// this order. An End is the last of them: a rank that returns may leave at once, and those who are left out are to
/// hear of the decision before they hear of that. Equal histories give equal actions.
class Agreement {
 public:
  /// The ranks of each place. It is equal in all processes.
  using Layout = std::vector<NumberSet>;

  struct SendReport {
    std::size_t to = 0;
    ShrinkReport report;
    auto operator<=>(const SendReport&) const = default;
  };
  struct SendOrder {
    std::size_t to = 0;
    ShrinkOrder order;
    auto operator<=>(const SendOrder&) const = default;
  };
  /// Make an id, serve it, and answer with id_made().
  struct MakeId {
    std::uint64_t number = 0;
    auto operator<=>(const MakeId&) const = default;
  };
  /// The members among this process's ranks are to join by the proposal's id. Each answers with built().
  struct Build {
    std::uint64_t number = 0;
    Proposal proposal;
    auto operator<=>(const Build&) const = default;
  };
  /// The round has ended: ranks of this process that called are members, are left out, or fail.
  struct End {
    std::uint64_t round = 0;
    Proposal proposal;
    auto operator<=>(const End&) const = default;
  };
  using Action = std::variant<SendReport, SendOrder, MakeId, Build, End>;

  Agreement(std::shared_ptr<const Layout> layout, std::size_t self);

  /// A rank of this process has called Shrink. False: earlier rounds have left it out, and it is not to wait.
  bool call(Rank rank, const NumberSet& excluded);
  /// A rank of this process does not wait any more.
  void withdraw(Rank rank);
  /// A rank of this process has left the communicator.
  void leave(Rank rank);
  void id_made(std::uint64_t number, const IdBytes& id, const Status& why);
  void built(Rank rank, std::uint64_t number, const Status& why);
  /// The deadline of a caller has passed.
  void overdue();
  /// Half a second has passed. It is needed only while is_active().
  void tick();
  /// The ranks of a place have died or left.
  void lost(std::size_t place);
  /// There is a new connection to a place. What was sent there before may be lost.
  void connected(std::size_t place);
  /// False: no process of this communicator sends this.
  bool take(std::size_t from, const ShrinkReport& report);
  bool take(std::size_t from, const ShrinkOrder& order);

  std::vector<Action> take_actions();
  /// Whether this process takes part in a round that has not ended.
  bool is_active() const { return !calls_.empty() || !reports_.empty() || promised_ > 0; }
  bool is_overdue() const { return overdue_; }
  /// Whether an earlier round has left the rank out.
  bool has_left_out(Rank rank) const { return left_out_.has(rank); }
  std::uint64_t round() const { return round_; }
  auto operator<=>(const Agreement&) const = default;

  /// So many ticks without an answer and a process counts as gone, where that may happen: see may_go().
  static constexpr int kPatience = 3;

 private:
  /// The newest proposal that this process has taken part in.
  struct Held {
    std::uint64_t number = 0;
    ShrinkStage stage = ShrinkStage::kAsked;
    Proposal proposal;
    NumberSet unbuilt;  // the members here that have not answered
    Code failure = Code::kOk;
    std::string text;
    auto operator<=>(const Held&) const = default;
  };

  std::size_t leader() const;
  std::size_t leader_of(std::uint64_t number) const { return (number - 1) % layout_->size(); }
  bool leads() const { return leader() == self_; }
  const NumberSet& ranks_of(std::size_t place) const { return (*layout_)[place]; }
  ShrinkReport report(bool asks = false) const;
  ShrinkOrder order() const;
  void send_report_to(std::size_t place, bool asks = false) { actions_.push_back(SendReport{place, report(asks)}); }
  void send_order_to(std::size_t place) { actions_.push_back(SendOrder{place, order()}); }
  void send_decision(std::size_t place, std::uint64_t round, const Proposal& proposal);
  void answer_by_decision(std::size_t place, std::uint64_t round);
  bool fits(std::size_t from, const Proposal& proposal, const NumberSet& out) const;
  bool heard(std::size_t from, const NumberSet& their_out);
  void ask_for_decision(std::size_t from);
  bool add_out(std::size_t place);
  void pass_on(const Proposal& decided, std::size_t from);
  void follow(const ShrinkOrder& order);
  void hold(const ShrinkOrder& order, ShrinkStage stage);
  void build(const ShrinkOrder& order);
  static bool explains_more(Code code, Code known);
  void give_up_build(Rank rank, const Status& why);
  void finish(const Proposal& proposal);
  void settle();

  // What the leader does.
  bool advance();
  void attempt();
  void enter(ShrinkStage stage);
  NumberSet missing() const;
  NumberSet called() const;
  NumberSet excluded() const;
  NumberSet waited_for() const;
  bool is_overtaken() const;
  bool adopt_committed();
  bool propose();
  bool judge_builds();
  bool may_go(std::size_t place, const NumberSet& excluded) const;
  void end(const Proposal& proposal);

  std::shared_ptr<const Layout> layout_;
  NumberSet all_ranks_;
  NumberSet all_places_;
  std::size_t self_;
  std::uint64_t round_ = 1;
  NumberSet present_;      // this process's ranks that have not left
  NumberSet out_;          // places that are gone: dead, silent for too long, or cut off from another process
  NumberSet accused_;      // the leader, while it is found out whether it is gone as another process says
  NumberSet dropped_by_;   // places for which this process counts as gone
  NumberSet passed_over_;  // leaders whose orders this process has not followed in this round
  NumberSet left_out_;     // ranks that earlier rounds have left out
  Proposal last_;          // how the last round ended
  bool overdue_ = false;
  std::map<Rank, NumberSet> calls_;  // with what each excludes
  std::uint64_t promised_ = 0;
  Held held_;
  bool report_due_ = false;
  bool asks_ = false;                   // the report that is due asks for the order
  std::size_t reported_to_ = SIZE_MAX;  // the leader that has this process's report
  std::map<std::size_t, int> silent_;   // for how many ticks a place has not answered

  // If this process leads.
  std::uint64_t number_ = 0;  // of its orders; 0 if it has not begun
  ShrinkStage stage_ = ShrinkStage::kAsked;
  Proposal proposal_;
  std::optional<Proposal> adopted_;  // it stands, because somebody may have returned by it
  std::optional<IdBytes> id_;
  bool id_is_due_ = false;
  std::map<std::size_t, ShrinkReport> reports_;

  std::vector<Action> actions_;
};

}  // namespace tutti
