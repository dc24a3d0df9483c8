include(CMakeFindDependencyMacro)
find_dependency(rapt)
include("${CMAKE_CURRENT_LIST_DIR}/user-targets.cmake")
