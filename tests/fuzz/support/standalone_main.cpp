// Runs a fuzz harness without libFuzzer, for tools that do not support libFuzzer:
//   HARNESS SECONDS CORPUS_FOLDER
// It runs the files of the folder, then mutated files and random bytes. They are the same in every run.
#include <dirent.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "support/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<Bytes> read_folder(const char *folder) {
  std::vector<Bytes> files;
  DIR *listing = opendir(folder);
  if (!listing) return files;
  while (const dirent *entry = readdir(listing)) {
    if (entry->d_name[0] == '.') continue;
    char path[4096] = "";
    std::snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    std::FILE *file = std::fopen(path, "rb");
    if (!file) continue;
    Bytes bytes(4096);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
    files.push_back(bytes);
  }
  closedir(listing);
  return files;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SECONDS CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  const std::vector<Bytes> corpus = read_folder(argv[2]);
  for (const Bytes &bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());

  std::size_t executions = corpus.size();
  rapt::test::Random random(20250117);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
  while (std::chrono::steady_clock::now() < end) {
    Bytes bytes(random.below(300));
    for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    if (!corpus.empty() && random.one_in(2)) {
      bytes = corpus[random.below(corpus.size())];
      for (std::size_t left = 1 + random.below(4); left > 0 && !bytes.empty(); --left) {
        bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.next());
      }
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++executions;
  }
  std::printf("%zu executions of %zu files and their mutations\n", executions, corpus.size());
}
