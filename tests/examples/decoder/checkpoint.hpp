// Where weights come from: safetensors, llama2.c's .bin, or another class that makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config.hpp"

namespace decoder {

// Elements of f32, f16 or bf16, row by row.
struct Tensor {
  rapt_type type = RAPT_F32;
  std::vector<std::byte> bytes;
};

inline std::size_t bytes_of(rapt_type type) { return type == RAPT_F32 ? 4 : type == RAPT_I8 ? 1 : 2; }

// Widens elements of a tensor, which is exact.
void widen(rapt_type type, const std::byte *from, float *to, std::size_t count);

// A file may have more than the model reads. Each tensor is read, or is the same as what is read, or is refused.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  const Config &config() const { return config_; }

  // Reads [rows][cols]; 0 rows: a vector of cols. Names are those of Hugging Face.
  virtual Tensor read(const std::string &name, std::size_t rows, std::size_t cols) = 0;

 protected:
  Config config_;
};

// Opens a folder with config.json and safetensors, or a .bin.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path &path,
                                            const std::vector<std::string> &ignored_keys);

}  // namespace decoder
