// Reads parts of a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "checkpoint.hpp"

namespace decoder {

class File {
 public:
  explicit File(const std::filesystem::path &path) : name_(path.filename().string()) {
    // To open a pipe would wait for a program that writes to it.
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (exists(status) && !is_regular_file(status)) throw Refused(path.string() + " is not a regular file");
    in_.open(path, std::ios::binary);
    size_ = std::filesystem::file_size(path, error);
    if (error || !in_) throw Refused(path.string() + " cannot be read");
  }
  std::uint64_t size() const { return size_; }

  void read(std::uint64_t at, std::size_t bytes, void *to) {
    in_.seekg(static_cast<std::streamoff>(at));
    if (!in_.read(static_cast<char *>(to), static_cast<std::streamsize>(bytes)))
      throw Refused(name_ + " ends early");
  }
  std::string read(std::uint64_t at, std::size_t bytes) {
    std::string text(bytes, '\0');
    read(at, bytes, text.data());
    return text;
  }
  std::string read_all() { return read(0, static_cast<std::size_t>(size_)); }

 private:
  std::string name_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
};

// Opens a .bin of llama2.c.
std::unique_ptr<Checkpoint> open_llama2c(const std::filesystem::path &path);

}  // namespace decoder
