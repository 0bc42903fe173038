# tutti_precompile(TARGET HEADERS...): headers of the system that most files of the target include, with HEADERS beside
# them, are parsed once. Parsing them takes two thirds of the time that a file without this takes to compile.
# The preset clang, and with it tools/test.sh all, compiles each file alone: every file has the includes that it needs.
set(TUTTI_PRECOMPILED algorithm array atomic chrono condition_variable cstddef cstdint cstring functional map memory mutex
  span string string_view thread utility vector fmt/format.h)
function(tutti_precompile target)
  set(headers ${TUTTI_PRECOMPILED} ${ARGN})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()
