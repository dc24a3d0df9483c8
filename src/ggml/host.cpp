#include "ggml/host.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

namespace rapt_ggml {

namespace {

Host found;

// The releases of ggml, 0.first to 0.last, whose headers were compared: all that we use is equal, but for a buffer type
// (buffer_type.hpp). GGML_BACKEND_API_VERSION alone does not say so.
struct Releases {
  int first, last, api_version;
};
constexpr Releases compared[] = {{23, 25, 2}, {26, 26, 3}};
constexpr int oldest_minor = std::begin(compared)->first, newest_minor = std::rbegin(compared)->last;

bool has_ggml(void *handle) { return handle && dlsym(handle, "ggml_backend_buffer_init"); }

// dlsym() looks in the object and in what it links: a libggml.so leads to its libggml-base.so.
void *open_object(const char *name) {
  void *const handle = dlopen(name && *name ? name : nullptr, RTLD_NOW | RTLD_NOLOAD);
  if (has_ggml(handle)) return handle;
  if (handle) dlclose(handle);
  return nullptr;
}

void *open_ggml(const void *caller) {
  Dl_info info;
  if (dladdr(caller, &info)) {
    if (void *const handle = open_object(info.dli_fname)) return handle;
  }
  void *handle = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info *object, std::size_t, void *out) {
        void *const opened = open_object(object->dlpi_name);
        *static_cast<void **>(out) = opened;
        return opened ? 1 : 0;
      },
      &handle);
  return handle;
}

template <class Function>
bool find(void *handle, const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(dlsym(handle, name));
  return function != nullptr;
}

// The GGML_BACKEND_API_VERSION of a version of ggml; 0 if the plugin does not know this version.
int api_version_of(const char *text) {
  int major = 0, minor = 0;
  if (std::sscanf(text, "%d.%d", &major, &minor) != 2) return 0;
  for (const Releases &r : compared) {
    if (major == 0 && minor >= r.first && minor <= r.last) return r.api_version;
  }
#ifdef RAPT_GGML_VERSION  // of the tree that this file was compiled with
  if (std::string_view(text) == RAPT_GGML_VERSION) return GGML_BACKEND_API_VERSION;
#endif
  return 0;
}

}  // namespace

const Host &host() { return found; }

const char *find_host(const void *caller) {
  static std::string sentence;
  void *const handle = open_ggml(caller);
  if (!handle) return "no object of this process exports ggml's functions";
  if (!find(handle, "ggml_version", found.version)) return "this ggml has no ggml_version(): it is too old";
  find(handle, "ggml_log_internal", found.log);
  found.api_version = api_version_of(found.version());
  if (found.api_version == 0) {
    sentence = std::string("this is ggml ") + found.version() + ", and the plugin knows 0." +
               std::to_string(oldest_minor) + " to 0." + std::to_string(newest_minor);
    return sentence.c_str();
  }
  const char *missing = nullptr;
  const auto need = [&](const char *name, auto &function) {
    if (!find(handle, name, function)) missing = name;
  };
  need("ggml_get_type_traits", found.type_traits);
  need("ggml_op_desc", found.op_text);
  need("ggml_graph_n_nodes", found.graph_length);
  need("ggml_graph_node", found.graph_node);
  need("ggml_backend_buffer_init", found.buffer_init);
  need("ggml_backend_buft_is_host", found.is_host);
  if (!missing) return nullptr;
  sentence = std::string("this ggml has no ") + missing + "()";
  return sentence.c_str();
}

}  // namespace rapt_ggml
