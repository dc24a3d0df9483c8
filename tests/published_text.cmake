# Fails unless the file is exactly what the command prints: cmake -DFILE=… "-DCOMMAND=…;…" -P published_text.cmake
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE made RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${COMMAND}: ${status}")
endif()
file(READ "${FILE}" published)
if(NOT made STREQUAL published)
  message(FATAL_ERROR "${FILE} should read:\n${made}")
endif()
