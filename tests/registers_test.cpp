// Tests the state of the processor after a call. Callee-saved registers and control words must be unchanged.
// The upper halves of vector registers must be clear, because they would slow down the caller's SSE code.
#include <doctest/doctest.h>

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "contract/activation_list.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/watched_call.hpp"

using namespace rapt::test;

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

constexpr std::size_t rows = 5;

// Calls watch(name, call) for every function over rows of n elements. `call` takes a WatchedCall.
template <class T, class Watch>
void watch_kernels(std::size_t n, Watch &&watch) {
  const auto stride = static_cast<std::ptrdiff_t>(n);
  std::vector<T> a(rows * n, T(0.5)), b(rows * n, T(0.25)), out(rows * n + rows);
  std::vector<T> bias(rows * n, T(0.5)), sinks(rows, T(1));
  std::vector<std::uint8_t> mask(rows * n, 1);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.bias = bias.data();
  options.mask = mask.data();
  options.bias_stride = options.mask_stride = stride;
  options.sinks = sinks.data();
  options.softcap = 20;
  rapt_softmax_options in_batches = options;  // rows with sinks are computed one by one
  in_batches.sinks = nullptr;
  const T scale = T(0.3), shift = T(0.1);

  watch("dot", [&](WatchedCall &call) { call(Api<T>::dot, a.data(), b.data(), n); });
  watch("dot_rows", [&](WatchedCall &call) {
    call(Api<T>::dot_rows, a.data(), b.data(), stride, rows, n, scale, out.data());
  });
  watch("scale", [&](WatchedCall &call) { call(Api<T>::scale, a.data(), scale, out.data(), n); });
  watch("exp", [&](WatchedCall &call) { call(Api<T>::exp, a.data(), out.data(), n); });
  watch("silu", [&](WatchedCall &call) { call(Api<T>::silu, a.data(), out.data(), n); });
  watch("gelu", [&](WatchedCall &call) { call(Api<T>::gelu, a.data(), out.data(), n); });
  watch("gelu_tanh", [&](WatchedCall &call) { call(Api<T>::gelu_tanh, a.data(), out.data(), n); });
  watch("silu_backward",
        [&](WatchedCall &call) { call(Api<T>::silu_backward, a.data(), b.data(), out.data(), n); });
  watch("gelu_backward",
        [&](WatchedCall &call) { call(Api<T>::gelu_backward, a.data(), b.data(), out.data(), n); });
  watch("gelu_tanh_backward",
        [&](WatchedCall &call) { call(Api<T>::gelu_tanh_backward, a.data(), b.data(), out.data(), n); });
  watch("argmax", [&](WatchedCall &call) { call(Api<T>::argmax, a.data(), n); });
  for (const rapt_activation activation : rapt::activations) {
    const rapt_gated_options gated = gated_row<T>(activation, n);
    watch("gated", [&](WatchedCall &call) { call(rapt_gated, a.data(), b.data(), out.data(), &gated); });
    watch("gated_backward", [&](WatchedCall &call) {
      call(rapt_gated_backward, a.data(), b.data(), b.data(), out.data(), bias.data(), &gated);
    });
  }
  rapt_expert_sum_options sum = RAPT_EXPERT_SUM_OPTIONS_INIT;
  sum.type = Api<T>::type;
  sum.tokens = 1;
  sum.top_k = rows;
  sum.cols = n;
  sum.x_stride = stride;
  for (const void *const weights :
       {static_cast<const void *>(nullptr), static_cast<const void *>(b.data())}) {
    sum.weights = weights;
    watch("expert_sum", [&](WatchedCall &call) { call(rapt_expert_sum, a.data(), out.data(), &sum); });
  }
  watch("exp_sum", [&](WatchedCall &call) { call(Api<T>::exp_sum, a.data(), scale, shift, out.data(), n); });
  for (const rapt_softmax_options *given :
       {static_cast<rapt_softmax_options *>(nullptr), &options, &in_batches}) {
    watch("softmax", [&](WatchedCall &call) {
      call(Api<T>::softmax, a.data(), stride, out.data(), stride, rows, n, given);
    });
    watch("log_softmax", [&](WatchedCall &call) {
      call(Api<T>::log_softmax, a.data(), stride, out.data(), stride, rows, n, given);
    });
    watch("logsumexp",
          [&](WatchedCall &call) { call(Api<T>::logsumexp, a.data(), stride, out.data(), rows, n, given); });
  }
  watch("softmax_backward", [&](WatchedCall &call) {
    call(Api<T>::softmax_backward, a.data(), stride, b.data(), stride, out.data(), stride, rows, n, scale);
  });
  // With many rows a vector holds several rows; with few rows it holds several keys.
  for (const std::size_t queries : {std::size_t{1}, rows, rows * 8}) {
    constexpr std::size_t dim = 12;
    const std::size_t keys = n < 300 ? n : 300;
    std::vector<T> q(queries * dim, T(0.5)), k(keys * dim, T(0.25)), result(queries * dim);
    rapt_attention_options attention = attention_options<T>();
    attention.q_len = queries;
    attention.kv_len = keys;
    attention.qk_dim = dim;
    attention.softcap = 20;
    std::size_t bytes = 0, tasks = 0, length = 0;
    rapt_attention_workspace(&attention, &bytes);
    rapt_attention_partial_tasks(&attention, &tasks, &length);
    std::vector<unsigned char> workspace(bytes);
    std::vector<T> partials(length + 1);
    watch("attention", [&](WatchedCall &call) {
      call(rapt_attention, q.data(), k.data(), k.data(), result.data(), &attention, workspace.data(), bytes);
    });
    rapt_attention_partial(q.data(), k.data(), k.data(), partials.data(), &attention, 0, tasks,
                           workspace.data(), bytes);
    watch("attention_merge", [&](WatchedCall &call) {
      call(rapt_attention_merge, partials.data(), result.data(), &attention, std::size_t{0}, std::size_t{1},
           workspace.data(), bytes);
    });
    rapt_attention_backward_workspace(&attention, &bytes);
    workspace.resize(bytes);
    std::vector<T> lse(queries, T(1)), dq(q.size()), dk(k.size()), dv(k.size());
    attention.lse = lse.data();
    rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;
    gradients.out = gradients.dout = result.data();
    gradients.dq = dq.data();
    gradients.dk = dk.data();
    gradients.dv = dv.data();
    watch("attention_backward", [&](WatchedCall &call) {
      call(rapt_attention_backward, q.data(), k.data(), k.data(), &attention, &gradients, workspace.data(),
           bytes);
    });
  }
  // One row takes its weights as they are packed; many rows are computed in tiles.
  for (const std::size_t layer_rows : {std::size_t{1}, rows * 4}) {
    rapt_linear_options layer{};
    layer.size = sizeof layer;
    layer.x_type = Api<T>::type;
    layer.rows = layer_rows;
    layer.in_features = n < 300 ? n + 1 : 300;
    layer.out_features = 70;
    std::vector<T> x(layer_rows * layer.in_features, T(0.5)), y(layer_rows * 70);
    std::size_t bytes = 0, packed_bytes = 0;
    rapt_linear_packed_length(&layer, &packed_bytes);
    std::vector<T> w(packed_bytes / sizeof(T), T(0.25));
    rapt_linear_workspace(&layer, &bytes);
    std::vector<unsigned char> workspace(bytes);
    for (const int packed : {0, 1}) {
      layer.packed_w = packed;
      watch("linear", [&](WatchedCall &call) {
        call(rapt_linear, x.data(), w.data(), y.data(), &layer, workspace.data(), bytes);
      });
    }
    std::vector<T> plain(70 * layer.in_features, T(0.25));
    rapt_linear_pack(plain.data(), 0, 70, &layer, w.data(), packed_bytes);
    watch("linear_unpack", [&](WatchedCall &call) {
      CHECK(call(rapt_linear_unpack, w.data(), packed_bytes, std::size_t{0}, std::size_t{70}, &layer,
                 plain.data(), nullptr, nullptr, nullptr, nullptr) == RAPT_OK);
    });
  }
  rapt_norm_options norm = RAPT_NORM_OPTIONS_INIT;
  norm.type = Api<T>::type;
  norm.rows = rows;
  norm.cols = n;
  norm.weight = b.data();
  rapt_norm_backward_options norm_back = RAPT_NORM_BACKWARD_OPTIONS_INIT;
  norm_back.type = norm.type;
  norm_back.rows = rows;
  norm_back.cols = n;
  norm_back.weight = b.data();
  norm_back.dweight = bias.data();
  watch("rms_norm", [&](WatchedCall &call) { call(rapt_rms_norm, a.data(), out.data(), &norm); });
  watch("layer_norm", [&](WatchedCall &call) { call(rapt_layer_norm, a.data(), out.data(), &norm); });
  watch("rms_norm_backward",
        [&](WatchedCall &call) { call(rapt_rms_norm_backward, a.data(), a.data(), out.data(), &norm_back); });
  watch("layer_norm_backward", [&](WatchedCall &call) {
    call(rapt_layer_norm_backward, a.data(), a.data(), out.data(), &norm_back);
  });
  for (const int layout : {RAPT_ROPE_HALVES, RAPT_ROPE_PAIRS}) {
    rapt_rope_options turning{};
    turning.size = sizeof turning;
    turning.type = Api<T>::type;
    turning.layout = layout;
    turning.batch = turning.heads = 1;
    turning.tokens = rows;
    turning.head_dim = n + 2;
    turning.rotary_dim = (n + 2) / 2 * 2;
    const std::vector<double> frequencies(turning.rotary_dim / 2, 0.1);
    turning.frequencies = frequencies.data();
    std::vector<T> x(rows * (n + 2), T(0.5)), y(x.size());
    watch("rope", [&](WatchedCall &call) { call(rapt_rope, x.data(), y.data(), &turning); });
  }
  for (int operation = RAPT_SUM; operation <= RAPT_ARGMAX; ++operation) {
    for (const std::uint32_t reduced : {1u, 2u}) {
      rapt_reduce_options reducing = RAPT_REDUCE_OPTIONS_INIT;
      reducing.operation = operation;
      reducing.type = Api<T>::type;
      reducing.reduced = reduced;
      reducing.dims = 2;
      reducing.shape[0] = rows;
      reducing.shape[1] = n + 2;
      const std::vector<T> x(rows * (n + 2), T(0.5));
      std::vector<std::int64_t> y(rows + n + 2);
      watch("reduce", [&](WatchedCall &call) { call(rapt_reduce, x.data(), y.data(), &reducing); });
    }
  }
  {
    rapt_causal_convolution_options tokens = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
    tokens.type = Api<T>::type;
    tokens.silu = 1;
    tokens.batch = 1;
    tokens.tokens = rows;
    tokens.channels = n;
    tokens.taps = 3;
    const std::vector<T> x(rows * n, T(0.5)), w(3 * n, T(0.25));
    std::vector<T> state(2 * n), y(rows * n);
    watch("causal_convolution", [&](WatchedCall &call) {
      call(rapt_causal_convolution, x.data(), w.data(), state.data(), y.data(), &tokens);
    });
  }
  if constexpr (std::is_same_v<T, float>) {
    rapt_delta_rule_options tokens = RAPT_DELTA_RULE_OPTIONS_INIT;
    tokens.tokens = rows;
    tokens.key_dim = tokens.value_dim = n;
    const std::vector<float> x(rows * n, 0.25f), gates(rows, -0.5f);
    tokens.g = tokens.beta = gates.data();
    std::vector<float> state(n * n, 0.5f), y(rows * n);
    tokens.state = tokens.final_state = state.data();
    std::size_t bytes = 0;
    (void)rapt_delta_rule_workspace(&tokens, &bytes);
    std::vector<unsigned char> workspace(bytes);
    for (const std::size_t count : {rows, std::size_t{1}}) {
      tokens.tokens = count;
      watch("delta_rule", [&](WatchedCall &call) {
        call(rapt_delta_rule, x.data(), x.data(), x.data(), y.data(), &tokens, workspace.data(),
             workspace.size());
      });
    }
    rapt_delta_rule_gradients gradients = RAPT_DELTA_RULE_GRADIENTS_INIT;
    std::vector<float> dk(rows * n), dv(rows * n), dg(rows), dbeta(rows), dstate(n * n);
    tokens.tokens = rows;
    gradients.dout = x.data();
    gradients.dq = y.data(), gradients.dk = dk.data(), gradients.dv = dv.data();
    gradients.dg = dg.data(), gradients.dbeta = dbeta.data(), gradients.dstate = dstate.data();
    (void)rapt_delta_rule_backward_workspace(&tokens, &bytes);
    workspace.resize(bytes);
    watch("delta_rule_backward", [&](WatchedCall &call) {
      call(rapt_delta_rule_backward, x.data(), x.data(), x.data(), &tokens, &gradients, workspace.data(),
           workspace.size());
    });
  }
  for (const int operation : {RAPT_SUM, RAPT_PRODUCT}) {
    for (const std::size_t axis : {0u, 1u}) {
      rapt_scan_options scanning = RAPT_SCAN_OPTIONS_INIT;
      scanning.operation = operation;
      scanning.type = Api<T>::type;
      scanning.axis = axis;
      scanning.dims = 2;
      scanning.shape[0] = rows;
      scanning.shape[1] = n + 2;
      const std::vector<T> x(rows * (n + 2), T(0.5));
      std::vector<T> y(x.size());
      watch("scan", [&](WatchedCall &call) { call(rapt_scan, x.data(), y.data(), &scanning); });
    }
  }
  // A call with a bad argument returns by another path.
  watch("softmax, bad stride", [&](WatchedCall &call) {
    call(Api<T>::softmax, a.data(), std::ptrdiff_t{-1}, out.data(), stride, rows, n, nullptr);
  });
}

