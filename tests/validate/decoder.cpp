#include "validate/decoder.hpp"

#include <exception>

#include "support/isa.hpp"
#include "validate/crash.hpp"
#include "validate/short_models.hpp"

namespace rapt::validate {

std::vector<DecoderResult> check_decoder(
    const std::vector<std::string> &isas,
    const std::function<void(std::size_t done, std::size_t of)> &progress) {
  const std::vector<decoder::ShortModel> &models = decoder::short_models();
  std::vector<DecoderResult> results;
  for (std::size_t i = 0; i < isas.size(); ++i) {
    const test::ForcedIsa forced(isas[i]);
    DecoderResult &result = results.emplace_back();
    result.isa = isas[i];
    decoder::Hash hash;
    for (const decoder::ShortModel &model : models) {
      progress(i * models.size() + result.models, isas.size() * models.size());
      note_running(std::string(decoder_name) + " with " + model.name + " on " + result.isa);
      result.models += 1;
      try {
        const decoder::HashedReport report = decoder::decode_short(model, decoder::short_plan());
        const std::uint64_t logits = report.logits.front().value();
        hash.add(static_cast<std::uint32_t>(logits));
        hash.add(static_cast<std::uint32_t>(logits >> 32));
        if (!decoder::is_published(model, report)) result.wrong.push_back(model.name);
      } catch (const std::exception &error) {
        result.wrong.push_back(std::string(model.name) + " (" + error.what() + ")");
      }
    }
    result.hash = hash.value();
  }
  return results;
}

}  // namespace rapt::validate
