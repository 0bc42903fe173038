// Joining by a URL: env://, tcp://host:port, file:///path.
#pragma once

#include <string>

#include "comm/join/join.h"

namespace tutti {

/// Ranks and rank may be -1 with env://, and are then filled in from the launcher. Obtains the id, which rank 0 makes
/// and publishes, then calls join(). See url.h.
Status join_url(const std::string& url, JoinRequest request, JoinResult* result);

}  // namespace tutti
