// The functions of ggml that the plugin calls. They are found in the process that loads it, so that one file works in
// every host: libggml-base's file name differs between builds, and some hosts contain ggml in a program or an
// extension.
#pragma once

#include <ggml-backend-impl.h>
#include <ggml-backend.h>
#include <ggml.h>

namespace rapt_ggml {

// A host must have all of them but `log`, whose place stderr takes.
struct Host {
  decltype(&::ggml_version) version = nullptr;
  decltype(&::ggml_get_type_traits) type_traits = nullptr;
  decltype(&::ggml_op_desc) op_text = nullptr;
  decltype(&::ggml_graph_n_nodes) graph_length = nullptr;
  decltype(&::ggml_graph_node) graph_node = nullptr;
  decltype(&::ggml_backend_buffer_init) buffer_init = nullptr;
  decltype(&::ggml_backend_buft_is_host) is_host = nullptr;
  void (*log)(enum ggml_log_level, const char *, ...) = nullptr;
  int api_version = 0;  // its GGML_BACKEND_API_VERSION, which need not be that of our headers
};

// The functions that find_host() has found.
const Host &host();

// Whether the host turns rows of a type into f32, which it does for all quantized weights.
inline bool host_decodes(ggml_type type) {
  const ggml_type_traits *const traits = type < GGML_TYPE_COUNT ? host().type_traits(type) : nullptr;
  return traits && traits->is_quantized && traits->to_float;
}

// Looks for ggml in the object that contains `caller`, in what this object links, and in all other objects. Returns
// null, or a sentence that says why the plugin cannot run here.
const char *find_host(const void *caller);

}  // namespace rapt_ggml
