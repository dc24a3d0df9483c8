#include "support/brief.hpp"

#include <map>
#include <string>
#include <string_view>

#include "support/measured.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

constexpr std::string_view element_names[] = {"f32", "f64", "f16", "bf16", "i8", "u8i8"};

struct Name {
  std::string operation, element;
};

// Splits "softmax_f32" into operation "softmax" and element "f32". The operation of "attention_in_bf16" is
// the whole name. Conversions share a line, and count for the element that is not f32; rows of integers are among them.
Name name_of(const std::string &kernel) {
  if (kernel.starts_with("convert_")) {
    return {"convert", kernel.find("bf16") != std::string::npos ? "bf16" : "f16"};
  }
  if (kernel.ends_with("quantize_rows")) return {"convert", "i8"};
  const std::size_t end = kernel.rfind('_');
  const std::string element = kernel.substr(end + 1);
  const bool whole = kernel.substr(0, end).ends_with("_in");
  return {whole ? kernel : kernel.substr(0, end), element};
}

struct Row {
  std::map<std::string, GeometricMean, std::less<>> shares;  // by element type
  std::map<std::string, bool, std::less<>> doubtful;
  GeometricMean over_scalar, over_peers;
};

void add(Row &row, const std::string &element, const Measured &measured, const Case &own) {
  if (own.has_share()) row.shares[element].add(own.share());
  row.doubtful[element] |= !own.doubts.empty();
  if (const double speed_up = measured.speed_up(own); speed_up > 0) row.over_scalar.add(speed_up);
  if (const Case *peer = measured.best_peer(own)) row.over_peers.add(peer->median() / own.median());
}

std::string ratio(const GeometricMean &mean) { return mean.empty() ? "" : speed_up_text(mean.value()); }

}  // namespace

void print_brief(const std::string &cpu_name, const Plan &plan, const std::vector<Case *> &cases) {
  const Measured measured(plan, cases);
  std::vector<std::string> operations;
  std::map<std::string, Row> rows;
  for (const std::string &kernel : measured.kernels()) {
    const Name name = name_of(kernel);
    if (rows.try_emplace(name.operation).second) operations.push_back(name.operation);
    const std::string &isa = measured.strongest_isa(kernel);
    for (const Case *one : measured.of(kernel)) {
      // Packing is a copy, so it does not count in the mean of the products.
      if (one->work.multiply_adds != measured.of(kernel).front()->work.multiply_adds) continue;
      if (!one->is_peer && one->isa == isa) add(rows[name.operation], name.element, measured, *one);
    }
  }
  print_line("\n{}, {}: the share of the limit, as the mean over all sizes", cpu_name, plan.isas.back());
  std::string head = fmt::format("{:<25}", "");
  for (const std::string_view element : element_names) head += fmt::format("{:>5} ", element);
  head += fmt::format("{:>12}", "over scalar");
  if (plan.peers) head += fmt::format("{:>12}", "best peer");
  print_text(head);
  print_rule(head.size());
  for (const std::string &operation : operations) {
    const Row &row = rows[operation];
    std::string line = fmt::format("{:<25}", operation);
    for (const std::string_view element : element_names) {
      const auto share = row.shares.find(element);
      if (share == row.shares.end()) {
        line += fmt::format("{:>6}", "");
      } else {
        const bool doubtful = row.doubtful.find(element)->second;
        line += fmt::format("{:>4.0f}%{}", 100 * share->second.value(), doubtful ? mark : " ");
      }
    }
    line += fmt::format("{:>12}", ratio(row.over_scalar));
    if (plan.peers) line += fmt::format("{:>12}", ratio(row.over_peers));
    print_text(line);
  }
}

}  // namespace rapt::bench
