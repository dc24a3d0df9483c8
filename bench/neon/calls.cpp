// Makes kernel calls whose instructions are counted. `calls` lists their names; `calls NAME TIMES` makes one
// of them TIMES times.
#include <rapt/rapt.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// Aligns arrays to 64 bytes, so that every run executes the same number of instructions.
template <class T>
struct Aligned {
  using value_type = T;
  T *allocate(std::size_t n) { return static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T *p, std::size_t) { ::operator delete(p, std::align_val_t(64)); }
  bool operator==(const Aligned &) const = default;
};
using Numbers = std::vector<float, Aligned<float>>;

// Returns pseudo-random numbers in [-2, 2).
Numbers numbers(std::size_t count) {
  Numbers made(count);
  unsigned state = 1;
  for (float &x : made) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / static_cast<float>(1u << 22) - 2.0f;
  }
  return made;
}

void check(rapt_status status) {
  if (status == RAPT_OK) return;
  std::fprintf(stderr, "%s\n", rapt_status_text(status));
  std::exit(1);
}

using Call = std::function<void()>;

using RowsFunction = rapt_status (*)(const float *, std::ptrdiff_t, float *, std::ptrdiff_t, std::size_t,
                                     std::size_t, const rapt_softmax_options *);

Call rows_call(RowsFunction function, std::size_t rows, std::size_t cols) {
  return [=, x = numbers(rows * cols), y = Numbers(rows * cols)]() mutable {
    const auto stride = static_cast<std::ptrdiff_t>(cols);
    check(function(x.data(), stride, y.data(), stride, rows, cols, nullptr));
  };
}

Call attention_call(std::size_t heads, std::size_t q_len, std::size_t kv_len, std::size_t dim) {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.q_heads = heads;
  o.kv_heads = 1;
  o.q_len = q_len;
  o.kv_len = kv_len;
  o.qk_dim = dim;
  std::size_t bytes = 0;
  check(rapt_attention_workspace(&o, &bytes));
  const std::size_t queries = heads * q_len * dim, keys = kv_len * dim;
  return [=, q = numbers(queries), k = numbers(keys), v = numbers(keys), out = Numbers(queries),
          workspace = Numbers(bytes / sizeof(float) + 1)]() mutable {
    check(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(), bytes));
  };
}

// Calls rapt_linear with packed weights of 256 outputs by 1024 inputs. Quantized ones have scales of
// `scale_group` inputs.
Call linear_call(std::size_t rows, rapt_type x_type, rapt_type w_type, rapt_arithmetic arithmetic,
                 std::size_t scale_group = 0) {
  constexpr std::size_t outputs = 256, inputs = 1024;
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.x_type = x_type;
  o.w_type = w_type;
  o.y_type = RAPT_F32;
  o.arithmetic = arithmetic;
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs;
  o.scale_group = scale_group;
  // Zeros are elements of every type, and the number of instructions does not depend on the elements.
  const Numbers w(outputs * inputs), scales(outputs * inputs / 16, 1.0f);
  if (scale_group != 0) o.w_scales = scales.data();
  std::size_t bytes = 0;
  check(rapt_linear_packed_length(&o, &bytes));
  Numbers packed(bytes / sizeof(float) + 1);
  check(rapt_linear_pack(w.data(), 0, outputs, &o, packed.data(), bytes));
  o.w_scales = nullptr;
  o.packed_w = 1;
  check(rapt_linear_workspace(&o, &bytes));
  return [=, x = Numbers(rows * inputs), packed = std::move(packed), y = Numbers(rows * outputs),
          workspace = Numbers(bytes / sizeof(float) + 1)]() mutable {
    check(rapt_linear(x.data(), packed.data(), y.data(), &o, workspace.data(), bytes));
  };
}
template <std::size_t rows>
Call linear_f32() {
  return linear_call(rows, RAPT_F32, RAPT_F32, RAPT_ARITHMETIC_F32);
}
template <std::size_t rows>
Call linear_bf16() {
  return linear_call(rows, RAPT_BF16, RAPT_BF16, RAPT_ARITHMETIC_BF16);
}
template <std::size_t rows, rapt_type codes, std::size_t scale_group>
Call linear_i8() {
  return linear_call(rows, RAPT_F32, codes, RAPT_ARITHMETIC_I8, scale_group);
}