// Calls layers of n quantized weights an output. One row takes packed codes as they are; few rows and many rows
// are tiles, for which codes become numbers at different times.
template <class Watch>
void watch_quantized(std::size_t n, Watch &&watch) {
  constexpr std::size_t outputs = 70, most_rows = 14;
  if (n == 0) return;
  const std::size_t inputs = n < 600 ? n : 600, groups = inputs / 32 + 1;
  const std::vector<float> x(most_rows * inputs, 0.5f), numbers(outputs * groups, 0.25f);
  const std::vector<std::uint8_t> w(outputs * inputs, 0x5a), zeros(outputs * groups, 7);
  std::vector<float> y(most_rows * outputs);
  for (const rapt_type type : {RAPT_I8, RAPT_U4, RAPT_U8}) {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      for (const std::size_t layer_rows : {std::size_t{1}, rows, most_rows}) {
        rapt_linear_options layer{};
        layer.size = sizeof layer;
        layer.w_type = type;
        layer.arithmetic = arithmetic;
        layer.rows = layer_rows;
        layer.in_features = inputs;
        layer.out_features = outputs;
        layer.scale_group = 32;
        layer.w_scales = layer.w_offsets = numbers.data();
        if (type != RAPT_I8) layer.w_zeros = zeros.data();
        std::size_t bytes = 0, packed_bytes = 0;
        rapt_linear_packed_length(&layer, &packed_bytes);
        rapt_linear_workspace(&layer, &bytes);
        std::vector<unsigned char> workspace(bytes), packed(packed_bytes);
        watch("linear_quantized", [&](WatchedCall &call) {
          call(rapt_linear, x.data(), w.data(), y.data(), &layer, workspace.data(), bytes);
        });
        watch("linear_pack", [&](WatchedCall &call) {
          call(rapt_linear_pack, w.data(), std::size_t{0}, outputs, &layer, packed.data(), packed_bytes);
        });
        layer.packed_w = 1;
        layer.w_scales = layer.w_offsets = nullptr;
        layer.w_zeros = nullptr;
        std::vector<float> scales(numbers.size()), offsets(numbers.size());
        std::vector<float> wide(layer_rows * inputs);
        std::vector<std::uint8_t> back(w.size());
        watch("linear_unpack, quantized", [&](WatchedCall &call) {
          CHECK(call(rapt_linear_unpack, packed.data(), packed_bytes, std::size_t{0}, outputs, &layer,
                     back.data(), scales.data(), nullptr, offsets.data(), nullptr) == RAPT_OK);
        });
        if (type == RAPT_U4) {
          rapt_linear_options of_words = layer;
          of_words.in_features = inputs / 8 * 8 + 8;
          of_words.out_features = 64;
          const std::vector<std::int32_t> words((inputs + 8) * 8, 0x12345678),
              of_inputs(of_words.in_features);
          const std::vector<float> of_scales(64, 0.25f);
          of_words.scale_group = 0;  // all inputs have group 0
          of_words.packed_w = 0;
          of_words.w_scales = of_scales.data();
          of_words.w_zeros = zeros.data();
          std::size_t length = 0;
          rapt_linear_packed_length(&of_words, &length);
          of_words.w_scales = nullptr;
          of_words.w_zeros = nullptr;
          std::vector<unsigned char> to(length);
          std::vector<std::size_t> order(of_words.in_features);
          watch("linear_pack_words", [&](WatchedCall &call) {
            CHECK(call(rapt_linear_pack_words, words.data(), words.data(), of_scales.data(), of_inputs.data(),
                       RAPT_WORDS_GPTQ, &of_words, to.data(), length, order.data()) == RAPT_OK);
          });
        }
        watch("linear_packed_rows", [&](WatchedCall &call) {
          CHECK(call(rapt_linear_packed_rows, packed.data(), packed_bytes, nullptr, layer_rows, &layer,
                     wide.data(), RAPT_F32, std::ptrdiff_t{0}) == RAPT_OK);
        });
        watch("linear_quantized, packed", [&](WatchedCall &call) {
          call(rapt_linear, x.data(), packed.data(), y.data(), &layer, workspace.data(), bytes);
        });
      }
    }
  }
}

