// ROPE: rotary position embedding of x [dim, heads, tokens, batch], with positions [tokens]. Models of images have four
// positions of a token, [4][tokens], and each pair of elements turns by one of them.
//
// Angles are those of rapt_rope(), from frequencies in double. ggml multiplies its angles step by step in f32, and
// calls powf, cosf and sinf, whose last bits depend on the C library.
#include <algorithm>
#include <cmath>

#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

enum Param {
  dims = 1,
  mode = 2,
  original_length = 4,
  base = 5,
  freq_scale = 6,
  ext_factor = 7,
  attention_factor = 8,
  beta_fast = 9,
  beta_slow = 10,
  sections = 11  // how many pairs turn by each of four positions
};

bool has_sections(Tensor op) {
  return int_param(op, mode) == GGML_ROPE_TYPE_MROPE || int_param(op, mode) == GGML_ROPE_TYPE_IMROPE;
}

// Which of a token's positions each pair turns by.
std::vector<std::size_t> sections_of(Tensor op) {
  const auto count = [&](int i) { return static_cast<std::size_t>(int_param(op, sections + i)); };
  const std::size_t all = count(0) + count(1) + count(2) + count(3);
  std::vector<std::size_t> of_pair(static_cast<std::size_t>(int_param(op, dims)) / 2);
  for (std::size_t pair = 0; pair < of_pair.size(); ++pair) {
    std::size_t at = pair % all;
    int section = 0;
    if (int_param(op, mode) == GGML_ROPE_TYPE_IMROPE) {
      // The first three take turns while they have pairs left.
      section = static_cast<int>(at % 3);
      if (at >= 3 * count(section)) section = 3;
    } else {
      for (; at >= count(section); ++section) at -= count(section);
    }
    of_pair[pair] = static_cast<std::size_t>(section);
  }
  return of_pair;
}

// ln(a), without the C library: Newton's steps on rapt's exp.
double natural_log(double a) {
  int exponent = 0;
  const double fraction = std::frexp(a, &exponent);  // exact
  double y = exponent * 0.693147180559945309417232 + (fraction - 1);
  for (int step = 0; step < 6; ++step) {
    const double minus = -y;
    double e = 0;
    rapt_exp_f64(&minus, &e, 1);
    y += a * e - 1;
  }
  return y;
}

// The frequencies of an op, and the factor of sine and cosine. factors divide the frequencies of Llama 3.1 and Phi 3.
Rotation rotation_of(Tensor op) {
  const std::size_t pairs = static_cast<std::size_t>(int_param(op, dims)) / 2;
  Rotation rotation;
  rotation.frequencies.resize(pairs);
  rotation.attention_factor = float_param(op, attention_factor);
  rapt_rope_frequency_options options = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  options.rotary_dim = 2 * pairs;
  options.base = float_param(op, base);
  must(rapt_rope_frequencies(rotation.frequencies.data(), nullptr, &options));

  const double scale = float_param(op, freq_scale), ext = float_param(op, ext_factor);
  double low = 0, high = 0;
  if (ext != 0) {  // YaRN: low pairs keep their frequency, high ones are scaled
    const double n = static_cast<double>(2 * pairs), length = int_param(op, original_length),
                 log_base = natural_log(options.base);
    const auto dim = [&](double turns) {
      return n * natural_log(length / (turns * 2 * 3.14159265358979323846)) / (2 * log_base);
    };
    low = std::max(0.0, std::floor(dim(float_param(op, beta_fast))));
    high = std::min(n - 1, std::ceil(dim(float_param(op, beta_slow))));
    rotation.attention_factor *= 1 + 0.1 * natural_log(1 / scale);
  }
  const Tensor factors = op->src[2];
  for (std::size_t i = 0; i < pairs; ++i) {
    double &frequency = rotation.frequencies[i];
    if (factors) frequency /= static_cast<double>(elements_of<float>(bytes_of(factors))[i]);
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = ext == 0 ? 0 : (1 - std::min(1.0, std::max(0.0, ramp))) * ext;
    frequency *= scale * (1 - kept) + kept;
  }
  return rotation;
}

const Rotation &rotation_in(Graph &graph, Tensor op) {
  for (const auto &[known, rotation] : graph.rotations) {
    const bool same = std::memcmp(&known->op_params[dims], &op->op_params[dims],
                                  (beta_slow - dims + 1) * sizeof(std::int32_t)) == 0;
    if (same && known->src[2] == op->src[2]) return rotation;
  }
  return graph.rotations.emplace_back(op, rotation_of(op)).second;
}

