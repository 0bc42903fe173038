add_executable(footprint_bench footprint_bench.cc)
target_link_libraries(footprint_bench PRIVATE tutti::tutti tutti_warnings)