template <class Watch>
void watch_choice(Watch &&watch) {
  watch("status_text", [](WatchedCall &call) { call(rapt_status_text, RAPT_BAD_X); });
  watch("version", [](WatchedCall &call) { call(rapt_version); });
  watch("bits_version", [](WatchedCall &call) { call(rapt_bits_version); });
  watch("isa_count", [](WatchedCall &call) { call(rapt_isa_count); });
  watch("isa_name", [](WatchedCall &call) { call(rapt_isa_name, std::size_t{0}); });
  watch("isa_usable", [](WatchedCall &call) { call(rapt_isa_usable, "scalar"); });
  watch("active_isa", [](WatchedCall &call) { call(rapt_active_isa); });
  watch("kernel_isa", [](WatchedCall &call) { call(rapt_kernel_isa, "softmax_f32"); });
  watch("force_isa", [](WatchedCall &call) { call(rapt_force_isa, rapt_active_isa()); });
}

// The lengths have vector bodies, several unrolled rounds, and tails.
constexpr std::size_t lengths[] = {0, 1, 7, 16, 64, 100, 333, 2100};

// Calls every function under the default and a foreign control word. Returns the number of calls.
std::size_t check_preserved() {
  std::size_t calls = 0;
  for (const bool foreign_control : {false, true}) {
    CAPTURE(foreign_control);
    const auto watch = [&](const char *name, auto &&make_call) {
      CAPTURE(std::string(name));
      WatchedCall call(foreign_control);
      make_call(call);
      CHECK(call.changed() == "");
      calls += 1;
    };
    for (const std::size_t n : lengths) {
      CAPTURE(n);
      watch_kernels<float>(n, watch);
      watch_kernels<double>(n, watch);
      watch_quantized(n, watch);
    }
    watch_choice(watch);
  }
  return calls;
}

}  // namespace

