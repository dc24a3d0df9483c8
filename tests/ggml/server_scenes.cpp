// A server's life: sequences come, go, are rolled back, saved and copied, and none may notice the others.
#include <cstdlib>
#include <random>

#include "model.hpp"
#include "play.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

using Script = std::function<void(Play &)>;

struct Named {
  const char *name;
  Script script;
};

// Takes A out of the cache and puts it back after `meanwhile`.
void away(Play &p, const Script &meanwhile, llama_state_seq_flags flags = 0) {
  const auto state = p.save('A', flags);
  const Tokens tokens = p.tokens('A');
  p.remove('A');
  meanwhile(p);
  p.restore('A', state, tokens, flags);
}

// Goes on from A for a while, and returns to where it was.
void checkpoint(Play &p, const Script &meanwhile) {
  const auto window = p.save('A', LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
  const Tokens tokens = p.tokens('A');
  meanwhile(p);
  p.return_to('A', window, tokens);
}

// B's cells come before A's; then B goes and A's next tokens take them.
void out_of_order(Play &p) {
  p.prompt("B", 60);
  p.prompt("A", 60);
  p.remove('B');
  p.decode("A", 30);
}

void random_turns(Play &p, unsigned seed, int turns) {
  std::mt19937 random(seed);  // the standard fixes its numbers; distributions it does not
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  struct Saved {
    std::vector<std::uint8_t> state;
    Tokens tokens;
  };
  std::vector<Saved> saved;
  p.may_be_full();
  for (int turn = 0; turn < turns && p.problem().empty(); ++turn) {
    const char s = static_cast<char>('A' + below(5)), other = static_cast<char>('A' + below(5));
    const auto length = static_cast<int>(p.tokens(s).size());
    if (p.make_room()) continue;
    if (length > 400) p.remove(s);
    switch (below(11)) {
      case 0:
      case 8:
      case 9:
        p.prompt(std::string(1, s), 1 + below(70));
        break;
      case 1:
        p.remove(s);
        break;
      case 2:
        if (length > 30) p.roll_back(s, 1 + below(24));
        break;
      case 3:
        p.draft(std::string(1, s), 1 + below(8)), p.roll_back(s, 1);
        break;
      case 4:
        if (length > 0 && s != other) p.copy(s, other);
        break;
      case 5:
        if (length > 0) saved.push_back({p.save(s), p.tokens(s)});
        break;
      case 10:
        if (length > 0) checkpoint(p, [&](Play &q) { q.draft(std::string(1, s), 1 + below(100)); });
        break;
      case 6:
        if (!saved.empty()) {
          const Saved &x = saved[static_cast<std::size_t>(below(static_cast<unsigned>(saved.size())))];
          p.restore(s, x.state, x.tokens);
        }
        break;
      default: {
        std::string some;
        for (char c = 'A'; c <= 'E'; ++c)
          if (!p.tokens(c).empty()) some += c;
        if (!some.empty()) p.decode(some, 1 + below(6));
      }
    }
  }
}

const std::vector<Named> scripts = {
    {"alone, token by token", [](Play &p) { p.prompt("A", 70), p.decode("A", 40); }},
    {"four in one batch", [](Play &p) { p.prompt("ABCD", 60), p.decode("ABCD", 30); }},
    {"others join",
     [](Play &p) {
       p.prompt("A", 70), p.decode("A", 10), p.join("A", "B", 37), p.decode("AB", 10);
       p.join("AB", "C", 50), p.join("ABC", "D", 5), p.decode("ABCD", 20);
     }},
    {"enters cells that another left",
     [](Play &p) {
       p.prompt("B", 90), p.prompt("C", 33), p.remove('B'), p.prompt("A", 120), p.decode("AC", 30);
     }},
    {"enters holes between others",
     [](Play &p) {
       p.prompt("BCD", 30), p.remove('C'), p.prompt("A", 50), p.decode("ABD", 20), p.remove('D'),
           p.decode("AB", 40);
     }},
    {"a neighbour goes",
     [](Play &p) { p.prompt("BA", 60), p.decode("BA", 20), p.remove('B'), p.decode("A", 90); }},
    {"a neighbour goes, another comes",
     [](Play &p) {
       p.prompt("BA", 60), p.decode("BA", 10), p.remove('B'), p.decode("A", 30), p.join("A", "E", 50),
           p.decode("AE", 40);
     }},
    {"rolled back 24 tokens",
     [](Play &p) {
       p.prompt("A", 70), p.decode("A", 30), p.draft("A", 24), p.roll_back('A', 24), p.decode("A", 40);
     }},
    {"rolled back and decoded again",
     [](Play &p) { p.prompt("A", 70), p.decode("A", 30), p.roll_back('A', 24), p.decode("A", 40); }},
    {"rolled back beside neighbours",
     [](Play &p) {
       p.prompt("BAC", 50), p.decode("ABC", 10), p.draft("ABC", 24), p.roll_back('A', 24),
           p.roll_back('C', 24);
       p.decode("AC", 30), p.roll_back('B', 24), p.decode("ABC", 20);
     }},
    {"rolled back into cells out of order",
     [](Play &p) {
       out_of_order(p), p.draft("A", 24), p.roll_back('A', 24), p.prompt("C", 20), p.decode("AC", 30);
     }},
    {"saved and restored",
     [](Play &p) {
       p.prompt("AB", 60), p.decode("AB", 20);
       away(p, [](Play &q) { q.prompt("C", 70); });
       p.decode("ABC", 30);
     }},
    {"saved out of order, restored",
     [](Play &p) {
       out_of_order(p);
       away(p, [](Play &q) { q.prompt("C", 40); });
       p.decode("AC", 40);
     }},
    {"saved out of order, restored alone",
     [](Play &p) {
       out_of_order(p);
       away(p, [](Play &) {});
       p.decode("A", 40);
     }},
    {"saved out of order on the device",
     [](Play &p) {
       out_of_order(p);
       away(
           p, [](Play &q) { q.prompt("C", 40); }, LLAMA_STATE_SEQ_FLAGS_ON_DEVICE);
       p.decode("AC", 40);
     }},
    {"back to a checkpoint",
     [](Play &p) {
       p.prompt("AB", 100), p.decode("AB", 10);
       checkpoint(p, [](Play &q) { q.draft("A", 150), q.decode("B", 20); });
       p.decode("AB", 40);
     }},
    {"back to a checkpoint out of order",
     [](Play &p) {
       out_of_order(p);
       checkpoint(p, [](Play &q) { q.prompt("C", 90), q.draft("A", 100), q.remove('C'), q.draft("A", 30); });
       p.decode("A", 20), p.prompt("C", 30), p.decode("AC", 60);
     }},
    {"restored as another sequence, twice",
     [](Play &p) {
       out_of_order(p);
       const auto state = p.save('A');
       const Tokens tokens = p.tokens('A');
       p.restore('C', state, tokens), p.restore('D', state, tokens), p.decode("ACD", 30);
     }},
    {"copied, then both go on",
     [](Play &p) { p.prompt("A", 70), p.decode("A", 10), p.copy('A', 'B'), p.decode("AB", 40); }},
    {"copied out of order",
     [](Play &p) {
       out_of_order(p), p.copy('A', 'B'), p.prompt("C", 20), p.decode("AB", 20), p.remove('A'),
           p.decode("BC", 60);
     }},
    {"a prefix that four share",
     [](Play &p) {
       p.prompt("A", 65), p.copy('A', 'B'), p.copy('A', 'C'), p.copy('A', 'D');
       p.prompt("BCD", 20), p.remove('A'), p.decode("BCD", 20), p.prompt("A", 40), p.decode("ABCD", 10);
     }},
    {"the whole context saved and restored",
     [](Play &p) {
       p.prompt("AB", 60), p.decode("AB", 10), p.move_to_new_context();
       p.decode("AB", 20), p.prompt("C", 30), p.decode("ABC", 10);
     }},
    {"the whole context out of order, saved and restored",
     [](Play &p) { out_of_order(p), p.prompt("C", 30), p.move_to_new_context(), p.decode("AC", 40); }},
    {"longer than 600 tokens beside a neighbour",
     [](Play &p) {
       p.prompt("AB", 300), p.decode("AB", 20), p.remove('B'), p.prompt("A", 150), p.prompt("C", 100),
           p.decode("AC", 150);
     }},
};

Script named(const std::string &name) {
  for (const Named &s : scripts)
    if (s.name == name) return s.script;
  return [](Play &) { std::abort(); };
}

Settings settings_of(const std::string &cache, bool unified) {
  Settings s;
  set_cache(s, cache);
  s.cells = unified ? 2048 : 5 * 768;
  s.sequences = 5;
  s.unified = unified;
  return s;
}

Verdict play(const std::string &path, const Settings &settings, const Script &script) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Play p(model.get(), settings);
  script(p);
  return {p.compare_with_alone(), ""};
}

