# Compiler, warnings, linker and output folders, the same for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Line tables are what a backtrace needs; full debug information would cost a third of the build.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

option(PACELINE_WERROR "Turn warnings into errors (presets check and tsan)" OFF)
set(PACELINE_SANITIZER "" CACHE STRING "address (with undefined) or thread; empty for none")

# scripts/build gives one place for results whatever the preset's own folder is called.
set(PACELINE_OUTPUT_DIR ${CMAKE_BINARY_DIR} CACHE PATH "Programs land in bin/ and shared libraries in lib/ below this folder")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PACELINE_OUTPUT_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PACELINE_OUTPUT_DIR}/lib)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these a clone elsewhere, or another build folder, would share nothing: debug information names the folder.
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()
if(PACELINE_WERROR)
  add_compile_options(-Werror)
endif()
# gcc 12 reports false -Wrestrict and -Wmaybe-uninitialized inside libstdc++ at -O2.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
  # In joined sources (see CMakePresets.json) it takes the included source files for headers.
  if(CMAKE_UNITY_BUILD)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endif()

if(PACELINE_SANITIZER STREQUAL "address")
  add_compile_options(-g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(PACELINE_SANITIZER STREQUAL "thread")
  add_compile_options(-g1 -fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(PACELINE_SANITIZER)
  message(FATAL_ERROR "PACELINE_SANITIZER must be empty, address or thread, not '${PACELINE_SANITIZER}'")
endif()
