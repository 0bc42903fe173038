// Contexts of execution, each with a stack of its own, among which one thread of the host switches.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

#include "support/sanitized.h"

namespace tutti::ptx {

struct Context {
  void (*begin)(void* argument) = nullptr;
  void* argument = nullptr;
  std::byte* stack = nullptr;
  std::size_t stack_size = 0;

  // Where it goes on, and what the sanitizers know it by.
  ucontext_t registers{};
  jmp_buf jump{};
  bool has_begun = false;
  void* fake_stack = nullptr;
  void* sanitizer = nullptr;
};

/// `context` is the one in which this is called.
void become_context(Context* context);
/// `context` calls begin(argument) when something switches to it first. It must not return.
void make_context(Context* context, std::byte* stack, std::size_t size, void (*begin)(void*), void* argument);
/// For each that was made, when nothing will switch to it any more.
void end_context(Context* context);
/// Goes on at `to` until something switches back, which nothing does if `from` ends. To the thread sanitizer the two
/// are threads that nothing orders.
void switch_context(Context* from, Context* to, bool ends);

/// So many stacks.
class Stacks {
 public:
  static constexpr std::size_t kEach = test::kSanitized ? 256 << 10 : 128 << 10;

  explicit Stacks(std::size_t count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  std::byte* operator[](std::size_t i) const { return begin_ + i * kEach; }

 private:
  std::size_t bytes_;
  std::byte* begin_;
};

}  // namespace tutti::ptx