// The same turns of A in two caches, whose positions no cache alone has: a shifted key is rotated twice.
Verdict shifted(const std::string &path, Settings settings) {
  settings.whole_windows = true;  // else llama.cpp shifts no sliding windows
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Play alone(model.get(), settings), beside(model.get(), settings);
  for (Play *p : {&alone, &beside}) {
    if (p == &beside) p->prompt("B", 45);
    p->prompt("A", 100);
    if (p == &beside) p->decode("B", 10);
    p->shift('A', 8, 40);
    p->decode("A", 20);
    if (p == &beside) p->remove('B'), p->prompt("C", 20);
    p->decode("A", 60);
    if (!p->problem().empty()) return {p->problem(), ""};
  }
  Difference d;
  for (std::size_t i = 0; i < alone.records('A').size(); ++i)
    d.compare("evaluation " + std::to_string(i), beside.records('A')[i].second, alone.records('A')[i].second);
  return {d.text(), ""};
}

Verdict two_contexts(const std::string &path, const Settings &settings) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Play one(model.get(), settings), other(model.get(), settings);
  one.prompt("AB", 50), other.prompt("C", 33), one.remove('A'), other.prompt("A", 40);
  for (int i = 0; i < 30; ++i) one.decode("B", 1), other.decode("CA", 1);
  const std::string problem = one.compare_with_alone();
  return {problem.empty() ? other.compare_with_alone() : problem, ""};
}

}  // namespace

