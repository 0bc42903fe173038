# Measures how long the choice of an algorithm takes.
find_package(benchmark)
if(benchmark_FOUND)
  add_executable(choice_bench ${CMAKE_CURRENT_LIST_DIR}/choice_bench.cc)
  target_link_libraries(choice_bench PRIVATE tutti_static tutti_warnings benchmark::benchmark)
endif()
