// Fuzzes attention with every option. The input chooses element types, layouts, pages, offsets and bad
// arguments. It also chooses between a whole call, task by task, and split keys.
#include "fuzz/support/attention_fuzz.hpp"

using namespace rapt::test;

namespace {

constexpr rapt_type types_of_f32[] = {RAPT_F32, RAPT_F16, RAPT_BF16};

template <class Use>
void with_zero_of(rapt_type type, Use &&use) {
  switch (type) {
    case RAPT_F64:
      return use(double{});
    case RAPT_F16:
      return use(F16{});
    case RAPT_BF16:
      return use(BF16{});
    default:
      return use(float{});
  }
}
bool has_scales(rapt_type type) { return type == RAPT_I8 || type == RAPT_I4; }
// Blocks of 32 numbers, in the bytes that the list below has for their type.
struct BlockType {
  rapt_type type;
  std::size_t bytes;
};
constexpr BlockType blocks[] = {{RAPT_Q8_0, 34}, {RAPT_Q4_0, 18}, {RAPT_Q5_1, 24}, {RAPT_MXFP4, 17}};
std::size_t block_bytes(rapt_type type) {
  for (const BlockType &of : blocks) {
    if (of.type == type) return of.bytes;
  }
  return 0;
}
std::size_t size_of(rapt_type type) {
  const bool is_byte = has_scales(type) || block_bytes(type) != 0;
  return type == RAPT_F64 ? 8 : type == RAPT_F32 ? 4 : is_byte ? 1 : 2;
}
// Returns the bytes of `count` elements, of which strides count those of RAPT_I4 as numbers.
std::size_t bytes_of(rapt_type type, std::size_t count) {
  return type == RAPT_I4 ? count / 2 : count * size_of(type);
}
// Returns the elements of a row of `dim` numbers: bytes of blocks.
std::size_t row_of(rapt_type type, std::size_t dim) {
  return block_bytes(type) == 0 ? dim : dim / 32 * block_bytes(type);
}
// Keys and values of two types, which calls dequantize.
constexpr rapt_type dequantized[][2] = {{RAPT_Q8_0, RAPT_Q8_0},
                                        {RAPT_Q4_0, RAPT_Q5_1},
                                        {RAPT_F16, RAPT_Q8_0},
                                        {RAPT_MXFP4, RAPT_BF16},
                                        {RAPT_F32, RAPT_F16}};

// Says how the constructor's `draw` chooses element types. With `plain`, all elements have type T.
enum class Kind { plain, mixed_types, integers_or_bf16 };

template <class T>
class ForwardFuzz : AttentionFuzz<T> {
  using Base = AttentionFuzz<T>;
  using Base::input_, Base::o_, Base::q_, Base::k_, Base::v_, Base::rules_, Base::placement_,
      Base::workspace_size_;
  using Base::memory, Base::must_fail;
  using typename Base::Size;

 public:
  // With mixed_types, the base-3 digits of `draw` are the types of q, of k and v, and of out. From 27 on, keys and
  // values are dequantized. With integers_or_bf16 and `draw` below 18, keys and values are int8, and the digits are the
  // types of q and out. int8 has a scale per token, or per group if `draw` is at least 9. From 18 on, arithmetic is in
  // bf16; from 24 on, values have 4 bits, and keys too where `draw` is a multiple of 4.
  explicit ForwardFuzz(FuzzInput &input, Kind kind = Kind::plain, unsigned draw = 0) : Base(input) {
    if (kind == Kind::plain) return;
    q_type_ = types_of_f32[draw % 3];
    out_type_ = types_of_f32[draw / 3 % 3];
    if (kind == Kind::mixed_types) {
      kv_type_ = v_type_ = types_of_f32[draw / 3 % 3];
      out_type_ = types_of_f32[draw / 9 % 3];
      o_.arithmetic = RAPT_ARITHMETIC_F32;
      if (draw >= 27) kv_type_ = dequantized[draw - 27][0], v_type_ = dequantized[draw - 27][1];
    } else if (draw < 18) {
      kv_type_ = v_type_ = RAPT_I8;
      o_.scale_group = draw < 9 ? 0 : 32;
    } else if (draw >= 24) {
      v_type_ = RAPT_I4;
      kv_type_ = draw % 4 == 0 ? RAPT_I4 : RAPT_F16;
      o_.scale_group = draw % 2 == 0 ? 32 : 0;
    } else {
      q_type_ = kv_type_ = v_type_ = RAPT_BF16;
      o_.arithmetic = RAPT_ARITHMETIC_BF16;
    }
    o_.q_type = q_type_;
    o_.kv_type = kv_type_;
    if (v_type_ != kv_type_) o_.v_type = v_type_;
    o_.out_type = out_type_;
  }

