#include "gpu_options.h"

#include <algorithm>
#include <string>

namespace tutti::perf {

void declare_gpu(CLI::App* app, GpuOptions* gpu) {
  app->add_option(
         "-g,--ngpus", gpu->devices,
         "device buffers on so many GPUs, rank r on device r mod N; ranks are threads, one a device, unless\n"
         "--ranks (processes) or --ranks-per-gpu says otherwise; times are those of CUDA events, with -z 1 of\n"
         "the host's clock around blocking calls (default 0: host buffers)")
      ->check(CLI::Range(0, 1024));
  app->add_option("--ranks-per-gpu", gpu->ranks_each, "with -g: so many ranks, threads, on each device (default 1)")
      ->check(CLI::Range(1, 64));
  app->add_option("-G,--cudagraph", gpu->graph_calls,
                  "with -g: so many operations are captured into a CUDA graph, which is replayed (default 0: none)")
      ->check(CLI::Range(0, 100000));
}

void check_gpu(const CLI::App& app, const Options& options) {
  if (options.gpu.devices == 0) {
    for (const char* const more : {"--ranks-per-gpu", "--cudagraph"})
      if (app.count(more) > 0) throw CLI::ValidationError(more, "belongs to -g");
    return;
  }
  for (const char* const other : {"--sweep", "--overlap", "--compare"})
    if (app.count(other) > 0) throw CLI::ValidationError("-g", std::string("excludes ") + other + " (host buffers)");
  if (options.cpu_time) throw CLI::ValidationError("-g", "excludes -C 1 (times are those of the device)");
  if (options.registered) throw CLI::ValidationError("-g", "excludes -R 1 (buffers are from tuttiMemAllocDevice)");
  if (options.gpu.graph_calls > 0 && options.isolated)
    throw CLI::ValidationError("--cudagraph", "excludes -z 1 (calls are captured on a stream)");
  if (app.count("--ranks-per-gpu") > 0 && options.ranks > 0)
    throw CLI::ValidationError("--ranks-per-gpu", "excludes --ranks, which it gives");
  const auto made_by_user = std::find(options.ops.begin(), options.ops.end(), Operation::kCustom);
  if (options.collective.reduces && made_by_user != options.ops.end())
    throw CLI::ValidationError("-g", "excludes -o custom (its function runs on the host)");
}

}  // namespace tutti::perf
