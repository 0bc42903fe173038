#include "net/descriptor.h"

#include <sys/resource.h>

#include <algorithm>

#include "core/log.h"

namespace tutti {

void allow_descriptors(std::size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(count, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  log(LogLevel::kInfo, {}, "this process may now have {} descriptors instead of {}, for as many ranks join by it",
      limit.rlim_cur, before);
}

}  // namespace tutti