struct Case {
  const char *name;
  Call (*make)();
};

const Case cases[] = {
    {"dot 128",
     [] { return Call([a = numbers(128)] { static_cast<void>(rapt_dot_f32(a.data(), a.data(), 128)); }); }},
    {"dot 1536",
     [] { return Call([a = numbers(1536)] { static_cast<void>(rapt_dot_f32(a.data(), a.data(), 1536)); }); }},
    {"dot_rows 64 x 128",
     [] {
       return Call([a = numbers(64 * 128), y = Numbers(64)]() mutable {
         rapt_dot_rows_f32(a.data(), a.data(), 128, 64, 128, 1.0f, y.data());
       });
     }},
    {"scale 1024",
     [] {
       return Call([x = numbers(1024), y = Numbers(1024)]() mutable {
         rapt_scale_f32(x.data(), 3.0f, y.data(), 1024);
       });
     }},
    {"exp 1024",
     [] {
       return Call(
           [x = numbers(1024), y = Numbers(1024)]() mutable { rapt_exp_f32(x.data(), y.data(), 1024); });
     }},
    {"exp_sum 1024",
     [] {
       return Call([x = numbers(1024), y = Numbers(1024)]() mutable {
         static_cast<void>(rapt_exp_sum_f32(x.data(), 1.0f, 2.0f, y.data(), 1024));
       });
     }},
    {"softmax 64 x 8", [] { return rows_call(rapt_softmax_f32, 64, 8); }},
    {"softmax 64 x 64", [] { return rows_call(rapt_softmax_f32, 64, 64); }},
    {"softmax 16 x 1024", [] { return rows_call(rapt_softmax_f32, 16, 1024); }},
    {"log_softmax 16 x 1024", [] { return rows_call(rapt_log_softmax_f32, 16, 1024); }},
    {"decode 512 keys, 1 row", [] { return attention_call(1, 1, 512, 128); }},
    {"decode 512 keys, 2 rows", [] { return attention_call(2, 1, 512, 128); }},
    {"decode 512 keys, 4 rows", [] { return attention_call(4, 1, 512, 128); }},
    {"decode 512 keys, 8 rows", [] { return attention_call(8, 1, 512, 128); }},
    {"prefill 64 x 512 keys", [] { return attention_call(1, 64, 512, 128); }},
    {"linear f32, 1 row", linear_f32<1>},
    {"linear f32, 3 rows", linear_f32<3>},
    {"linear f32, 64 rows", linear_f32<64>},
    {"linear bf16, 1 row", linear_bf16<1>},
    {"linear bf16, 4 rows", linear_bf16<4>},
    {"linear bf16, 64 rows", linear_bf16<64>},
    {"linear i8 by i8, 32s, 1 row", linear_i8<1, RAPT_I8, 32>},
    {"linear i8 by i8, 32s, 4 rows", linear_i8<4, RAPT_I8, 32>},
    {"linear i8 by i8, 32s, 64 rows", linear_i8<64, RAPT_I8, 32>},
    {"linear i8 by i8, 128s, 64 rows", linear_i8<64, RAPT_I8, 128>},
    {"linear i8 by i4, 32s, 1 row", linear_i8<1, RAPT_I4, 32>},
    {"linear i8 by i4, 32s, 4 rows", linear_i8<4, RAPT_I4, 32>},
    {"linear i8 by i4, 32s, 64 rows", linear_i8<64, RAPT_I4, 32>},
    {"linear i8 by i4, 128s, 64 rows", linear_i8<64, RAPT_I4, 128>},
};

}  // namespace

int main(int argc, char **argv) {
  if (rapt_isa_status() != RAPT_OK) {  // another level than RAPT_ISA would be counted
    std::fprintf(stderr, "%s\n", rapt_status_text(rapt_isa_status()));
    return 1;
  }
  for (const Case &c : cases) {
    if (argc < 3) {
      std::puts(c.name);
    } else if (std::string_view(argv[1]) == c.name) {
      const Call call = c.make();
      for (int i = std::atoi(argv[2]); i > 0; --i) call();
      return 0;
    }
  }
  return argc < 3 ? 0 : 2;
}
