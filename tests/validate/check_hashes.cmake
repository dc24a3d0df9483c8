# Fails unless hashes.def is exactly what the scalar level prints: cmake -DFILE=… "-DCOMMAND=…;…" -P check_hashes.cmake
execute_process(COMMAND ${COMMAND} --print-hashes OUTPUT_VARIABLE made RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "rapt-validate --print-hashes: ${status}")
endif()
file(READ "${FILE}" published)
if(NOT made STREQUAL published)
  message(FATAL_ERROR "${FILE} should read:\n${made}")
endif()
