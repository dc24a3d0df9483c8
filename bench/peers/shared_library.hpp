// Libraries that are opened at run time.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace rapt::bench {

// Never closed, since peers live as long as the program.
class SharedLibrary {
 public:
  // Its symbols serve nobody who does not ask for them here.
  static SharedLibrary open(const char *path) { return SharedLibrary(dlopen(path, RTLD_NOW | RTLD_LOCAL)); }

  // One more copy, with variables of its own. The loader maps a path only once in a namespace, so the copy
  // gets a new one, C library included.
  static SharedLibrary open_copy(const char *path) {
    return SharedLibrary(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL));
  }

  // Null where the library did not load or has no such function.
  template <class Function>
  Function *function(const std::string &name) const {
    return handle_ ? reinterpret_cast<Function *>(dlsym(handle_, name.c_str())) : nullptr;
  }

 private:
  explicit SharedLibrary(void *handle) : handle_(handle) {}

  void *handle_;
};

// An environment variable that is set while this lives.
class ScopedVariable {
 public:
  ScopedVariable(const char *name, const std::string &value) : name_(name) {
    if (const char *before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable &) = delete;
  ScopedVariable &operator=(const ScopedVariable &) = delete;

 private:
  const char *name_;
  std::optional<std::string> before_;
};

}  // namespace rapt::bench
