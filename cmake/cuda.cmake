# TUTTI_HAVE_CUDA: whether .cu files are compiled. AUTO takes nvcc where it is found; nothing here needs a GPU.
set(TUTTI_HAVE_CUDA OFF)
if(NOT TUTTI_CUDA STREQUAL "OFF" AND NOT TUTTI_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # One architecture, because compiling the kernels for each takes as long as a quarter of the library. The preset
    # `package` takes all that are supported.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it since 12.0
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # No contraction to fused multiply-add: the same bits as the processor's kernels.
    set(TUTTI_CUDA_FLAGS -fmad=false -Xcompiler=-Wall,-Wextra)
    if(TUTTI_WERROR)
      list(APPEND TUTTI_CUDA_FLAGS --Werror=all-warnings -Xcompiler=-Werror)
    endif()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND TUTTI_CUDA_FLAGS --compress-mode=size)  # a sixth of the size; drivers since CUDA 12.4 unpack it
    endif()
    set(TUTTI_HAVE_CUDA ON)
  elseif(TUTTI_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TUTTI_CUDA=ON but no CUDA compiler was found")
  endif()
endif()
# What tools/gpu-check.sh builds; who has a program for it adds that as a dependency.
add_custom_target(gpu_checks)
message(STATUS "tutti: CUDA code is ${TUTTI_HAVE_CUDA}")
