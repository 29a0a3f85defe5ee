# add_header_check(FOLDERS <folder...> [DEPS <target...>])
#
# Target header_check: compiles every header of the folders alone, which shows that each includes all that it uses. DEPS
# are targets whose include folders the headers need. Not part of the default build.
function(add_header_check)
  cmake_parse_arguments(H "" "" "FOLDERS;DEPS" ${ARGN})
  if(H_UNPARSED_ARGUMENTS OR NOT H_FOLDERS)
    message(FATAL_ERROR "add_header_check needs FOLDERS; not understood: ${H_UNPARSED_ARGUMENTS}")
  endif()
  set(sources)
  foreach(folder IN LISTS H_FOLDERS)
    # A glob, unlike elsewhere: a header that is missed here is a check that is missed, and nothing else depends on it.
    file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "_inl\\.h$")  # the end of another header
    foreach(header IN LISTS headers)
      set(source ${CMAKE_BINARY_DIR}/header_check/${header}.cc)
      # Twice: the second time shows that the header guards itself.
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
      list(APPEND sources ${source})
    endforeach()
  endforeach()
  add_library(header_check OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(header_check PROPERTIES UNITY_BUILD OFF)
  target_include_directories(header_check PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(header_check PRIVATE ${H_DEPS})
endfunction()
