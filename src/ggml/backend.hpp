// A backend of the device: computes graphs.
#pragma once

#include <ggml-backend-impl.h>

namespace rapt_ggml {

ggml_backend_t new_backend(ggml_backend_dev_t device);
void set_n_threads(ggml_backend_t backend, int threads);

}  // namespace rapt_ggml
