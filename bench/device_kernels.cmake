# Micro-benchmark of the CUDA kernels.
if(TUTTI_HAVE_CUDA AND benchmark_FOUND)
  add_executable(device_kernels_bench ${CMAKE_CURRENT_LIST_DIR}/device_kernels_bench.cc)
  target_link_libraries(device_kernels_bench PRIVATE tutti_static tutti_warnings benchmark::benchmark)
  add_dependencies(gpu_checks device_kernels_bench)
endif()