  void run() {
    this->choose_shape(700, 140);
    if (o_.scale_group != 0 || dequantizes()) {
      o_.qk_dim = (o_.qk_dim + 31) / 32 * 32;
      o_.v_dim = (o_.v_dim + 31) / 32 * 32;
    }
    choose_sequences();
    if (!place()) return;
    choose_scores();
    this->choose_visibility();
    spoil();
    if (!stop_unless_failing_) this->choose_starts();
    if (!stop_unless_failing_) this->choose_lists();
    if (o_.key_lists) rapt_attention_workspace(&o_, &workspace_size_);
    call();
  }

 private:
  bool dequantizes() const {
    return kv_type_ != v_type_ || kv_type_ == RAPT_I4 || block_bytes(kv_type_) != 0;
  }

  // Chooses pages, packed keys, offsets and lengths.
  void choose_sequences() {
    const unsigned kind = input_.byte() % 8;
    use_pages_ = kind == 1 || kind == 2;
    o_.packed_keys = !dequantizes() && (kind == 2 || kind == 4);
    if (use_pages_) o_.page_size = o_.packed_keys ? 64 : 16 * (1 + input_.byte() % 5);
    const bool use_kv_lengths = input_.one_in(3), use_q_offsets = input_.one_in(4);
    const std::size_t pages_of_all =
        use_pages_ ? o_.batch * ((o_.kv_len + o_.page_size - 1) / o_.page_size) : 0;
    sequences_ = this->place_sequences(use_kv_lengths, pages_of_all);
    for (std::size_t i = 0; i < pages_of_all; ++i) {
      sequences_.end[i] = static_cast<std::int32_t>(input_.byte() % pages);
    }
    if (use_q_offsets) o_.q_offsets = sequences_.q_offsets;
    if (kind == 3) o_.kv_offsets = sequences_.kv_offsets;
    if (use_pages_) o_.block_table = sequences_.end;
  }

