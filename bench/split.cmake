add_executable(split_bench split_bench.cc)
target_link_libraries(split_bench PRIVATE tutti::tutti tutti_warnings)
