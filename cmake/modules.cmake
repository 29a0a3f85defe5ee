# Lets clang-tidy see each source of the target as it is compiled (.clang-tidy; preset "check"). Generated sources, whose
# targets are made without the functions below, are left out.
option(PACELINE_CLANG_TIDY "Run clang-tidy on what is compiled" OFF)
if(PACELINE_CLANG_TIDY)
  find_program(CLANG_TIDY_PROGRAM clang-tidy-14 REQUIRED)
endif()
function(lint_target target)
  if(PACELINE_CLANG_TIDY)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "${CLANG_TIDY_PROGRAM};--quiet")
  endif()
endfunction()

# add_module(NAME <name> SOURCES <file...> [DEPS <target...>] [PRIVATE_DEPS <target...>])
#
# One static library per module, target paceline_<name>. DEPS name other modules (or libraries that our public headers
# need); PRIVATE_DEPS are the third-party libraries that the module hides. scripts/layers.txt says which edges may exist.
function(add_module)
  cmake_parse_arguments(M "" "NAME" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(M_UNPARSED_ARGUMENTS OR NOT M_NAME OR NOT M_SOURCES)
    message(FATAL_ERROR "add_module needs NAME and SOURCES; not understood: ${M_UNPARSED_ARGUMENTS}")
  endif()
  add_library(paceline_${M_NAME} STATIC ${M_SOURCES})
  target_include_directories(paceline_${M_NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(paceline_${M_NAME} PUBLIC ${M_DEPS} PRIVATE ${M_PRIVATE_DEPS})
  lint_target(paceline_${M_NAME})
endfunction()

# add_program(NAME <program> SOURCES <file...> [DEPS <target...>]): an executable that lands in bin/. Those that users run
# (all but the benches) are made by the target `programs`.
add_custom_target(programs)
function(add_program)
  cmake_parse_arguments(P "" "NAME" "SOURCES;DEPS" ${ARGN})
  if(P_UNPARSED_ARGUMENTS OR NOT P_NAME OR NOT P_SOURCES)
    message(FATAL_ERROR "add_program needs NAME and SOURCES; not understood: ${P_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${P_NAME} ${P_SOURCES})
  target_include_directories(${P_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${P_NAME} PRIVATE ${P_DEPS})
  lint_target(${P_NAME})
  if(NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/bench/")
    add_dependencies(programs ${P_NAME})
  endif()
endfunction()

# add_module_test(NAME <name> SOURCES <file_test.cc...> [DEPS <target...>] [LABEL <label>]
#                 [READS_TREE <file_test.cc...>])
#
# One GoogleTest program per module, in the build folder's tests/<label>/, where scripts/run_tests.py finds it; ctest knows
# each TEST by its own name. Label: unit (default), contract or integration. Integration tests need the test bed; only
# unit and contract run under sanitizers.
include(GoogleTest)
function(add_module_test)
  cmake_parse_arguments(T "" "NAME;LABEL" "SOURCES;DEPS;READS_TREE" ${ARGN})
  if(T_UNPARSED_ARGUMENTS OR NOT T_NAME OR NOT T_SOURCES)
    message(FATAL_ERROR "add_module_test needs NAME and SOURCES; not understood: ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT T_LABEL)
    set(T_LABEL unit)
  endif()
  add_executable(${T_NAME}_test ${T_SOURCES})
  set_target_properties(${T_NAME}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${T_LABEL})
  target_include_directories(${T_NAME}_test PRIVATE ${PROJECT_SOURCE_DIR})
  # Only the sources that say they read files of the tree: an absolute path in a command line makes a compiler cache useless
  # to another clone.
  set_property(SOURCE ${T_READS_TREE} APPEND PROPERTY COMPILE_DEFINITIONS PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Tests check what the code does, not how fast: optimising them would be a quarter of the release build.
  target_compile_options(${T_NAME}_test PRIVATE -O0)
  target_link_libraries(${T_NAME}_test PRIVATE ${T_DEPS} GTest::gmock GTest::gtest_main)
  lint_target(${T_NAME}_test)
  gtest_discover_tests(${T_NAME}_test TEST_PREFIX ${T_NAME}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT 300)
endfunction()

# add_proto_module(NAME <name> PROTOS <name...> [GRPC] DEPS <target...>)
#
# C++ from the .proto files of this folder, one static library paceline_<name>; include them as
# "folder/of/this/file.pb.h". With GRPC, the service stubs too. DEPS name the protobuf or gRPC library.
function(add_proto_module)
  cmake_parse_arguments(P "GRPC" "NAME" "PROTOS;DEPS" ${ARGN})
  if(P_UNPARSED_ARGUMENTS OR NOT P_NAME OR NOT P_PROTOS)
    message(FATAL_ERROR "add_proto_module needs NAME and PROTOS; not understood: ${P_UNPARSED_ARGUMENTS}")
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(generated_dir ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(generated)
  foreach(proto ${P_PROTOS})
    set(outputs ${generated_dir}/${folder}/${proto}.pb.cc ${generated_dir}/${folder}/${proto}.pb.h)
    set(flags --cpp_out=${generated_dir})
    if(P_GRPC)
      list(APPEND outputs ${generated_dir}/${folder}/${proto}.grpc.pb.cc ${generated_dir}/${folder}/${proto}.grpc.pb.h)
      list(APPEND flags --grpc_out=${generated_dir} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${generated_dir}
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} ${flags} ${CMAKE_CURRENT_SOURCE_DIR}/${proto}.proto
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${proto}.proto
      COMMENT "Generating ${folder}/${proto}"
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  add_library(paceline_${P_NAME} STATIC ${generated})
  set_target_properties(paceline_${P_NAME} PROPERTIES UNITY_BUILD OFF)  # generated sources repeat their static names
  # SYSTEM: warnings inside generated code are nobody's to fix.
  target_include_directories(paceline_${P_NAME} SYSTEM PUBLIC ${generated_dir})
  target_compile_options(paceline_${P_NAME} PRIVATE -w)
  target_link_libraries(paceline_${P_NAME} PUBLIC ${P_DEPS})
endfunction()
