add_executable(pause_bench pause_bench.cc)
target_link_libraries(pause_bench PRIVATE tutti::tutti tutti_warnings)
