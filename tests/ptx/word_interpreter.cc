#include "ptx/word_interpreter.h"

#include "ptx/grid.h"

namespace tutti::ptx {

extern const Module word_interpreter;

const Kernel& word_interpreter_kernel() { return word_interpreter.kernels[0]; }

void run_words(const DeviceCall& call, const test::HostRun&) { run(word_interpreter_kernel(), &call, call.grid()); }

}  // namespace tutti::ptx
