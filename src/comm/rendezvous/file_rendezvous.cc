#include "comm/rendezvous/file_rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "net/crypto.h"
#include "net/descriptor.h"

namespace tutti {
namespace {

constexpr std::string_view kFileMagic = "tutti meeting 1 ";
constexpr std::size_t kMaxSize = 512;

std::string text_of(const RendezvousFile& content) {
  return fmt::format("{}{} {}\n", kFileMagic, content.round, to_hex(content.id));
}

/// O_NONBLOCK, because a pipe of that name must not block this process.
Descriptor open_to_read(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

std::string read_text(int descriptor) {
  std::array<char, kMaxSize> buffer{};
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  return std::string(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
}

/// Only Tutti's own files are replaced, because a typing error in a URL must not cost anybody a file.
Status check_replaceable(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (S_ISREG(found.st_mode)) {
    const Descriptor file = open_to_read(path);
    if (!file.valid() && errno == ENOENT) return {};  // the ranks that it was for have just removed it
    if (found.st_size == 0 || (file.valid() && read_text(file.get()).starts_with(kFileMagic))) return {};
  }
  return fail(Code::kInvalidUsage, "{} exists and is not a rendezvous file of Tutti: it is left alone", path);
}

Status write_new(const std::string& path, const std::string& text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return fail(Code::kSystemError, "cannot create {}: {}", path, errno_text());
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  // If the system has no room for the whole text, it writes a part of it.
  const Status status = fail(Code::kSystemError, "cannot write {}: {}", path, errno_text(written < 0 ? errno : ENOSPC));
  ::unlink(path.c_str());
  return status;
}

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Status random_name_beside(const std::string& path, std::string* name) {
  std::array<std::byte, 8> random{};
  TUTTI_TRY(random_bytes(random));
  *name = path + "." + to_hex(random);
  return {};
}

bool is_private(const struct stat& state) {
  return S_ISDIR(state.st_mode) && state.st_uid == ::geteuid() && (state.st_mode & 077) == 0;
}

}  // namespace

bool parse_rendezvous_file(std::string_view text, RendezvousFile* content) {
  if (!text.starts_with(kFileMagic) || !text.ends_with('\n')) return false;
  text.remove_prefix(kFileMagic.size());
  text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), content->round);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return false;
  return from_hex(text.substr(static_cast<std::size_t>(end - text.data()) + 1), content->id);
}

Status write_rendezvous_file(const std::string& path, const RendezvousFile& content) {
  TUTTI_TRY(check_replaceable(path));
  std::string temporary;
  TUTTI_TRY(random_name_beside(path, &temporary));
  TUTTI_TRY(write_new(temporary, text_of(content)));
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Status status = fail(Code::kSystemError, "cannot rename {} to {}: {}", temporary, path, errno_text());
  ::unlink(temporary.c_str());
  return status;
}

void read_rendezvous_file(const std::string& path, RendezvousFile* content, bool* found, std::string* why) {
  *found = false;
  const Descriptor file = open_to_read(path);
  if (!file.valid()) {
    *why = errno == ENOENT ? "no such file" : errno_text();
    return;
  }
  struct stat state {};
  if (::fstat(file.get(), &state) != 0 || !S_ISREG(state.st_mode)) {
    *why = "not a plain file";
  } else if (state.st_uid != ::geteuid() && state.st_uid != 0) {
    *why = "it belongs to another user";
  } else if ((state.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    *why = "other users may write it";
  } else if (!parse_rendezvous_file(read_text(file.get()), content)) {
    *why = "it is not a rendezvous file";
  } else {
    *found = true;
  }
}

// Another job could put its own file there between a look at the file and its removal. So the file is moved aside
// first, and moved back if it is not the one that was meant.
void remove_rendezvous_file(const std::string& path, const RendezvousFile& content) {
  RendezvousFile now;
  bool found = false;
  std::string why;
  read_rendezvous_file(path, &now, &found, &why);
  std::string aside;
  if (!found || now != content || !random_name_beside(path, &aside).ok()) return;
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  read_rendezvous_file(aside, &now, &found, &why);
  const bool others = !found || now != content;
  if (others && ::link(aside.c_str(), path.c_str()) != 0 && errno != EEXIST)  // EEXIST: there is a newer file
    ::rename(aside.c_str(), path.c_str());                                    // for a file system without hard links
  ::unlink(aside.c_str());
}

Status private_rendezvous_path(const std::string& temporary, const std::string& job, std::string* path) {
  Key hash;
  TUTTI_TRY(hmac_sha256(bytes_of("tutti job"), {bytes_of(job)}, &hash));
  *path = fmt::format("{}/tutti-{}/{}", temporary, ::geteuid(), to_hex(ByteView(hash).first(12)));
  return {};
}

bool is_private_directory(const std::string& path) {
  struct stat state {};
  return ::lstat(path.c_str(), &state) == 0 && is_private(state);
}

// It looks only once, because rank 0 may remove the directory at any time after the ranks have met.
Status check_private_directory(const std::string& path) {
  const std::string directory = directory_of(path);
  struct stat state {};
  if (::lstat(directory.c_str(), &state) != 0 || is_private(state)) return {};
  return fail(Code::kSystemError,
              "{} is not a directory of this user alone (mode 0700), so the ranks cannot meet there: remove it, or set "
              "TMPDIR to a directory of yours on all ranks",
              directory);
}

Status write_private_rendezvous_file(const std::string& path, const RendezvousFile& content) {
  const std::string directory = directory_of(path);
  for (int tries = 0;; ++tries) {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
      return fail(Code::kSystemError, "cannot create {}: {}", directory, errno_text());
    TUTTI_TRY(check_private_directory(path));
    const Status status = write_rendezvous_file(path, content);
    // Another job may just have removed the empty directory, and a third one may have made it again.
    if (status.ok() || tries == 100) return status;
  }
}

void remove_private_directory(const std::string& path) { ::rmdir(directory_of(path).c_str()); }

}  // namespace tutti
