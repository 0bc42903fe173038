# tutti_unity(TARGET MOST): where TUTTI_UNITY is on, the target's files are compiled as few units of at most MOST files
# each, all about as long. What several of them instantiate is compiled once then: units of 12 files took two thirds of
# the time that units of 4 took. What is local to a file therefore has a name that no other file of the target has.
function(tutti_unity target most)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "\\$<")
  list(LENGTH sources count)
  math(EXPR groups "(${count} + ${most} - 1) / ${most}")
  math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TUTTI_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# By default g++ looks for memory that it can reuse when its heap has doubled, from 128 MB on, which takes a tenth of its
# time. Without that each compiler takes up to 1 GB.
if(TUTTI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=1000 --param ggc-min-heapsize=1000000>")
endif()
