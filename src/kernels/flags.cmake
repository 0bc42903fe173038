# Per-file flags of the kernels: one source file per instruction set, whatever the build type. No contraction to
# fused multiply-add: results are the same bits on every instruction set.
set(TUTTI_KERNEL_FLAGS -O3 -ffp-contract=off)
if(TUTTI_SANITIZE)  # instrumented loops take minutes at -O3
  set(TUTTI_KERNEL_FLAGS -O1 -ffp-contract=off)
endif()
set(TUTTI_BASELINE_FLAGS ${TUTTI_KERNEL_FLAGS})
set(TUTTI_AVX2_FLAGS ${TUTTI_KERNEL_FLAGS})
set(TUTTI_AVX512_FLAGS ${TUTTI_KERNEL_FLAGS})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TUTTI_AVX2_FLAGS -mavx2 -mf16c)
  list(APPEND TUTTI_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512)
endif()
# The three files are one source compiled for three instruction sets, and the checks of undefined behaviour take half of
# the time that they compile: one of them has these.
if(TUTTI_SANITIZE MATCHES "undefined")
  list(APPEND TUTTI_AVX2_FLAGS -fno-sanitize=undefined)
  list(APPEND TUTTI_AVX512_FLAGS -fno-sanitize=undefined)
endif()
# The thread sanitizer looks for races between ranks, whose messages are the same in all three. The short run's address
# sanitizer looks at the buffers, and leaves the checks of undefined arithmetic to runs of everything.
option(TUTTI_BASELINE_KERNELS
  "For sanitizers: kernels of the baseline instruction set alone, without checks of undefined behaviour" OFF)
if(TUTTI_BASELINE_KERNELS)
  list(APPEND TUTTI_BASELINE_FLAGS -fno-sanitize=undefined)
endif()
if(TUTTI_BASELINE_KERNELS OR TUTTI_SANITIZE MATCHES "thread")
  set_source_files_properties(kernels/isa_avx2.cc kernels/isa_avx512.cc PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(kernels/kernels.cc PROPERTIES COMPILE_DEFINITIONS TUTTI_BASELINE_KERNELS)
endif()
foreach(isa baseline avx2 avx512)
  string(TOUPPER ${isa} ISA)
  set_source_files_properties(kernels/isa_${isa}.cc PROPERTIES
    COMPILE_OPTIONS "${TUTTI_${ISA}_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
endforeach()