std::vector<Scene> server_scenes(const Choice &choice) {
  std::vector<Seeded> combinations = choice.combinations;
  if (combinations.empty())
    combinations = {{"llama", "Q8_0", "f16"},
                    {"gemma3", "Q8_0", "f16"},
                    {"gpt-oss", "Q8_0", "f16"},
                    {"qwen3next", "Q8_0", "f16"},
                    {"llama", "Q4_K", "q8_0"}};
  std::vector<Scene> scenes;
  for (const Seeded &seeded : combinations) {
    if (seeded.model.find("bert") != std::string::npos) continue;
    for (const bool unified : {true, false}) {
      const Settings settings = settings_of(seeded.cache, unified);
      const std::string group = std::string("server") + (unified ? ", unified: " : ": ");
      for (const Named &s : scripts) {
        // llama.cpp 0.4.0 crashes where it saves quantized cells of several ranges on a device, also on ggml-cpu.
        const bool quantized = settings.cache.find('q') != std::string::npos;
        if (quantized && std::string(s.name).ends_with("on the device")) continue;
        if (is_recurrent(seeded.model) && std::string(s.name).starts_with("rolled back")) continue;
        scenes.push_back({group + s.name, seeded,
                          [=](const std::string &path) { return play(path, settings, s.script); }});
      }
      for (const int ubatch : {1, 32}) {  // few cells of sliding windows, which are taken again soon
        Settings small = settings;
        small.ubatch = ubatch;
        for (const char *name :
             {"four in one batch", "back to a checkpoint", "longer than 600 tokens beside a neighbour"})
          scenes.push_back({group + name + ", in ubatches of " + std::to_string(ubatch), seeded,
                            [=](const std::string &path) { return play(path, small, named(name)); }});
      }
      Settings last = settings, observed = settings;
      last.last_only = observed.observed = true;
      scenes.push_back({group + "only last logits", seeded,
                        [=](const std::string &path) { return play(path, last, named("others join")); }});
      scenes.push_back({group + "observed by a callback", seeded, [=](const std::string &path) {
                          // Each op is a graph: what another graph has computed is this program's own.
                          return play(path, observed, named("a neighbour goes"));
                        }});
      scenes.push_back({group + "context shift", seeded,
                        [=](const std::string &path) { return shifted(path, settings); }});
      scenes.push_back({group + "two contexts of a model", seeded,
                        [=](const std::string &path) { return two_contexts(path, settings); }});
      for (unsigned i = 0; i < (is_recurrent(seeded.model) ? 0 : choice.seeds); ++i) {
        const unsigned seed = choice.seed + i;
        Settings full = settings;  // every other seed has a cache that is often full
        if (seed % 2 == 0) full.cells = unified ? 256 : 5 * 256;
        scenes.push_back({group + "random turns " + std::to_string(seed), seeded,
                          [=, turns = choice.turns](const std::string &path) {
                            return play(path, full, [=](Play &p) { random_turns(p, seed, turns); });
                          }});
      }
    }
  }
  return scenes;
}

}  // namespace rapt_ggml_tests
