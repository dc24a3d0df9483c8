// What the host's ggml knows of a type: the functions of the libggml-base that RAPT_GGML_BASE names.
#pragma once

#include <dlfcn.h>
#include <ggml.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace rapt::test {

// Without a host it prints what is skipped.
inline bool has_host_types(const char *what) {
  if (std::getenv("RAPT_GGML_BASE")) return true;
  std::printf("skipped: %s: RAPT_GGML_BASE is not set\n", what);
  return false;
}

inline const ggml_type_traits &host_type(ggml_type type) {
  static const auto get = [] {
    void *library = dlopen(std::getenv("RAPT_GGML_BASE"), RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "ggml_get_type_traits") : nullptr;
    if (!symbol) throw std::runtime_error(std::string("RAPT_GGML_BASE: ") + dlerror());
    return reinterpret_cast<const ggml_type_traits *(*)(ggml_type)>(symbol);
  }();
  return *get(type);
}

}  // namespace rapt::test
