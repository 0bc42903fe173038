#include "chaos/caller.h"

#include <cctype>

namespace tutti::chaos {
namespace {

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

/// "rank 3" or "ranks 3 and 4", with any numbers; or the process that a newcomer asks, whose rank it does not know.
bool names_a_culprit(const std::string& text) {
  for (const std::string word : {"rank ", "ranks "})
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      if (at + word.size() < text.size() && is_digit(text[at + word.size()])) return true;
  return text.find("serves this unique id") != std::string::npos ||
         text.find("serves the unique id") != std::string::npos;
}

}  // namespace

void Caller::begin(const std::string& what) {
  post_.write(what);
  if (striker_ != nullptr && calls_ > 0) striker_->at_call(calls_ - 1);  // the first call is the join
  ++calls_;
}

/// An error that nothing in the round explains is a fault of the library, and so is one that names no cause.
void Caller::judge(const std::string& what) {
  ++board_.errors[result_];
  const std::string said = what + ": " + std::to_string(result_) + ", " + text_;
  if (text_.empty()) return complain("no reason is given: " + said);
  if (!is_justified()) return complain("not justified by what has happened: " + said);
  const bool is_of_others = result_ == tuttiRemoteError || result_ == tuttiTimeout || result_ == tuttiAborted;
  if (is_of_others && !was_left_out() && !names_a_culprit(text_)) complain("no rank is named: " + said);
}

bool Caller::is_justified() const {
  bool lacks = false;
  for (int fault = 0; fault < kFaults; ++fault)
    lacks = lacks || (is_shortage(static_cast<Fault>(fault)) && board_.has_struck(static_cast<Fault>(fault)));
  const bool loses = lacks || board_.has_struck(Fault::kStop) || (board_.has_struck(Fault::kCut) && !plan_.reconnects);
  // Between hosts a join ends with a connection that it needs.
  const bool breaks = loses || (board_.has_struck(Fault::kCut) && plan_.links == Links::kMixed);
  switch (result_) {
    case tuttiRemoteError:
      if (was_left_out() && !loses) return board_.is_excluded[team_][member_];
      [[fallthrough]];
    case tuttiAborted:
      return breaks || board_.has_struck(Fault::kKill) || board_.is_revoked[team_];
    case tuttiTimeout:
      return loses;
    case tuttiSystemError:
      return lacks;
    default:
      return false;
  }
}

void Caller::complain(const std::string& what) const {
  board_.complain("team " + std::to_string(team_) + ", member " + std::to_string(member_) + ": " + what);
}

}  // namespace tutti::chaos
