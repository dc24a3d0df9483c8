// What llama.cpp finds in the plugin: one device of type GPU.
//
// Type ACCEL would leave every norm, the K cache and flash attention to the CPU backend: llama.cpp pins them to the
// device of the layer. A GPU's layers are its own, and all tensors of the host's memory can be read in place.
#include <rapt/rapt.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "ggml/backend.hpp"
#include "ggml/buffer.hpp"
#include "ggml/device.hpp"
#include "ggml/host.hpp"
#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

const char *device_name(ggml_backend_dev_t) { return "RAPT"; }

const char *device_description(ggml_backend_dev_t) {
  static const std::string text = std::string("rapt ") + rapt_version() + " (" + rapt_active_isa() + ")";
  return text.c_str();
}

void device_memory(ggml_backend_dev_t, std::size_t *free, std::size_t *total) {
  const Memory memory = system_memory();
  *free = memory.available, *total = memory.total;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }

void device_properties(ggml_backend_dev_t dev, ggml_backend_dev_props *properties) {
  *properties = {};
  properties->name = device_name(dev);
  properties->description = device_description(dev);
  properties->type = device_type(dev);
  properties->caps.mmap_support = true;  // else the loader copies what stays on the CPU, such as an embedding
  device_memory(dev, &properties->memory_free, &properties->memory_total);
}

ggml_backend_t device_backend(ggml_backend_dev_t dev, const char *) { return new_backend(dev); }
ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) { return plain_buffer_type(); }

// The loader asks about made-up ops, whose weight lies in an empty buffer or whose sources have none.
bool is_question(Tensor op) {
  for (const ggml_tensor *source : op->src) {
    if (source && source->buffer && source->buffer->size == 0) return true;
  }
  return false;
}

bool device_supports_op(ggml_backend_dev_t, Tensor op) {
  if (supports(op)) return true;
  if (!is_question(op)) {
    not_our_bits(text_of(op) +
                 " is left to another backend: rapt does not have this op with these types and parameters");
  }
  return false;
}

bool device_supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  if (type == plain_buffer_type() || type == packed_buffer_type()) return true;
  return host().is_host(type);
}

const char *registry_name(ggml_backend_reg_t) { return "RAPT"; }
std::size_t registry_length(ggml_backend_reg_t) { return 1; }
ggml_backend_dev_t registry_device(ggml_backend_reg_t, std::size_t) { return device(); }

ggml_backend_buffer_type_t *extra_buffer_types(ggml_backend_dev_t) {
  static ggml_backend_buffer_type_t types[] = {packed_buffer_type(), nullptr};
  return types;
}

void *registry_function(ggml_backend_reg_t, const char *name) {
  if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) return reinterpret_cast<void *>(set_n_threads);
  if (std::strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0)
    return reinterpret_cast<void *>(extra_buffer_types);
  return nullptr;
}

}  // namespace

ggml_backend_reg_t registry() {
  static ggml_backend_reg made = [] {
    ggml_backend_reg reg = {};
    reg.api_version = host().api_version;
    reg.iface.get_name = registry_name;
    reg.iface.get_device_count = registry_length;
    reg.iface.get_device = registry_device;
    reg.iface.get_proc_address = registry_function;
    return reg;
  }();
  return &made;
}

ggml_backend_dev_t device() {
  static ggml_backend_device made = [] {
    ggml_backend_device dev = {};
    dev.iface.get_name = device_name;
    dev.iface.get_description = device_description;
    dev.iface.get_memory = device_memory;
    dev.iface.get_type = device_type;
    dev.iface.get_props = device_properties;
    dev.iface.init_backend = device_backend;
    dev.iface.get_buffer_type = device_buffer_type;
    dev.iface.supports_op = device_supports_op;
    dev.iface.supports_buft = device_supports_buffer_type;
    dev.reg = registry();
    return dev;
  }();
  return &made;
}

}  // namespace rapt_ggml

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  using namespace rapt_ggml;
  if (const char *const sentence = find_host(__builtin_return_address(0))) {
    say(GGML_LOG_LEVEL_ERROR, std::string("not loaded: ") + sentence);
    return nullptr;
  }
  if (const rapt_status status = rapt_isa_status(); status != RAPT_OK) {
    say(GGML_LOG_LEVEL_ERROR, std::string("not loaded: RAPT_ISA: ") + rapt_status_text(status));
    return nullptr;
  }
  return registry();
}
