// A type of buffers, as the host's ggml lays it out: the only struct of ours whose members differ between the releases
// that one plugin serves.
#pragma once

#include <ggml-backend-impl.h>

#include <cstddef>

#include "ggml/device.hpp"
#include "ggml/host.hpp"

namespace rapt_ggml {

using NameOf = const char *(*)(ggml_backend_buffer_type_t);
using Allocate = ggml_backend_buffer_t (*)(ggml_backend_buffer_type_t, std::size_t);
using AlignmentOf = std::size_t (*)(ggml_backend_buffer_type_t);
using BytesOf = std::size_t (*)(ggml_backend_buffer_type_t, const ggml_tensor *);
using Unset = void (*)();  // a function that a backend may leave out

// GGML_BACKEND_API_VERSION 2.
struct BufferType2 {
  struct {
    NameOf get_name;
    Allocate alloc_buffer;
    AlignmentOf get_alignment;
    Unset get_max_size;
    BytesOf get_alloc_size;
    Unset is_host;
  } iface;
  ggml_backend_dev_t device;
  void *context;
};

// GGML_BACKEND_API_VERSION 3.
struct BufferType3 {
  struct {
    NameOf get_name;
    Allocate alloc_buffer;
    Unset alloc_buffer_n;
    AlignmentOf get_alignment;
    Unset get_max_size;
    BytesOf get_alloc_size;
    Unset get_alloc_size_n;
    Unset is_host;
  } iface;
  ggml_backend_dev_t device;
  void *context;
};

// Whether the headers that we are compiled with agree.
template <class Type, class Known>
constexpr bool equal_layouts() {
  return sizeof(Type) == sizeof(Known) && offsetof(Type, device) == offsetof(Known, device) &&
         offsetof(Type, iface.alloc_buffer) == offsetof(Known, iface.alloc_buffer) &&
         offsetof(Type, iface.get_alignment) == offsetof(Known, iface.get_alignment) &&
         offsetof(Type, iface.get_alloc_size) == offsetof(Known, iface.get_alloc_size) &&
         offsetof(Type, iface.is_host) == offsetof(Known, iface.is_host);
}
static_assert(GGML_BACKEND_API_VERSION != 2 || equal_layouts<ggml_backend_buffer_type, BufferType2>());
static_assert(GGML_BACKEND_API_VERSION != 3 || equal_layouts<ggml_backend_buffer_type, BufferType3>());

class BufferType {
 public:
  BufferType(NameOf name, Allocate allocate, AlignmentOf alignment, BytesOf bytes) {
    const auto fill = [&](auto &type) {
      type.iface.get_name = name;
      type.iface.alloc_buffer = allocate;
      type.iface.get_alignment = alignment;
      type.iface.get_alloc_size = bytes;
      type.device = rapt_ggml::device();
    };
    fill(two_), fill(three_), fill(own_);
  }

  ggml_backend_buffer_type_t of_host() {
    switch (host().api_version) {
      case 2:
        return reinterpret_cast<ggml_backend_buffer_type_t>(&two_);
      case 3:
        return reinterpret_cast<ggml_backend_buffer_type_t>(&three_);
      default:
        return &own_;  // a version of which only these headers are known
    }
  }

 private:
  BufferType2 two_ = {};
  BufferType3 three_ = {};
  ggml_backend_buffer_type own_ = {};
};

}  // namespace rapt_ggml
