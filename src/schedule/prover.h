// The prover: runs a program symbolically, all ranks at once, over bounded ordered links, and checks rule by rule that
// the outcome can only be right (docs/design/schedule.md). What it proves is what the executor runs: the tables
// themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "schedule/contribution.h"
#include "schedule/link_table.h"
#include "schedule/peer_list.h"
#include "schedule/program.h"
#include "schedule/reference_watch.h"
#include "schedule/symbolic_memory.h"

namespace tutti {

/// What was found wrong.
enum class Check : std::uint8_t {
  kStep,           ///< a step that makes no sense by itself
  kMatching,       ///< a send without its receive, or a receive without its send
  kContributions,  ///< contributions doubled, missing or of another chunk; kComplete where it is not complete, or not
                   ///< where it is
  kMemory,         ///< a chunk read before it was written, not there, or touched by two lanes without order
  kDeadlock,       ///< ranks that wait for one another
  kExpression,     ///< operands out of rank order, or ranks that add in different orders
  kReference,      ///< memory overwritten while a message sent from there may still be read
};
const char* name_of(Check check);

/// Where and what. `lane` and `step` are -1 where the fault is in the outcome and in no single step.
struct Fault {
  Check check;
  std::int32_t rank;
  std::int32_t lane;
  std::int32_t step;
  std::string text;
};

struct ProofOptions {
  Aliasing aliasing = Aliasing::kNone;
  std::uint32_t credits = 2;
  /// Exact sets of contributors; else 64-bit fingerprints, for many ranks. Barriers are always exact.
  bool exact = true;
  /// Whether links may read a message straight from the sender's input or output until it is consumed. A step that
  /// stores what it sends may be read from there, too.
  bool by_reference = false;
};

/// Proves one program after the other and keeps its memory in between. One thread.
class Prover {
 public:
  /// The first fault, or none. Every order of execution has the same outcome (each link has one writer and one reader,
  /// and a step that can run stays able to until it does), so one is tried. One pass is enough: a pass ends with empty
  /// links.
  std::optional<Fault> find_fault(const Program& program, const ProofOptions& options);

 private:
  /// One lane of one rank, running.
  struct Strand {
    std::int32_t rank = 0;
    std::uint32_t lane = 0;
    std::uint32_t next = 0;  ///< number of the current step
    std::uint32_t steps = 0;
    bool aside = false;     ///< a step before was
    std::int32_t seen = 0;  ///< of a step that receives from a set: peers before are known to have sent
    PeerList peers;         ///< the set, empty if it receives from one or none
    Step step;
  };

  /// Whose input an output chunk is, and which chunk of the result.
  struct Origin {
    std::int32_t rank = 0;
    std::uint32_t chunk = 0;
  };

  bool start(const Program& program, const ProofOptions& options);
  bool run();
  bool load(Strand& strand);
  bool check_extents();
  bool check_step(const Strand& strand);

  bool can_run(Strand& strand);
  LinkName inbound(const Strand& strand, std::int32_t peer) const;
  LinkName outbound(const Strand& strand) const;
  bool execute(Strand& strand);
  bool execute_chunk(const Strand& strand);
  bool receive_span(const Strand& strand);
  bool receive_span(const Strand& strand, std::int32_t peer, std::size_t place, std::size_t senders);
  bool check_overlap(const Strand& strand);
  bool receive(const Strand& strand, std::int32_t peer, ValueId* value);
  bool reduce(const Strand& strand, ValueId* value);
  bool access(const Strand& strand, BufferId buffer, std::uint32_t chunk, ValueId* read, ValueId written);
  bool execute_token(Strand& strand);
  void send(const Strand& strand);
  bool may_store(const Strand& strand);
  std::uint32_t index_of(const Strand& strand) const {
    return static_cast<std::uint32_t>(strand.rank) * program_->lanes() + strand.lane;
  }

  bool explain_stop();
  std::int32_t find_deaf_reader(const LinkName& link);
  bool is_used_later(const LinkName& link, bool by_sender) const;
  bool check_outcome();
  bool find_origin(std::int32_t rank, std::uint32_t chunk, Origin* origin) const;
  bool check_chunk(std::int32_t rank, std::uint32_t chunk);
  bool check_barrier();
  bool report_message(const Strand& strand, std::int32_t peer, const Message& message);
  bool report(Check check, const Strand& strand, std::string text);
  bool report_outcome(Check check, std::int32_t rank, std::string text);

  const Program* program_ = nullptr;
  Extent extent_;  ///< rank 0's; but for scratch it is that of all
  ContributionPool values_;
  SymbolicMemory cells_{values_};
  LinkTable links_{values_};
  ReferenceWatch references_;
  bool by_reference_ = false;
  std::vector<Strand> strands_;  ///< rank-major
  std::vector<ValueId> operands_;
  std::vector<ValueId> incoming_;           ///< of a step that receives several chunks: those not yet used, last first
  std::vector<ValueId> outgoing_;           ///< what the step's verbs made of its chunks
  std::vector<std::size_t> touched_;        ///< cells that a step reads
  std::vector<ValueId> arrived_;            ///< of a barrier: whom each rank knows to have arrived
  std::vector<std::uint64_t> expressions_;  ///< of each output chunk of the first rank that was checked
  std::optional<Fault> fault_;
};

/// Proves an algorithm at one shape (`shape.rank` is ignored): if exact the tables of all ranks, else the generator.
/// kInternalError with the fault in its text.
Status prove(const Algorithm& algorithm, const Shape& shape, const ProofOptions& options);

}  // namespace tutti
