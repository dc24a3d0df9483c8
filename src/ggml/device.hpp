// The device that llama.cpp sees.
#pragma once

#include <ggml-backend-impl.h>

namespace rapt_ggml {

ggml_backend_dev_t device();
ggml_backend_reg_t registry();

}  // namespace rapt_ggml
