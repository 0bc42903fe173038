// TUTTI_SECRET_FILE: a file that all ranks' users have and nobody else.
#pragma once

#include <string>

#include "comm/membership/unique_id.h"
#include "net/crypto.h"

namespace tutti {

/// The key that the file's content makes; a file is stretched once per process, until its content changes.
/// kInvalidUsage: it cannot be read, has less than 16 bytes, or others than this user may read it. Any thread; the
/// first call takes as long as stretch().
Status secret_file_key(const std::string& path, Key* key);

/// Makes the file part of what an id demands: who carries or overhears the id, but does not have the file, can neither
/// join by it nor serve it. Nothing changes if `path` is empty. On all ranks, before the id is used.
Status mix_secret_file(const std::string& path, UniqueId* id);

}  // namespace tutti
