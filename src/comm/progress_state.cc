#include "comm/progress_state.h"

namespace tutti {

thread_local bool ProgressState::here_ = false;

Status ProgressState::refuse_wait() {
  if (!here_) return {};
  return fail(Code::kInvalidUsage,
              "a callback of a stream cannot wait for calls on streams: its thread is what runs them");
}

}  // namespace tutti
