// A file as a meeting point: rank 0 writes the id into it, the others find it there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/join/join.h"

namespace tutti {

/// What a file held when it was read.
struct RendezvousFile {
  std::uint64_t round = 0;
  IdBytes id{};
  bool operator==(const RendezvousFile&) const = default;
};

/// What is in such a file; false: something else.
bool parse_rendezvous_file(std::string_view text, RendezvousFile* content);

/// Writes by rename, mode 0600. A file that is there is replaced only if it is empty or a rendezvous file; any other is
/// kInvalidUsage.
Status write_rendezvous_file(const std::string& path, const RendezvousFile& content);

/// `found` false: no file, not (yet) a rendezvous file, or not a trustworthy one: a symbolic link, not a plain file,
/// owned by another user than this one or root, or writable by others. What is wrong with it goes to `why`.
void read_rendezvous_file(const std::string& path, RendezvousFile* content, bool* found, std::string* why);

/// Removes the file if it still holds this.
void remove_rendezvous_file(const std::string& path, const RendezvousFile& content);

/// A directory of this user alone: mode 0700. A link to one is none.
bool is_private_directory(const std::string& path);

/// A path for the ranks of one job on one host: in a directory of this user alone below `temporary`, named by a hash of
/// `job`.
Status private_rendezvous_path(const std::string& temporary, const std::string& job, std::string* path);
/// kSystemError if the directory of such a path is there, but not this user's alone.
Status check_private_directory(const std::string& path);
/// write_rendezvous_file() to such a path. Makes the directory.
Status write_private_rendezvous_file(const std::string& path, const RendezvousFile& content);
/// Removes the directory if it is empty.
void remove_private_directory(const std::string& path);

}  // namespace tutti