// The first call of the process asks the CPU for its features and chooses the level.
TEST_CASE("the first call preserves the registers") {
  const float x[3] = {1, 2, 3};
  WatchedCall call(false);
  CHECK(call(rapt_dot_f32, x, x, std::size_t{3}) == 14.0f);
  CHECK(call.changed() == "");
}

TEST_CASE("arguments and results pass through the watch") {
  const double q[2] = {1, 2}, matrix[4] = {1, 10, 100, 1000};
  double out[2] = {};
  WatchedCall dot_rows(false);
  dot_rows(rapt_dot_rows_f64, q, matrix, std::ptrdiff_t{2}, std::size_t{2}, std::size_t{2}, 0.5, out);
  CHECK(out[0] == 10.5);
  CHECK(out[1] == 1050.0);
  float y[2] = {0.5f, 0.5f}, dy[2] = {1, 0}, dx[2] = {9, 9};
  WatchedCall backward(false);
  CHECK(backward(rapt_softmax_backward_f32, y, std::ptrdiff_t{2}, dy, std::ptrdiff_t{2}, dx,
                 std::ptrdiff_t{2}, std::size_t{1}, std::size_t{2}, 1.0f) == RAPT_OK);
  CHECK(dx[0] == 0.25f);
  CHECK(dx[1] == -0.25f);
}

