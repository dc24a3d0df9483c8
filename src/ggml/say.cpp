#include "ggml/say.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "ggml/host.hpp"

namespace rapt_ggml {

namespace {

std::mutex mutex;
std::set<std::string> said;

bool is_set(const char *name) {
  const char *const value = std::getenv(name);
  return value && *value && std::strcmp(value, "0") != 0;
}

}  // namespace

void say(enum ggml_log_level level, const std::string &sentence) {
  if (host().log) {
    host().log(level, "rapt: %s\n", sentence.c_str());
  } else {
    std::fprintf(stderr, "rapt: %s\n", sentence.c_str());
  }
}

void say_once(enum ggml_log_level level, const std::string &sentence) {
  {
    std::string key;  // without numbers: what is true of a layer is true of the others
    for (const char c : sentence) {
      if (c < '0' || c > '9') key += c;
    }
    const std::lock_guard lock(mutex);
    if (!said.insert(key).second) return;
  }
  say(level, sentence);
}

void say_all_again() {
  const std::lock_guard lock(mutex);
  said.clear();
}

bool log_is_on() {
  static const bool on = is_set("RAPT_GGML_LOG");
  return on;
}

bool is_strict() {
  static const bool on = is_set("RAPT_GGML_STRICT");
  return on;
}

void not_our_bits(const std::string &sentence) {
  if (!is_strict()) return say_once(GGML_LOG_LEVEL_WARN, sentence);
  // stderr, because a program may drop its log before it is gone.
  std::fprintf(stderr, "rapt: %s (RAPT_GGML_STRICT=1 ends the program here)\n", sentence.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

std::string text_of(Tensor op) {
  std::string text = host().op_text(op);
  const char *joint = " of ";
  for (const ggml_tensor *source : op->src) {
    if (!source) break;
    const ggml_type_traits *const traits = host().type_traits(source->type);
    text += joint + std::string(traits ? traits->type_name : "an unknown type");
    joint = " and ";
  }
  const ggml_tensor *const named = op->src[0] && op->src[0]->name[0] ? op->src[0] : op;
  return text + " (" + named->name + ")";
}

}  // namespace rapt_ggml
