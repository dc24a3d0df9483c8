// Parses JSON strictly: a repeated key would leave open what the file means.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config.hpp"

namespace decoder {

inline nlohmann::json parse_json(std::string_view text, const std::string &what) {
  using nlohmann::json;
  // Some functions of the library call themselves for each level.
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json &value) {
    const bool begins =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (begins && depth >= deepest) throw Refused(what + " has more than 64 levels of objects and arrays");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Refused(what + " has the key " + shown(value.get<std::string>()) + " twice");
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text.begin(), text.end(), check);
  } catch (const json::exception &error) {
    throw Refused(what + " is not JSON: " + shown(error.what(), 200));
  }
  if (!parsed.is_object()) throw Refused(what + " is not a JSON object");
  return parsed;
}

}  // namespace decoder
