# cmake -DSOURCE=project -DHOWTO=folder -DKERF_BUILD=build -DWORK=folder -DCOMPILER=c++ -P consume.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${KERF_BUILD} --prefix ${WORK}/prefix)
function(build source folder)
  run(${CMAKE_COMMAND} -S ${source} -B ${folder} -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${folder})
endfunction()

build(${SOURCE} ${WORK}/build)
run(${WORK}/build/consumer)
message(STATUS "${output}")
# What docs/howto/write-a-program.md shows, workers as processes.
build(${HOWTO} ${WORK}/howto)
run(${WORK}/howto/k_means k-means --points 3000 --workers 3)
message(STATUS "${output}")
if(NOT EXISTS ${WORK}/prefix/bin/kerf)
  message(FATAL_ERROR "the kerf command was not installed")
endif()
run(${WORK}/prefix/bin/kerf devices)
