# rapt_include_alone(target scope folder library): lets `target` include <library/…> of `folder`.
#
# -isystem /usr/include breaks #include_next of the C++ library, and gives a cross compiler the headers of another system. A
# folder with a link to only the library's headers replaces it.
function(rapt_include_alone target scope folder library)
  if(folder STREQUAL "/usr/include")
    set(folder "${PROJECT_BINARY_DIR}/include")
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK "/usr/include/${library}" "${folder}/${library}" SYMBOLIC)
  endif()
  target_include_directories(${target} SYSTEM ${scope} "${folder}")
endfunction()

# rapt_include_quoted(target scope folder...): lets `target` include "…" of folders that also hold programs. <…> is not
# searched there: a program with the name of a standard header would be that header.
function(rapt_include_quoted target scope)
  foreach(folder IN LISTS ARGN)
    target_compile_options(${target} ${scope} "SHELL:-iquote \"${folder}\"")
  endforeach()
endfunction()
