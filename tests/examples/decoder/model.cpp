#include "model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

namespace decoder {

void must(rapt_status status) {
  if (status != RAPT_OK) throw std::logic_error(rapt_status_text(status));
}

void widen(rapt_type type, const std::byte *from, float *to, std::size_t count) {
  if (type == RAPT_F16)
    rapt_convert_f16_to_f32(reinterpret_cast<const rapt_f16 *>(from), to, count);
  else if (type == RAPT_BF16)
    rapt_convert_bf16_to_f32(reinterpret_cast<const rapt_bf16 *>(from), to, count);
  else
    std::memcpy(to, from, count * sizeof(float));
}

namespace {

std::vector<float> read_vector(Checkpoint &checkpoint, const std::string &name, std::size_t length) {
  const Tensor tensor = checkpoint.read(name, 0, length);
  std::vector<float> numbers(length);
  widen(tensor.type, tensor.bytes.data(), numbers.data(), length);
  return numbers;
}

Tensor widened(const Tensor &tensor) {
  const std::size_t count = tensor.bytes.size() / bytes_of(tensor.type);
  Tensor wide{RAPT_F32, std::vector<std::byte>(count * sizeof(float))};
  widen(tensor.type, tensor.bytes.data(), reinterpret_cast<float *>(wide.bytes.data()), count);
  return wide;
}

// Stacks the tensors of several layers. If their types differ, it widens them, which is exact.
Tensor read_stack(Checkpoint &checkpoint, std::initializer_list<Linear::Part> parts, std::size_t inputs) {
  Tensor stack;
  for (const Linear::Part &part : parts) {
    Tensor tensor = checkpoint.read(part.name + ".weight", part.outputs, inputs);
    if (stack.bytes.empty()) {
      stack = std::move(tensor);
      continue;
    }
    if (tensor.type != stack.type) tensor = widened(tensor), stack = widened(stack);
    stack.bytes.insert(stack.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return stack;
}

}  // namespace

// ---- linear layers

Linear::Linear(Checkpoint &checkpoint, std::initializer_list<Part> parts, std::size_t inputs, bool bias,
               const Settings &settings) {
  const Tensor stack = read_stack(checkpoint, parts, inputs);
  options.in_features = inputs;
  for (const Part &part : parts) {
    options.out_features += part.outputs;
    if (!bias) continue;
    const std::vector<float> numbers = read_vector(checkpoint, part.name + ".bias", part.outputs);
    bias_.insert(bias_.end(), numbers.begin(), numbers.end());
  }
  options.x_type = settings.arithmetic == RAPT_ARITHMETIC_BF16 ? RAPT_BF16 : RAPT_F32;
  options.y_type = RAPT_F32;
  options.w_type = stack.type;
  options.arithmetic = settings.arithmetic;

  const void *weights = stack.bytes.data();
  std::vector<std::byte> integers;
  std::vector<float> scales;
  if (settings.weights != RAPT_TYPE_DEFAULT) {
    constexpr std::size_t group = 32;
    const std::size_t outputs = options.out_features;
    integers.resize(outputs * (settings.weights == RAPT_I4 ? (inputs + 1) / 2 : inputs));
    scales.resize(outputs * ((inputs + group - 1) / group));
    must(rapt_quantize_rows(weights, stack.type, 0, outputs, inputs, group, settings.weights, integers.data(),
                            scales.data()));
    options.w_type = settings.weights;
    options.scale_group = group;
    options.w_scales = scales.data();
    weights = integers.data();
  } else if (settings.arithmetic == RAPT_ARITHMETIC_BF16 && stack.type != RAPT_BF16) {
    throw Refused(parts.begin()->name + " is not stored in bf16, which arithmetic in bf16 needs");
  } else if (settings.arithmetic == RAPT_ARITHMETIC_I8) {
    throw Refused("arithmetic in i8 needs weights of i8 or i4");
  }
  std::size_t bytes = 0;
  must(rapt_linear_packed_length(&options, &bytes));
  packed.resize(bytes);
  must(rapt_linear_pack(weights, 0, options.out_features, &options, packed.data(), packed.size()));
  // Packed weights carry their scales.
  options.w_scales = nullptr;
  options.packed_w = 1;
  options.bias = bias ? bias_.data() : nullptr;
}

void Model::linear(const Linear &layer, const std::vector<float> &x, std::size_t rows, float *y,
                   const float *add, const std::vector<std::size_t> *x_rows) {
  rapt_linear_options options = layer.options;
  const void *input = x.data();
  if (options.x_type == RAPT_BF16) {
    const std::size_t count = rows * options.in_features;
    rounded_.resize(std::max(rounded_.size(), count));
    rapt_convert_f32_to_bf16(x.data(), rounded_.data(), count);
    input = rounded_.data();
  }
  options.rows = rows;
  options.add = add;
  if (x_rows) {
    options.rows = x_rows->size();
    options.x_rows = x_rows->data();
  }
  const rapt::LinearWork work{input, layer.packed.data(), y, &options};
  must(rapt::parallel_linear({&work, 1}, settings_.threads, settings_.pool));
}

// ---- the cache

Cache::Cache(const Config &config, rapt_type type, std::size_t sequences, std::size_t capacity)
    : layers(config.layers),
      lengths(sequences),
      type_(type),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      capacity_(capacity) {
  const std::size_t row_bytes = kv_heads_ * (head_dim_ * bytes_of(type) + sizeof(float));
  if (capacity_ > SIZE_MAX / sequences / row_bytes) throw std::bad_alloc();
  const std::size_t rows = sequences * kv_heads_ * capacity_;
  for (Layer &layer : layers) {
    for (Tensor *tensor : {&layer.k, &layer.v}) {
      tensor->elements.resize(rows * head_dim_ * bytes_of(type));
      if (type == RAPT_I8) tensor->scales.resize(rows);
    }
  }
}

void Cache::store(Tensor &to, std::size_t sequence, std::size_t position, const float *heads) const {
  for (std::size_t head = 0; head < kv_heads_; ++head, heads += head_dim_) {
    const std::size_t row = (sequence * kv_heads_ + head) * capacity_ + position;
    std::byte *elements = &to.elements[row * head_dim_ * bytes_of(type_)];
    if (type_ == RAPT_F32) {
      std::memcpy(elements, heads, head_dim_ * sizeof(float));
    } else if (type_ == RAPT_BF16) {
      rapt_convert_f32_to_bf16(heads, reinterpret_cast<rapt_bf16 *>(elements), head_dim_);
    } else {
      must(rapt_quantize_rows(heads, RAPT_F32, 0, 1, head_dim_, 0, RAPT_I8, elements, &to.scales[row]));
    }
  }
}

void Cache::describe(const Layer &layer, rapt_attention_options &options) const {
  options.batch = lengths.size();
  options.kv_heads = kv_heads_;
  options.kv_type = type_;
  options.kv_lengths = lengths.data();
  options.kv_len = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  options.k_strides = options.v_strides = rapt_strides_bhtd(kv_heads_, capacity_, head_dim_);
  if (type_ == RAPT_I8) {
    options.k_scales = layer.k.scales.data();
    options.v_scales = layer.v.scales.data();
  }
}

// ---- the model

Model::Model(Checkpoint &checkpoint, const Settings &settings)
    : config_(checkpoint.config()),
      settings_(settings),
      frequencies_(config_.head_dim / 2),
      q_width_(config_.heads * config_.head_dim),
      kv_width_(config_.kv_heads * config_.head_dim),
      qkv_width_(q_width_ + 2 * kv_width_),
      embedding_(checkpoint.read("model.embed_tokens.weight", config_.vocab, config_.hidden)),
      final_norm_(read_vector(checkpoint, "model.norm.weight", config_.hidden)),
      head_(checkpoint, {{config_.tied ? "model.embed_tokens" : "lm_head", config_.vocab}}, config_.hidden,
            false, settings) {
  const rapt_status status = rapt_rope_frequencies(frequencies_.data(), &attention_factor_, &config_.rope);
  if (status != RAPT_OK) throw Refused(std::string("config.json: rope_scaling: ") + rapt_status_text(status));
  if (config_.attention_factor > 0) attention_factor_ = config_.attention_factor;
  for (std::size_t i = 0; i < config_.layers; ++i) layers_.push_back(read_layer(checkpoint, i));
}

Model::Layer Model::read_layer(Checkpoint &checkpoint, std::size_t index) const {
  const Config &c = config_;
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const std::string attention = at + "self_attn.", mlp = at + "mlp.";
  const auto head_norm = [&](const char *name) {
    return c.qk_norm ? read_vector(checkpoint, attention + name, c.head_dim) : std::vector<float>{};
  };
  return {read_vector(checkpoint, at + "input_layernorm.weight", c.hidden),
          read_vector(checkpoint, at + "post_attention_layernorm.weight", c.hidden),
          head_norm("q_norm.weight"),
          head_norm("k_norm.weight"),
          Linear(checkpoint,
                 {{attention + "q_proj", q_width_},
                  {attention + "k_proj", kv_width_},
                  {attention + "v_proj", kv_width_}},
                 c.hidden, c.qkv_bias, settings_),
          Linear(checkpoint, {{attention + "o_proj", c.hidden}}, q_width_, c.o_bias, settings_),
          Linear(checkpoint, {{mlp + "gate_proj", c.intermediate}, {mlp + "up_proj", c.intermediate}},
                 c.hidden, c.mlp_bias, settings_),
          Linear(checkpoint, {{mlp + "down_proj", c.hidden}}, c.intermediate, c.mlp_bias, settings_)};
}

// Calls body(first, count) for parts of the rows, on the threads. One row is one part.
template <class Body>
void Model::in_parts(std::size_t rows, const Body &body) const {
  const std::size_t parts = std::min(settings_.threads, rows);
  if (parts <= 1) return body(0, rows);
  settings_.pool(parts, [&](std::size_t i) {
    const std::size_t first = rows * i / parts;
    body(first, rows * (i + 1) / parts - first);
  });
}

void Model::embed(std::span<const Feed> feeds, std::size_t rows) {
  const std::size_t hidden = config_.hidden;
  x_.resize(rows * hidden);
  float *row = x_.data();
  for (const Feed &feed : feeds) {
    for (const std::uint32_t token : feed.tokens) {
      widen(embedding_.type, &embedding_.bytes[token * hidden * bytes_of(embedding_.type)], row, hidden);
      row += hidden;
    }
  }
}

void Model::norm(const std::vector<float> &x, std::size_t rows, const std::vector<float> &weight,
                 std::vector<float> &y) {
  const std::size_t cols = weight.size();
  y.resize(rows * cols);
  in_parts(rows, [&](std::size_t first, std::size_t count) {
    norm_rows(&x[first * cols], &y[first * cols], count, weight);
  });
}

void Model::norm_rows(const float *x, float *y, std::size_t rows, const std::vector<float> &weight) const {
  rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
  options.rows = rows;
  options.cols = weight.size();
  options.eps = config_.eps;
  options.weight = weight.data();
  must(rapt_rms_norm(x, y, &options));
}

// Turns `count` heads of each row of q, k and v.
void Model::rotate(float *heads, std::size_t count, std::size_t rows) const {
  in_parts(rows, [&](std::size_t first, std::size_t part) {
    rapt_rope_options options = RAPT_ROPE_OPTIONS_INIT;
    options.layout = config_.rope_layout;
    options.batch = 1;
    options.heads = count;
    options.tokens = part;
    options.head_dim = config_.head_dim;
    options.x_strides = {0, static_cast<std::ptrdiff_t>(config_.head_dim),
                         static_cast<std::ptrdiff_t>(qkv_width_)};
    options.y_strides = options.x_strides;
    options.frequencies = frequencies_.data();
    options.attention_factor = attention_factor_;
    options.positions = &positions_[first];
    must(rapt_rope(heads + first * qkv_width_, heads + first * qkv_width_, &options));
  });
}

// Keys and values go through the cache, so a prompt sees them as rounded as the tokens after it do.
void Model::attend(std::size_t index, std::span<const Feed> feeds, Cache &cache, std::size_t rows) {
  const Layer &layer = layers_[index];
  Cache::Layer &kv = cache.layers[index];
  if (config_.qk_norm) {
    in_parts(rows, [&](std::size_t first, std::size_t count) {
      for (std::size_t row = first; row < first + count; ++row) {
        float *const q = &qkv_[row * qkv_width_], *const k = q + q_width_;
        norm_rows(q, q, config_.heads, layer.q_norm);
        norm_rows(k, k, config_.kv_heads, layer.k_norm);
      }
    });
  }
  rotate(qkv_.data(), config_.heads + config_.kv_heads, rows);

  // Sequences without new tokens have no queries.
  std::vector<std::int32_t> q_offsets(cache.lengths.size() + 1);
  for (const Feed &feed : feeds) q_offsets[feed.sequence + 1] = static_cast<std::int32_t>(feed.tokens.size());
  for (std::size_t i = 1; i < q_offsets.size(); ++i) q_offsets[i] += q_offsets[i - 1];
  for (std::size_t row = 0, i = 0; i < feeds.size(); ++i) {
    for (std::size_t t = 0; t < feeds[i].tokens.size(); ++t, ++row) {
      const float *keys = &qkv_[row * qkv_width_ + q_width_];
      const std::size_t position = static_cast<std::size_t>(positions_[row]);
      cache.store(kv.k, feeds[i].sequence, position, keys);
      cache.store(kv.v, feeds[i].sequence, position, keys + kv_width_);
    }
  }

  attended_.resize(rows * q_width_);
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_heads = config_.heads;
  options.q_len = rows;
  options.qk_dim = config_.head_dim;
  options.q_type = options.out_type = RAPT_F32;
  options.q_strides = {0, static_cast<std::ptrdiff_t>(config_.head_dim),
                       static_cast<std::ptrdiff_t>(qkv_width_)};
  options.out_strides = rapt_strides_bthd(config_.heads, rows, config_.head_dim);
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  options.window_left = config_.windows.empty() ? 0 : config_.windows[index];
  options.q_offsets = q_offsets.data();
  cache.describe(kv, options);
  must(rapt::parallel_attention<const void *, const void *, const void *, void *>(
      qkv_.data(), kv.k.elements.data(), kv.v.elements.data(), attended_.data(), &options, settings_.threads,
      settings_.pool));
}

void Model::forward(std::span<const Feed> feeds, Cache &cache, std::vector<float> &logits) {
  std::size_t rows = 0;
  positions_.clear();
  std::vector<std::size_t> wanted;  // rows whose logits are asked for
  for (const Feed &feed : feeds) {
    std::int32_t &length = cache.lengths[feed.sequence];
    for (std::size_t t = 0; t < feed.tokens.size(); ++t, ++rows) {
      positions_.push_back(length++);
      if (t + feed.logits >= feed.tokens.size()) wanted.push_back(rows);
    }
  }
  // Attention counts the rows of a call in 32 bits, and the product of two sizes fits 64.
  if (rows > largest_size)
    throw Refused("the tokens of one step are more than 2^24; --chunk makes it shorter");
  embed(feeds, rows);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer &layer = layers_[i];
    norm(x_, rows, layer.attention_norm, normed_);
    qkv_.resize(rows * qkv_width_);
    linear(layer.qkv, normed_, rows, qkv_.data(), nullptr);
    attend(i, feeds, cache, rows);
    linear(layer.o, attended_, rows, x_.data(), x_.data());

    norm(x_, rows, layer.mlp_norm, normed_);
    const std::size_t width = config_.intermediate;
    gate_up_.resize(rows * 2 * width);
    gated_.resize(rows * width);
    linear(layer.gate_up, normed_, rows, gate_up_.data(), nullptr);
    in_parts(rows, [&](std::size_t first, std::size_t count) {
      rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
      options.rows = count;
      options.cols = width;
      options.gate_stride = options.up_stride = static_cast<std::ptrdiff_t>(2 * width);
      const float *gate = &gate_up_[first * 2 * width];
      must(rapt_gated(gate, gate + width, &gated_[first * width], &options));
    });
    linear(layer.down, gated_, rows, x_.data(), x_.data());
  }
  if (wanted.empty()) return;
  norm(x_, rows, final_norm_, normed_);
  logits.resize(wanted.size() * config_.vocab);
  linear(head_, normed_, rows, logits.data(), nullptr, &wanted);
}

}  // namespace decoder
