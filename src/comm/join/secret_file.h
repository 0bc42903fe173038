// TUTTI_SECRET_FILE names a file that the users of all ranks have, and nobody else.
#pragma once

#include <string>

#include "comm/messages/unique_id.h"
#include "net/crypto.h"

namespace tutti {

/// Derives a key from the file's content, once per process until the content changes; the first call takes as long as
/// stretch(). Returns kInvalidUsage if the file cannot be read, has less than 16 bytes, or can be read by other users.
/// Any thread.
Status secret_file_key(const std::string& path, Key* key);

/// Mixes the file into the id's secret, so that somebody who overhears the id but does not have the file can neither
/// join by it nor serve it. Nothing changes if `path` is empty. All ranks call it before they use the id.
Status mix_secret_file(const std::string& path, UniqueId* id);

}  // namespace tutti
