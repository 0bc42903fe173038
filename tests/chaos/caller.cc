#include "chaos/caller.h"

#include <cctype>

namespace tutti::chaos {
namespace {

/// "rank 3", with any number; or that nobody is there any more whom a newcomer could ask.
bool names_a_culprit(const std::string& text) {
  if (text.find("nobody serves this unique id") != std::string::npos) return true;
  const std::size_t place = text.find("rank ");
  return place != std::string::npos && place + 5 < text.size() &&
         std::isdigit(static_cast<unsigned char>(text[place + 5])) != 0;
}

}  // namespace

void Caller::begin(const std::string& what) {
  post_.write(what);
  if (striker_ != nullptr && calls_ > 0) striker_->at_call(calls_ - 1);  // the first call is the join
  ++calls_;
}

/// What nobody has done anything for is a fault of the library, and so is an error that names no cause.
void Caller::judge(tuttiResult_t result, const std::string& what) {
  ++board_.errors[result];
  const std::string said = what + ": " + std::to_string(result) + ", " + text_;
  if (text_.empty()) return complain("no reason is given: " + said);
  if (!may_return(result)) return complain("not justified by what has happened: " + said);
  const bool is_of_others = result == tuttiRemoteError || result == tuttiTimeout || result == tuttiAborted;
  if (is_of_others && !was_left_out() && !names_a_culprit(text_)) complain("no rank is named: " + said);
}

bool Caller::may_return(tuttiResult_t result) const {
  bool lacks = false;
  for (int fault = 0; fault < kFaults; ++fault)
    lacks = lacks || (is_shortage(static_cast<Fault>(fault)) && board_.has_struck(static_cast<Fault>(fault)));
  const bool loses = lacks || board_.has_struck(Fault::kStop) || (board_.has_struck(Fault::kCut) && !plan_.reconnects);
  switch (result) {
    case tuttiRemoteError:
      if (was_left_out() && !loses) return board_.is_excluded[team_][member_];
      [[fallthrough]];
    case tuttiAborted:
      return loses || board_.has_struck(Fault::kKill) || board_.is_revoked[team_];
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
