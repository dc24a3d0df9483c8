// Opens libraries at run time.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace rapt::bench {

// Never closes the library, because peers live as long as the program.
class SharedLibrary {
 public:
  // Opens the library without making its symbols visible to other libraries.
  static SharedLibrary open(const char *path) { return SharedLibrary(dlopen(path, RTLD_NOW | RTLD_LOCAL)); }

  // Opens a second copy of the library with separate global variables. The loader loads a path only once per
  // namespace, so the copy gets a new namespace with another C library.
  static SharedLibrary open_copy(const char *path) {
    return SharedLibrary(dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL));
  }

  // Returns null if the library did not load or has no such function.
  template <class Function>
  Function *function(const std::string &name) const {
    return handle_ ? reinterpret_cast<Function *>(dlsym(handle_, name.c_str())) : nullptr;
  }

 private:
  explicit SharedLibrary(void *handle) : handle_(handle) {}

  void *handle_;
};

// Sets an environment variable while the object exists.
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
