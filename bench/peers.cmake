# The contestants of tutti-perf --compare: a program for each library that is installed. tutti-perf looks for them in
# bench/ beside its own folder.
set(TUTTI_PEERS "${PROJECT_SOURCE_DIR}/.cache/peers" CACHE PATH "Where tools/setup.sh --peers unpacked UCC")

add_library(contestant STATIC peers/contestant.cc peers/stage.cc race/contested.cc race/core_use.cc)
target_include_directories(contestant PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(contestant PRIVATE tutti_warnings)

add_library(socket_ring STATIC peers/socket_ring.cc)
target_link_libraries(socket_ring PRIVATE contestant tutti_warnings)

# tutti_contestant(NAME SOURCE INCLUDE LIBRARIES): contestant_NAME.
function(tutti_contestant name source include)
  add_executable(contestant_${name} peers/${source})
  target_include_directories(contestant_${name} SYSTEM PRIVATE ${include})
  target_link_libraries(contestant_${name} PRIVATE contestant ${ARGN} tutti_warnings)
  if(TARGET tested)
    add_dependencies(tested contestant_${name})
  endif()
endfunction()

tutti_contestant(floor floor_player.cc "")
tutti_contestant(handover handover_player.cc "")
tutti_contestant(sockets sockets_player.cc "" socket_ring)
tutti_contestant(sockets_all_reduce sockets_all_reduce_player.cc "" socket_ring)
tutti_contestant(tutti tutti_player.cc "" tutti::tutti)

include(CheckSymbolExists)
if(MPI_C_FOUND)
  set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS})
  check_symbol_exists(OPEN_MPI mpi.h TUTTI_MPI_IS_OPEN_MPI)
  unset(CMAKE_REQUIRED_INCLUDES)
endif()
if(TUTTI_MPI_IS_OPEN_MPI)
  tutti_contestant(openmpi mpi_player.cc "" MPI::MPI_C)
endif()

# MPICH beside Open MPI, by its own folder of headers.
find_path(MPICH_INCLUDE mpi.h PATH_SUFFIXES mpich NO_CMAKE_ENVIRONMENT_PATH)
find_library(MPICH_LIBRARY mpich)
if(MPICH_INCLUDE MATCHES "mpich" AND MPICH_LIBRARY)
  tutti_contestant(mpich mpi_player.cc ${MPICH_INCLUDE} ${MPICH_LIBRARY})
else()
  message(STATUS "tutti: without MPICH (mpich, libmpich-dev) tutti-perf --compare does not know it")
endif()

if(GLOO_INCLUDE AND GLOO_LIBRARY)
  tutti_contestant(gloo gloo_player.cc ${GLOO_INCLUDE} ${GLOO_LIBRARY})
endif()

# UCC: the system's, or what tools/setup.sh --peers took from a newer Debian, with the C library that it needs.
find_path(UCC_INCLUDE ucc/api/ucc.h HINTS ${TUTTI_PEERS}/usr/include)
find_library(UCC_LIBRARY ucc HINTS ${TUTTI_PEERS}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
if(UCC_INCLUDE AND UCC_LIBRARY AND NOT TUTTI_SANITIZE)
  tutti_contestant(ucc ucc_player.cc ${UCC_INCLUDE} ${UCC_LIBRARY})
  string(FIND "${UCC_LIBRARY}" "${TUTTI_PEERS}/" place)
  if(place EQUAL 0)
    get_filename_component(folder ${UCC_LIBRARY} DIRECTORY)
    file(GLOB loader ${folder}/ld-linux-*.so.*)
    target_link_options(contestant_ucc PRIVATE -Wl,--dynamic-linker=${loader} -Wl,--disable-new-dtags
                        -Wl,-rpath,${folder} -Wl,--allow-shlib-undefined)
  endif()
else()
  message(STATUS "tutti: without UCC (tools/setup.sh --peers) tutti-perf --compare does not know it")
endif()
