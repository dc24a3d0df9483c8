// The compiler includes this before each file of the library. It takes back the checks of the C++ library that packages
// of Fedora and Arch turn on for all that they compile: such a check calls the C++ library, which a C program does not
// link.
#undef _GLIBCXX_ASSERTIONS
#undef _GLIBCXX_DEBUG
#undef _GLIBCXX_DEBUG_PEDANTIC
#undef _GLIBCXX_PARALLEL
#undef _GLIBCXX_NO_ASSERTIONS
#define _GLIBCXX_NO_ASSERTIONS 1  // gcc 15 checks at -O0 without it

#undef _LIBCPP_DEBUG
#undef _LIBCPP_ENABLE_ASSERTIONS
#undef _LIBCPP_ENABLE_DEBUG_MODE
#undef _LIBCPP_ENABLE_HARDENED_MODE
#undef _LIBCPP_ENABLE_SAFE_MODE
#undef _LIBCPP_HARDENING_MODE
#define _LIBCPP_HARDENING_MODE _LIBCPP_HARDENING_MODE_NONE
