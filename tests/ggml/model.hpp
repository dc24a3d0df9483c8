// Small models as GGUF files, made from a seed by integers alone: every machine writes the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rapt_ggml_tests {

std::vector<std::string> architectures();  // names of models, such as "llama" and "llama-tied"
std::vector<std::string> weight_types();   // "F32", "Q8_0", ...

bool is_encoder(std::string_view model);    // it gives embeddings, and has no cache
bool is_recurrent(std::string_view model);  // it has states, which llama.cpp does not roll back
int vocabulary_of(std::string_view model);

// What a file has that no reader should accept.
struct Damage {
  std::size_t keep_bytes = 0;  // the rest is cut off; 0: nothing
  std::string wrong_shape;     // this tensor has a row more than its architecture says
  std::string poisoned;        // this tensor's scales are NaN
};

// Dimensions of a decoder. The standard ones are those of the small models.
struct Shape {
  std::uint64_t width = 256, heads = 4, key_heads = 2, head = 64, middle = 512, vocabulary = 512;
  int layers = 0;  // 0: the model's own number
  // Types as llama.cpp's own quantizer mixes them: the output of Q4_0, Q4_1 and Q4_K in Q6_K, and of Q4_K half of the
  // values' and last feed-forward weights too.
  bool mixed = false;
};

// Rows that are no multiple of 256 have Q5_0 for types with such blocks, and Q8_0 for Q6_K.
//
// Throws std::invalid_argument for names that are not in the lists, std::runtime_error if the file cannot be written.
void write_model(const std::string &path, std::string_view model, std::string_view weights,
                 const Damage &damage = {}, const Shape &shape = {});

}  // namespace rapt_ggml_tests
