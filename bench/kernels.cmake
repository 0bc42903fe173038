# Micro-benchmarks of the CPU kernels.
find_package(benchmark)
if(benchmark_FOUND)
  add_executable(kernels_bench ${CMAKE_CURRENT_LIST_DIR}/kernels_bench.cc)
  target_link_libraries(kernels_bench PRIVATE tutti_static tutti_warnings benchmark::benchmark)
else()
  message(STATUS "tutti: without Google Benchmark there is no kernels_bench")
endif()

add_executable(slot_copy_bench ${CMAKE_CURRENT_LIST_DIR}/slot_copy_bench.cc)
target_link_libraries(slot_copy_bench PRIVATE tutti_static tutti_warnings)

# The contest with Google Highway is evidence for a decision; the library does not use Highway.
find_path(TUTTI_HIGHWAY_INCLUDE hwy/highway.h)
find_library(TUTTI_HIGHWAY_LIBRARY hwy)
if(benchmark_FOUND AND TUTTI_HIGHWAY_INCLUDE AND TUTTI_HIGHWAY_LIBRARY)
  add_executable(kernels_highway_bench ${CMAKE_CURRENT_LIST_DIR}/kernels_highway_bench.cc)
  # Highway selects targets by function attributes; its lambdas and ours need the same.
  target_compile_options(kernels_highway_bench PRIVATE -O3 -ffp-contract=off)
  target_include_directories(kernels_highway_bench PRIVATE ${CMAKE_CURRENT_LIST_DIR})  # Highway includes the file again
  target_include_directories(kernels_highway_bench SYSTEM PRIVATE ${TUTTI_HIGHWAY_INCLUDE})
  target_link_libraries(kernels_highway_bench PRIVATE tutti_static benchmark::benchmark ${TUTTI_HIGHWAY_LIBRARY})
endif()
