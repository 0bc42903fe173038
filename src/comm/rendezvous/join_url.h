// Joins by a URL: env://, tcp://host:port, file:///path.
#pragma once

#include <string>

#include "comm/join/join.h"

namespace tutti {

/// Obtains the id, which rank 0 makes and publishes, and calls join(). With env:// the number of ranks and the rank may
/// be -1; then they come from the launcher. See url.h.
Status join_url(const std::string& url, JoinRequest request, JoinResult* result);

}  // namespace tutti