  bool place() {
    const Size q = this->queries_of(o_.qk_dim), out = this->queries_of(o_.v_dim);
    Size k = this->keys_of(row_of(kv_type_, o_.qk_dim));
    if (use_pages_) k.batch = pages, k.tokens = o_.page_size;
    Size v = k;
    v.row = row_of(v_type_, o_.v_dim);
    if (o_.packed_keys) k = {k.batch, k.heads, 1, (k.tokens + 63) / 64 * 64 * o_.qk_dim};
    const bool in_place = o_.v_dim == o_.qk_dim && input_.one_in(3) && q_type_ == out_type_;
    const std::size_t lse = out.batch * out.heads * out.tokens;
    for (const std::size_t count :
         {q.elements(), k.elements(), v.elements(), (in_place ? 0 : out.elements()) + lse}) {
      if (count > Base::most_elements) return false;
    }
    // The log-sum-exp follows the output in memory, so that one range holds all results.
    const std::size_t out_bytes =
        (out.elements() * size_of(out_type_) + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    results_bytes_ = out_bytes + lse * sizeof(T);
    unsigned char *const q_at = in_place ? put(Base::q_at, results_bytes_, sizeof(T))
                                         : put(Base::q_at, q.elements() * size_of(q_type_), size_of(q_type_));
    unsigned char *const k_at = put(Base::k_at, bytes_of(kv_type_, k.elements()), size_of(kv_type_));
    unsigned char *const v_at = put(Base::v_at, bytes_of(v_type_, v.elements()), size_of(v_type_));
    fill(q_at, q.elements(), q_type_);
    fill(k_at, k.elements(), kv_type_);
    fill(v_at, v.elements(), v_type_);
    q_ = q_at, k_ = k_at, v_ = v_at;
    if (has_scales(v_type_)) place_kv_scales(k.elements(), v.elements());
    out_ = in_place ? q_at : put(Base::results_at, results_bytes_, sizeof(T));
    out_elements_ = out.elements();
    lse_ = reinterpret_cast<T *>(out_ + out_bytes);
    lse_elements_ = lse;
    o_.lse = lse_;
    this->set_strides(q, k, v, out);
    return true;
  }

  unsigned char *put(typename Base::Operand operand, std::size_t bytes, std::size_t alignment) {
    const std::size_t offset = input_.one_in(2) ? input_.below(64 / alignment) * alignment : 0;
    return memory().place(operand, bytes, placement_, offset);
  }
  void fill(unsigned char *data, std::size_t count, rapt_type type) {
    if (size_of(type) == 1) return input_.fill(reinterpret_cast<std::int8_t *>(data), bytes_of(type, count));
    with_zero_of(type, [&]<class E>(E) { input_.fill(reinterpret_cast<E *>(data), count); });
  }

  // Scales have the same order as the elements that they scale, in every layout.
  void place_kv_scales(std::size_t k_elements, std::size_t v_elements) {
    const bool has_k_scales = has_scales(kv_type_);
    const std::size_t k_count = has_k_scales ? k_elements / (o_.scale_group ? o_.scale_group : o_.qk_dim) : 0;
    const std::size_t v_count = v_elements / (o_.scale_group ? o_.scale_group : o_.v_dim);
    auto *scales = reinterpret_cast<float *>(
        put(Base::kv_scales_at, (k_count + v_count) * sizeof(float), sizeof(float)));
    fill(reinterpret_cast<unsigned char *>(scales), k_count + v_count, RAPT_F32);
    if (has_k_scales) o_.k_scales = scales;
    o_.v_scales = scales + k_count;
  }

  void choose_scores() {
    this->choose_scale();
    const unsigned wanted = input_.byte();
    // All options that need numbers share one array. All queries share one row of the bias.
    const std::size_t count = std::max({o_.kv_len, o_.q_heads, o_.q_len, std::size_t{1}});
    T *numbers = reinterpret_cast<T *>(memory().place(Base::numbers_at, count * sizeof(T), placement_, 0));
    input_.fill(numbers, count);
    if ((wanted & 7) == 1) {
      o_.bias = numbers;
      o_.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
    }
    if ((wanted & 24) == 8) this->choose_query_scales(numbers);
    if ((wanted & 96) == 32) o_.alibi_slopes = numbers;
    if ((wanted & 128) != 0) o_.sinks = numbers;
  }

  // Makes an argument invalid in some runs.
  void spoil() {
    rapt_attention_workspace(&o_, &workspace_size_);
    switch (input_.byte() % 64) {
      case 1:
        o_.kv_heads = o_.q_heads + 1;
        return must_fail(RAPT_BAD_HEADS);
      case 2:
        o_.qk_dim = input_.one_in(2) ? 0 : SIZE_MAX - input_.byte();
        return must_fail(RAPT_BAD_DIM);
      case 3:
        o_.causal = input_.one_in(2) ? 4 : -1;
        return must_fail(RAPT_BAD_CAUSAL);
      case 4:
        o_.causal = input_.byte() % 3;
        o_.causal_offset = 1;
        return must_fail(RAPT_BAD_CAUSAL_OFFSET);
      case 5:
        o_.scale = FuzzInput::special<double>(2 + input_.byte() % 3);
        return must_fail(RAPT_BAD_SCALE);
      case 6:
        o_.softcap = -1;
        return must_fail(RAPT_BAD_SOFTCAP);
      case 7:
        o_.batch = SIZE_MAX / (1 + input_.byte());
        return must_fail(RAPT_BAD_SIZE);
      case 8:
        o_.size -= 1 + input_.byte();
        return must_fail(RAPT_BAD_OPTIONS_SIZE);
      case 9:
        workspace_size_ -= 1 + input_.byte();
        return must_fail(RAPT_BAD_WORKSPACE);
      case 10:
        if (!o_.kv_lengths) return;
        sequences_.kv_lengths[0] = input_.one_in(2) ? -1 : static_cast<std::int32_t>(o_.kv_len) + 1;
        return must_fail(RAPT_BAD_KV_LENGTHS);
      case 11:
        if (!use_pages_) return;
        o_.page_size = 0;
        return must_fail(RAPT_BAD_PAGE_SIZE);
      case 12:
        if (!use_pages_ || o_.kv_lengths || o_.kv_len == 0) return;
        sequences_.end[0] = -1;
        return must_fail(RAPT_BAD_BLOCK_TABLE);
      case 13:
        o_.kv_offsets = o_.kv_lengths = nullptr;
        o_.block_table = nullptr;
        o_.page_size = 0;
        o_.packed_keys = 0;
        o_.k_strides = {-1, -1, -1};
        if (o_.q_len > 0 && o_.kv_len > 1) must_fail(RAPT_BAD_K_STRIDES);
        stop_unless_failing_ = true;
        return;
      case 14:
        if (has_scales(v_type_)) return;  // the status may name the scales instead
        o_.kv_type = std::is_same_v<T, double> ? RAPT_F16 : RAPT_F64;
        return must_fail(RAPT_BAD_TYPE);
      case 15:
        o_.out_type = std::is_same_v<T, double> ? RAPT_F32 : RAPT_I8;
        return must_fail(RAPT_BAD_TYPE);
      default:
        return;
    }
  }

  void call() {
    if (stop_unless_failing_ && rules_.must_fail == 0) return;
    const bool any_work = o_.batch > 0 && o_.q_len > 0;
    // If the output is empty, the call may still report an overlap.
    if (!any_work) rules_.may_fail |= only(RAPT_BAD_OVERLAP);
    // The options end at a guard page, so that reading past them faults.
    auto *given = reinterpret_cast<rapt_attention_options *>(
        memory().place(Base::options_at, sizeof o_, Placement::ends_at_guard, 0));
    std::memcpy(given, &o_, sizeof o_);
    const auto append_results = [&](std::vector<std::uint64_t> &bits) {
      with_zero_of(out_type_, [&]<class E>(E) {
        append_bits(bits, reinterpret_cast<const E *>(out_), 0, 1, out_elements_);
      });
      append_bits(bits, lse_, 0, 1, lse_elements_);
    };
    this->call_on_every_level("attention", {out_, 0, 1, results_bytes_}, append_results,
                              [&](void *space, unsigned cut) {
                                if (cut % 3 == 0)
                                  return rapt_attention(q_, k_, v_, out_, given, space, workspace_size_);
                                return cut % 3 == 1 ? by_tasks(given, space) : by_keys(given, space);
                              });
  }

  rapt_status by_tasks(const rapt_attention_options *given, void *space) {
    std::size_t tasks = 0;
    const rapt_status status = rapt_attention_tasks(given, &tasks);
    return this->run_tasks(status, tasks, [&](std::size_t first, std::size_t end) {
      return rapt_attention_run(q_, k_, v_, out_, given, first, end, space, workspace_size_);
    });
  }
  rapt_status by_keys(const rapt_attention_options *given, void *space) {
    static std::vector<T> partials;
    std::size_t tasks = 0, partial_tasks = 0, length = 0;
    rapt_status status = rapt_attention_partial_tasks(given, &partial_tasks, &length);
    partials.assign(length + 1, std::numeric_limits<T>::quiet_NaN());
    const std::size_t half = partial_tasks / 2;
    for (const auto &[first, end] : {std::pair{half, partial_tasks}, {std::size_t{0}, half}}) {
      if (status != RAPT_OK) return status;
      status = rapt_attention_partial(q_, k_, v_, partials.data(), given, first, end, space, workspace_size_);
    }
    if (status == RAPT_OK) status = rapt_attention_tasks(given, &tasks);
    if (status != RAPT_OK) return status;
    return rapt_attention_merge(partials.data(), out_, given, 0, tasks, space, workspace_size_);
  }

  static constexpr std::size_t pages = 4;

  rapt_type q_type_ = Api<T>::type, kv_type_ = q_type_, v_type_ = q_type_, out_type_ = q_type_;
  bool use_pages_ = false, stop_unless_failing_ = false;
  std::size_t results_bytes_ = 0, out_elements_ = 0, lse_elements_ = 0;
  typename Base::Sequences sequences_{};
  unsigned char *out_ = nullptr;
  T *lse_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  // Values of `draw` from 0xc0 on select other types than f32 and f64. Older corpus files begin with less.
  const unsigned draw = input.byte();
  if (draw >> 5 == 6) {
    ForwardFuzz<float>(input, Kind::mixed_types, draw % 32).run();
  } else if (draw >> 5 == 7) {
    ForwardFuzz<float>(input, Kind::integers_or_bf16, draw % 32).run();
  } else if (draw % 2 != 0) {
    ForwardFuzz<double>(input).run();
  } else {
    ForwardFuzz<float>(input).run();
  }
  return 0;
}
