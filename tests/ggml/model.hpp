// Small models as GGUF files, made from a seed by integers alone: every machine writes the same bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rapt_ggml_tests {

std::vector<std::string> architectures();  // names of models, such as "llama" and "llama-tied"
std::vector<std::string> weight_types();   // "F32", "Q8_0", ...

bool is_encoder(std::string_view model);  // it gives embeddings, and has no cache
int vocabulary_of(std::string_view model);

// What a file has that no reader should accept.
struct Damage {
  std::size_t keep_bytes = 0;  // the rest is cut off; 0: nothing
  std::string wrong_shape;     // this tensor has a row more than its architecture says
  std::string poisoned;        // this tensor's scales are NaN
};

// Throws std::invalid_argument for names that are not in the lists, std::runtime_error if the file cannot be written.
void write_model(const std::string &path, std::string_view model, std::string_view weights,
                 const Damage &damage = {});

}  // namespace rapt_ggml_tests
