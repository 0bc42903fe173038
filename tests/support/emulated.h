// Whether the program runs in an emulator of its processor, such as qemu-user.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

namespace tutti::test {

/// Emulators do not offer reads of another process's memory, not even of one's own. Nor does a child of a process with
/// threads survive a thread of its own there.
inline bool is_emulated() {
  char from = 1, to = 0;
  iovec here{&to, 1}, there{&from, 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != 1;
}

}  // namespace tutti::test
