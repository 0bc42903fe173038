#include "ptx/context.h"

#include <pthread.h>
#include <sys/mman.h>

#include "ptx/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tutti::ptx {
namespace {

void begin_context(unsigned high, unsigned low) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  const auto* const context = reinterpret_cast<Context*>(std::uintptr_t{high} << 32 | low);
  context->begin(context->argument);
}

}  // namespace

void become_context(Context* context) {
  context->has_begun = true;
#if defined(__SANITIZE_THREAD__)
  context->sanitizer = __tsan_get_current_fiber();
#endif
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;
  void* begin = nullptr;
  ::pthread_getattr_np(::pthread_self(), &attributes);
  ::pthread_attr_getstack(&attributes, &begin, &context->stack_size);
  ::pthread_attr_destroy(&attributes);
  context->stack = static_cast<std::byte*>(begin);
#endif
}

void make_context(Context* context, std::byte* stack, std::size_t size, void (*begin)(void*), void* argument) {
  context->begin = begin;
  context->argument = argument;
  context->stack = stack;
  context->stack_size = size;
  ::getcontext(&context->registers);
  context->registers.uc_stack.ss_sp = stack;
  context->registers.uc_stack.ss_size = size;
  context->registers.uc_link = nullptr;
  const auto number = reinterpret_cast<std::uintptr_t>(context);
  ::makecontext(&context->registers, reinterpret_cast<void (*)()>(begin_context), 2,
                static_cast<unsigned>(number >> 32), static_cast<unsigned>(number));
#if defined(__SANITIZE_THREAD__)
  context->sanitizer = __tsan_create_fiber(0);
#endif
}

void end_context([[maybe_unused]] Context* context) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(context->sanitizer);
#endif
}

TUTTI_NOT_WATCHED void switch_context(Context* from, Context* to, [[maybe_unused]] bool ends) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to->sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ends ? nullptr : &from->fake_stack, to->stack, to->stack_size);
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  ::swapcontext(&from->registers, &to->registers);
#else
  // Faster than swapcontext(), which asks the kernel for the mask of signals. The sanitizers do not follow such jumps.
  if (_setjmp(from->jump) != 0) return;
  if (to->has_begun) _longjmp(to->jump, 1);
  to->has_begun = true;
  ::setcontext(&to->registers);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

Stacks::Stacks(std::size_t count) : bytes_(count * kEach) {
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fault("there is no memory for the stacks of a launch");
  begin_ = static_cast<std::byte*>(memory);
}

Stacks::~Stacks() { ::munmap(begin_, bytes_); }

}  // namespace tutti::ptx
