// A file as a meeting point: rank 0 writes the id into it, and the others find it there.
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

/// Parses such a file. Returns false if it is another kind of file.
bool parse_rendezvous_file(std::string_view text, RendezvousFile* content);

/// Writes the file by rename, with mode 0600. An existing file is replaced only if it is empty or a rendezvous file;
/// any other is kInvalidUsage.
Status write_rendezvous_file(const std::string& path, const RendezvousFile& content);

/// Reads the file. `found` is false if there is none, if it is not (yet) a rendezvous file, or if it cannot be trusted
/// because it is a symbolic link or no plain file, is owned by another user than this one or root, or is writable by
/// others. `why` says what is wrong with it.
void read_rendezvous_file(const std::string& path, RendezvousFile* content, bool* found, std::string* why);

/// Removes the file if it still holds `content`.
void remove_rendezvous_file(const std::string& path, const RendezvousFile& content);

/// Whether this is a directory of this user alone, with mode 0700. A link to one does not count.
bool is_private_directory(const std::string& path);

/// Makes a path for the ranks of one job on one host. It is in a directory of this user alone below `temporary`, and
/// named by a hash of `job`.
Status private_rendezvous_path(const std::string& temporary, const std::string& job, std::string* path);
/// Returns kSystemError if the directory of such a path exists, but is not this user's alone.
Status check_private_directory(const std::string& path);
/// Does what write_rendezvous_file() does, for such a path. Makes the directory.
Status write_private_rendezvous_file(const std::string& path, const RendezvousFile& content);
/// Removes the directory if it is empty.
void remove_private_directory(const std::string& path);

}  // namespace tutti
