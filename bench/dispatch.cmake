# Measures the cost of running a schedule.
find_package(benchmark)
if(benchmark_FOUND)
  add_executable(dispatch_bench ${CMAKE_CURRENT_LIST_DIR}/dispatch_bench.cc)
  target_link_libraries(dispatch_bench PRIVATE tutti_static tutti_warnings benchmark::benchmark)
endif()