TEST_CASE("the watch sees a register that is not preserved") {
  for (const auto &[name, function] : misbehaving_functions()) {
    WatchedCall call(false);
    call(function);
    CHECK(call.changed().find(name) != std::string::npos);
  }
}

TEST_CASE("callee-saved registers and control words are preserved") {
  std::size_t calls = 0;
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    calls += check_preserved();
  });
  std::printf("%zu calls kept the callee-saved registers and control words\n", calls);
}

TEST_CASE("no call leaves the upper halves of vector registers in use") {
  const std::string obstacle = why_upper_halves_are_unknown();
  if (!obstacle.empty()) {
    std::printf("skipped: upper halves of vector registers: %s\n", obstacle.c_str());
    return;
  }
  std::size_t calls = 0;
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    const auto watch = [&](const char *name, auto &&make_call) {
      CAPTURE(std::string(name));
      WatchedCall call(false);
      call.watch_upper_halves();
      make_call(call);
      CHECK_FALSE(call.upper_halves_in_use());
      calls += 1;
    };
    for (const std::size_t n : lengths) {
      CAPTURE(n);
      watch_kernels<float>(n, watch);
      watch_kernels<double>(n, watch);
      watch_quantized(n, watch);
    }
  });
  std::printf("%zu calls left the upper halves of the vector registers clean\n", calls);
}

#else

TEST_CASE("registers") { std::printf("skipped: registers: no watch is written for this processor\n"); }

#endif
