#include "scenes.hpp"
namespace rapt_ggml_tests {
std::vector<Scene> embedding_scenes(const Choice &) { return {}; }
std::vector<Scene> lifetime_scenes(const Choice &) { return {}; }
std::vector<Scene> hostile_scenes(const Choice &) { return {}; }
}  // namespace rapt_ggml_tests
