# cmake -DNM=… -DLEVEL=… -DOBJECTS=… -DOUTPUT=… -P check_symbols.cmake
#
# Stops unless every symbol that the objects of a level offer to other code names the level: it is the level's table, or
# it contains one of the level's namespaces. Writes the symbols to OUTPUT.
execute_process(COMMAND "${NM}" -P -g ${OBJECTS} OUTPUT_VARIABLE lines ERROR_VARIABLE complaint RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${NM}: ${complaint}")
endif()

# A namespace as Itanium's and Microsoft's ABI write it in a symbol.
set(own "^_?rapt_table_${LEVEL}$")
foreach(namespace IN ITEMS rapt_${LEVEL} xsimd_${LEVEL})
  string(LENGTH "${namespace}" length)
  string(APPEND own "|[^0-9]${length}${namespace}|@${namespace}@")
endforeach()
# Data that its name determines: constants, and addresses of functions of other objects.
set(data "^__(real|[xyz]mm)@[0-9a-f]+$|^\\.refptr\\.")

string(REGEX MATCHALL "[^\n]+" lines "${lines}")
set(symbols)
set(foreign)
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([^ ]+) ([A-Za-z])( |$)")
    continue()  # the name of an object
  endif()
  set(symbol "${CMAKE_MATCH_1}")
  if(CMAKE_MATCH_2 STREQUAL "U")
    continue()
  endif()
  list(APPEND symbols "${symbol}")
  if(NOT symbol MATCHES "${own}|${data}")
    list(APPEND foreign "${symbol}")
  endif()
endforeach()
if(foreign OR NOT symbols)
  list(JOIN foreign "\n  " foreign)
  message(FATAL_ERROR "rapt: level ${LEVEL} offers code under names that are not its own:\n  ${foreign}")
endif()
list(SORT symbols)
list(JOIN symbols "\n" symbols)
file(WRITE "${OUTPUT}" "${symbols}\n")