const std::vector<std::int64_t> &positions_in(Graph &graph, Tensor t) {
  std::vector<std::int64_t> &positions = graph.positions[t];
  if (positions.empty()) {
    const std::int32_t *const from = elements_of<std::int32_t>(bytes_of(t));
    positions.assign(from, from + extent(t, 0));
  }
  return positions;
}

}  // namespace

bool supports_rope(Tensor op) {
  const Tensor x = op->src[0], positions = op->src[1], factors = op->src[2];
  const std::int32_t kind = int_param(op, mode), turning = int_param(op, dims);
  if (kind != GGML_ROPE_TYPE_NORMAL && kind != GGML_ROPE_TYPE_NEOX && !has_sections(op)) return false;
  std::int32_t pairs_of_sections = 0;
  for (int i = 0; i < 4; ++i) {
    if (int_param(op, sections + i) < 0) return false;
    pairs_of_sections += int_param(op, sections + i);
  }
  if ((pairs_of_sections > 0) != has_sections(op)) return false;
  if (turning <= 0 || turning % 2 != 0 || turning > x->ne[0]) return false;
  if (!is_type(x, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) || op->type != x->type) return false;
  if (positions->type != GGML_TYPE_I32 || !is_contiguous(positions) ||
      positions->ne[0] < x->ne[2] * (has_sections(op) ? 4 : 1))
    return false;
  if (factors && (factors->type != GGML_TYPE_F32 || !is_contiguous(factors))) return false;
  return has_dense_rows(x) && has_dense_rows(op) && has_whole_strides(x) && has_whole_strides(op);
}

void rope(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const Rotation &rotation = rotation_in(graph, op);
  const std::vector<std::int64_t> &positions = positions_in(graph, op->src[1]);
  rapt_rope_options options = RAPT_ROPE_OPTIONS_INIT;
  options.type = *float_type(x->type);
  options.layout = int_param(op, mode) == GGML_ROPE_TYPE_NORMAL ? RAPT_ROPE_PAIRS : RAPT_ROPE_HALVES;
  options.batch = extent(x, 3), options.heads = extent(x, 1), options.head_dim = extent(x, 0);
  options.rotary_dim = static_cast<std::size_t>(int_param(op, dims));
  options.x_strides = {stride(x, 3), stride(x, 1), stride(x, 2)};
  options.y_strides = {stride(op, 3), stride(op, 1), stride(op, 2)};
  options.frequencies = rotation.frequencies.data();
  options.attention_factor = rotation.attention_factor;
  options.positions_stride = RAPT_REPEAT;
  const auto turn = [&](std::size_t first, std::size_t last, const std::int64_t *at,
                        const double *frequencies) {
    rapt_rope_options part = options;
    part.tokens = last - first;
    part.positions = at;
    part.frequencies = frequencies;
    must(rapt_rope(bytes_of(x) + first * x->nb[2], bytes_of(op) + first * op->nb[2], &part));
  };
  const std::size_t tokens = extent(x, 2);
  if (!has_sections(op)) {
    return graph.engine.split(tokens, 8 * element_count(x), [&](std::size_t first, std::size_t last) {
      turn(first, last, &positions[first], options.frequencies);
    });
  }
  // Text has one position in all sections, and then the bits of a rope without them. A token of an image has its angles
  // as frequencies, divided by a power of two, which is its position: the same products.
  constexpr std::int64_t unit = std::int64_t{1} << 22;
  const std::vector<std::size_t> section = sections_of(op);
  graph.engine.split(tokens, 8 * element_count(x), [&](std::size_t first, std::size_t last) {
    std::vector<double> angles(section.size());
    const auto position = [&](std::size_t of, std::size_t token) -> const std::int64_t & {
      return positions[of * tokens + token];
    };
    const auto is_text = [&](std::size_t token) {
      return std::all_of(section.begin(), section.end(),
                         [&](std::size_t of) { return position(of, token) == position(section[0], token); });
    };
    for (std::size_t token = first; token < last;) {
      std::size_t end = token;
      while (end < last && is_text(end)) ++end;
      if (end > token) {
        turn(token, end, &position(section[0], token), options.frequencies);
        token = end;
        continue;
      }
      for (std::size_t pair = 0; pair < section.size(); ++pair) {
        const auto at = static_cast<double>(position(section[pair], token));
        angles[pair] = at * rotation.frequencies[pair] / unit;
      }
      turn(token, token + 1, &unit, angles.data());
      ++token;
    }
  });
}

}  // namespace rapt_ggml
