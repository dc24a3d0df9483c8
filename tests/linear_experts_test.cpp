// Tests linear layers of several experts: the bits of one rapt_linear() for each expert, for drawn layers, tasks and
// lists of rows; the lists that a router's choice becomes; and the status of each bad argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "support/effort.hpp"
#include "support/expect_status.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Places = std::vector<std::size_t>;

constexpr bool is_quantized(rapt_type type) { return type >= RAPT_I8; }
constexpr bool is_in_blocks(rapt_type type) { return type > RAPT_U4 && type != RAPT_U8; }
constexpr std::size_t size_of(rapt_type type) {
  return type == RAPT_F64 ? 8 : type == RAPT_F32 ? 4 : type == RAPT_F16 || type == RAPT_BF16 ? 2 : 1;
}

// ---- drawn layers

class Layer {
 public:
  explicit Layer(Random &random) : random_(random) {
    draw_types();
    o_.in_features = is_in_blocks(o_.w_type) ? 256 * (1 + random.below(3)) : 1 + random.below(150);
    o_.out_features = 1 + random.below(random.one_in(3) ? 400 : 80);
    e_.size = sizeof e_;
    e_.experts = random.one_in(5) ? 1 : 1 + random.below(9);
    draw_offsets();
    draw_rows();
    draw_weights();
    draw_what_follows();
    REQUIRE(rapt_linear_experts_workspace(&o_, &workspace_size_) == RAPT_OK);
    workspace_.emplace(workspace_size_, placement(), random.below(64));
  }

  // One rapt_linear() for each expert.
  Bytes expected() {
    Bytes y = y_before_;
    for (std::size_t e = 0; e < e_.experts; ++e) {
      const std::size_t first = offsets_[e];
      rapt_linear_options o = o_;
      o.rows = offsets_[e + 1] - first;
      if (o.rows == 0) continue;
      const unsigned char *x = x_.data();
      unsigned char *of_y = y.data();
      const auto at = [](const void *array, std::size_t bytes) -> const void * {
        return array ? static_cast<const unsigned char *>(array) + bytes : nullptr;
      };
      const std::size_t number = o.x_type == RAPT_F64 ? 8 : 4;
      if (o.x_rows) {
        o.x_rows += first;
      } else {
        x += first * x_step_ * size_of(o.x_type);
        if (o.x_scales) o.x_scales += first;
      }
      if (o.y_rows) {
        o.y_rows += first;
      } else {
        of_y += first * y_step_ * size_of(o.y_type);
        o.add = at(o.add, first * y_step_ * size_of(o.y_type));
      }
      o.row_scales = at(o.row_scales, first * number);
      o.bias = at(o.bias, e * bias_step_ * number);
      const std::size_t scales = e * o.out_features * groups_;
      o.w_scales = at(o.w_scales, scales * sizeof(float));
      o.w_offsets = at(o.w_offsets, scales * sizeof(float));
      o.w_zeros = static_cast<const std::uint8_t *>(at(o.w_zeros, scales));
      std::size_t bytes = 0;
      REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
      Bytes workspace(bytes);
      REQUIRE(rapt_linear(x, at(w_->data(), e * w_step_), of_y, &o, workspace.data(), bytes) == RAPT_OK);
    }
    return y;
  }

  void check() {
    const Bytes wanted = expected();
    fill();
    CHECK(run_all() == RAPT_OK);
    CHECK(holds(wanted));
    fill();
    std::size_t tasks = 0;
    REQUIRE(rapt_linear_experts_tasks(&o_, &e_, &tasks) == RAPT_OK);
    CHECK(tasks == count_tasks());
    CHECK(run(0, 0) == RAPT_OK);
    CHECK(holds(y_before_));
    run_in_parts(tasks);
    CHECK(holds(wanted));
    CHECK(run(tasks, tasks + 1) == RAPT_BAD_TASKS);
  }

  // The memory of an expert without rows is not read: another's w of it would be a damaged header or a fault.
  bool any_without_rows() const {
    for (std::size_t e = 0; e < e_.experts; ++e) {
      if (offsets_[e] == offsets_[e + 1]) return true;
    }
    return false;
  }
  std::string text() const {
    const auto number = [](auto value) { return std::to_string(static_cast<std::size_t>(value)) + " "; };
    std::string text = "x " + number(o_.x_type) + "w " + number(o_.w_type) + "y " + number(o_.y_type) +
                       "packed " + number(o_.packed_w) + "inputs " + number(o_.in_features) + "outputs " +
                       number(o_.out_features) + "x_rows " + number(o_.x_rows != nullptr) + "y_rows " +
                       number(o_.y_rows != nullptr) + "offsets ";
    for (const std::size_t offset : offsets_) text += number(offset);
    return text;
  }

 private:
  Placement placement() { return random_.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard; }

  void draw_types() {
    o_.size = sizeof o_;
    o_.w_type = random_.one_of({RAPT_F32, RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_BF16, RAPT_I8,
                                RAPT_I4, RAPT_U4, RAPT_U8, RAPT_Q8_0, RAPT_Q4_K, RAPT_Q6_K, RAPT_IQ4_NL});
    o_.x_type = random_.one_of({RAPT_F32, RAPT_F16, RAPT_BF16});
    if (o_.w_type == RAPT_F64) o_.x_type = RAPT_F64;
    if (o_.w_type == RAPT_BF16 && random_.one_in(2)) o_.x_type = RAPT_BF16;
    o_.y_type = o_.w_type == RAPT_F64 ? RAPT_F64 : random_.one_of({RAPT_F32, RAPT_F16, RAPT_BF16});
    if (is_quantized(o_.w_type) && random_.one_in(2)) o_.arithmetic = RAPT_ARITHMETIC_I8;
    if (o_.arithmetic == RAPT_ARITHMETIC_I8 && random_.one_in(3)) {
      o_.x_type = RAPT_I8;
      o_.x_group = SIZE_MAX;
    }
  }
  // Some experts have no rows, and one may have all.
  void draw_offsets() {
    offsets_.assign(e_.experts + 1, 0);
    const std::size_t way = random_.below(5), the_one = random_.below(e_.experts);
    for (std::size_t e = 0; e < e_.experts; ++e) {
      const std::size_t many = random_.one_in(6) ? random_.below(300) : random_.below(14);
      const bool has_none = way == 0 ? e != the_one : random_.one_in(3);
      offsets_[e + 1] = offsets_[e] + (has_none ? 0 : many);
    }
    e_.offsets = offsets_.data();
    o_.rows = offsets_.back();
  }
  void draw_rows() {
    const std::size_t rows = o_.rows;
    std::size_t x_memory = rows, y_memory = rows;
    if (random_.one_in(2)) {  // the slots of a token share its row
      x_memory = 1 + random_.below(rows + 1);
      for (std::size_t r = 0; r < rows; ++r) x_rows_.push_back(random_.below(x_memory));
      x_rows_.push_back(0);
      o_.x_rows = x_rows_.data();
    }
    if (random_.one_in(2)) {
      y_memory = rows + random_.below(5);
      y_rows_.resize(y_memory + 1);
      std::iota(y_rows_.begin(), y_rows_.end(), std::size_t{0});
      for (std::size_t i = y_memory; i > 1; --i) std::swap(y_rows_[i - 1], y_rows_[random_.below(i)]);
      o_.y_rows = y_rows_.data();
    }
    x_step_ = o_.in_features + (random_.one_in(3) ? random_.below(5) : 0);
    y_step_ = o_.out_features + (random_.one_in(3) ? random_.below(5) : 0);
    if (x_step_ != o_.in_features) o_.x_strides = {static_cast<std::ptrdiff_t>(x_step_), 1};
    if (y_step_ != o_.out_features) o_.y_stride = static_cast<std::ptrdiff_t>(y_step_);
    x_ = numbers(o_.x_type, x_memory * x_step_);
    if (o_.x_type == RAPT_I8) {
      x_scales_ = floats(x_memory);
      o_.x_scales = x_scales_.data();
    }
    y_before_ = Bytes(y_memory * y_step_ * size_of(o_.y_type), canary);
    y_.emplace(y_before_.size(), placement(), random_.below(4) * size_of(o_.y_type));
  }
  std::vector<float> floats(std::size_t count) {
    std::vector<float> made(count + 1);
    for (float &number : made) number = static_cast<float>(random_.gaussian());
    return made;
  }
  // Elements of a type. Those of 16 bits are about 2^-7 to 2^7.
  Bytes numbers(rapt_type type, std::size_t count) {
    Bytes made(count * size_of(type) + 8);
    for (std::size_t i = 0; i < count; ++i) {
      const double number = random_.gaussian();
      const float single = static_cast<float>(number);
      std::uint16_t half = 0;
      if (type == RAPT_F16) rapt_convert_f32_to_f16(&single, &half, 1);
      if (type == RAPT_BF16) rapt_convert_f32_to_bf16(&single, &half, 1);
      const auto byte = static_cast<std::int8_t>(random_.below(256));
      const void *const from = type == RAPT_F64   ? static_cast<const void *>(&number)
                               : type == RAPT_F32 ? static_cast<const void *>(&single)
                               : type == RAPT_I8  ? static_cast<const void *>(&byte)
                                                  : &half;
      std::memcpy(&made[i * size_of(type)], from, size_of(type));
    }
    return made;
  }
  // Bytes up to 0x3f have no infinity and no NaN, as scales of blocks.
  Bytes codes(std::size_t count) {
    Bytes made(count);
    for (unsigned char &byte : made)
      byte = static_cast<unsigned char>(random_.below(is_in_blocks(o_.w_type) ? 64 : 256));
    return made;
  }
  std::size_t row_bytes() const {
    switch (o_.w_type) {
      case RAPT_I4:
      case RAPT_U4:
        return (o_.in_features + 1) / 2;
      case RAPT_Q8_0:
        return o_.in_features / 32 * 34;
      case RAPT_Q4_K:
        return o_.in_features / 256 * 144;
      case RAPT_Q6_K:
        return o_.in_features / 256 * 210;
      case RAPT_IQ4_NL:
        return o_.in_features / 32 * 18;
      default:
        return o_.in_features * size_of(o_.w_type);
    }
  }
  void draw_weights() {
    const std::size_t matrix = o_.out_features * row_bytes(), size = size_of(o_.w_type), experts = e_.experts;
    const Bytes plain =
        is_quantized(o_.w_type) ? codes(experts * matrix) : numbers(o_.w_type, experts * matrix / size);
    draw_scales();
    o_.packed_w = is_in_blocks(o_.w_type) || random_.one_in(2);
    if (o_.packed_w) return pack(plain, matrix);
    // {1, outputs} is the transposed matrix.
    const bool has_strides = o_.w_type < RAPT_I8 && random_.one_in(2);
    if (has_strides) o_.w_strides = {1, static_cast<std::ptrdiff_t>(o_.out_features)};
    w_step_ = matrix + (random_.one_in(2) ? size * random_.below(9) : 0);
    if (has_strides || w_step_ != matrix || random_.one_in(3))
      e_.w_stride = static_cast<std::ptrdiff_t>(w_step_);
    put_weights([&](std::size_t e, unsigned char *to) { std::memcpy(to, &plain[e * matrix], matrix); },
                matrix);
  }
  void draw_scales() {
    if (!is_quantized(o_.w_type) || is_in_blocks(o_.w_type)) return;
    o_.scale_group = random_.one_of<std::size_t>({0, 16, 32, 64});
    groups_ = o_.scale_group ? (o_.in_features - 1) / o_.scale_group + 1 : 1;
    const std::size_t count = e_.experts * o_.out_features * groups_;
    scales_ = floats(count);
    o_.w_scales = scales_.data();
    if (random_.one_in(3)) o_.w_offsets = (w_offsets_ = floats(count)).data();
    if (o_.w_type != RAPT_U4 && o_.w_type != RAPT_U8) return;
    const std::size_t extra = random_.below(3);
    if (extra == 0) o_.w_zeros = (zeros_ = codes(count + 1)).data();
    if (extra == 1 && o_.w_type == RAPT_U4) {
      for (std::size_t i = 0; i < 16; ++i) codebook_.push_back(static_cast<float>(i * i) - 100);
      o_.w_codebook = codebook_.data();
    }
  }
  void pack(const Bytes &plain, std::size_t matrix) {
    rapt_linear_options o = o_;
    std::size_t length = 0;
    REQUIRE(rapt_linear_packed_length(&o, &length) == RAPT_OK);
    w_step_ = length + (random_.one_in(2) ? size_of(o_.w_type) * random_.below(70) : 0);
    e_.w_stride = static_cast<std::ptrdiff_t>(w_step_);
    put_weights(
        [&](std::size_t e, unsigned char *to) {
          rapt_linear_options one = o;
          const std::size_t at = e * o.out_features * groups_;
          if (o.w_scales) one.w_scales = &scales_[at];
          if (o.w_offsets) one.w_offsets = &w_offsets_[at];
          if (o.w_zeros) one.w_zeros = &zeros_[at];
          REQUIRE(rapt_linear_pack(&plain[e * matrix], 0, o.out_features, &one, to, length) == RAPT_OK);
        },
        length);
    o_.w_scales = o_.w_offsets = nullptr;
    o_.w_zeros = nullptr;
    o_.w_codebook = nullptr;
  }
  // The weights of an expert without rows are bytes that would be no header.
  template <class Put>
  void put_weights(Put put, std::size_t length) {
    w_.emplace((e_.experts - 1) * w_step_ + length, placement(), 0);
    auto *const to = static_cast<unsigned char *>(w_->data());
    for (std::size_t e = 0; e < e_.experts; ++e) {
      if (offsets_[e] == offsets_[e + 1]) {
        std::memset(to + e * w_step_, canary, length);
      } else {
        put(e, to + e * w_step_);
      }
    }
  }
  void draw_what_follows() {
    const rapt_type number = o_.x_type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
    bias_step_ = o_.out_features + (random_.one_in(3) ? random_.below(4) : 0);
    if (random_.one_in(2)) {
      o_.bias = (bias_ = numbers(number, e_.experts * bias_step_)).data();
      if (bias_step_ != o_.out_features || random_.one_in(3))
        e_.bias_stride = static_cast<std::ptrdiff_t>(bias_step_);
    }
    if (random_.one_in(2)) o_.row_scales = (row_scales_ = numbers(number, o_.rows)).data();
    if (random_.one_in(3)) {
      o_.add = (add_ = numbers(o_.y_type, y_before_.size() / size_of(o_.y_type))).data();
      if (o_.y_stride != 0) o_.add_stride = o_.y_stride;
    }
  }

  rapt_status run_all() {
    return rapt_linear_experts(x_.data(), w_->data(), y_->data(), &o_, &e_, workspace_->data(),
                               workspace_size_);
  }
  rapt_status run(std::size_t first, std::size_t last) {
    return rapt_linear_experts_run(x_.data(), w_->data(), y_->data(), &o_, &e_, first, last,
                                   workspace_->data(), workspace_size_);
  }
  void run_in_parts(std::size_t tasks) {
    const bool is_backwards = random_.one_in(2);
    for (std::size_t done = 0; done < tasks;) {
      const std::size_t count = 1 + random_.below(std::min<std::size_t>(tasks - done, 7));
      const std::size_t first = is_backwards ? tasks - done - count : done;
      CHECK(run(first, first + count) == RAPT_OK);
      done += count;
    }
  }
  std::size_t count_tasks() const {
    std::size_t all = 0;
    for (std::size_t e = 0; e < e_.experts; ++e) {
      rapt_linear_options o = o_;
      o.rows = offsets_[e + 1] - offsets_[e];
      std::size_t tasks = 0;
      REQUIRE(rapt_linear_tasks(&o, &tasks) == RAPT_OK);
      all += tasks;
    }
    return all;
  }
  void fill() {
    if (!y_before_.empty()) std::memcpy(y_->data(), y_before_.data(), y_before_.size());
  }
  bool holds(const Bytes &wanted) const {
    return (wanted.empty() || std::memcmp(y_->data(), wanted.data(), wanted.size()) == 0) &&
           y_->surroundings_intact() && w_->surroundings_intact() && workspace_->surroundings_intact();
  }

  Random &random_;
  rapt_linear_options o_{};
  rapt_expert_options e_{};
  Places offsets_, x_rows_, y_rows_;
  std::size_t x_step_ = 0, y_step_ = 0, w_step_ = 0, bias_step_ = 0, groups_ = 1, workspace_size_ = 0;
  Bytes x_, y_before_, bias_, row_scales_, add_, zeros_;
  std::vector<float> x_scales_, scales_, w_offsets_, codebook_;
  std::optional<GuardedBuffer> w_, y_, workspace_;
};

TEST_CASE("drawn layers have the bits of one rapt_linear() for each expert") {
  std::size_t with_idle_experts = 0;
  for (std::size_t seed = 1; seed <= native_or_emulated<std::size_t>(2000, 60); ++seed) {
    Random random(seed);
    Layer layer(random);
    const std::string text = layer.text();
    CAPTURE(seed);
    CAPTURE(text);
    layer.check();
    with_idle_experts += layer.any_without_rows();
  }
  CHECK(with_idle_experts > 20);
}

// ---- workspace and tasks

TEST_CASE("the workspace is enough for any offsets, and does not shrink with more rows") {
  for (const rapt_type type : {RAPT_F32, RAPT_BF16, RAPT_I8}) {
    rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
    o.x_type = type == RAPT_I8 ? RAPT_F32 : type;
    o.w_type = type;
    if (type == RAPT_I8) o.arithmetic = RAPT_ARITHMETIC_I8;
    o.in_features = 100;
    o.out_features = 300;
    for (std::size_t rows = 0, before = 0, most = 0; rows < 600; ++rows) {
      std::size_t bytes = 0, of_experts = 0;
      o.rows = rows;
      REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
      REQUIRE(rapt_linear_experts_workspace(&o, &of_experts) == RAPT_OK);
      most = std::max(most, bytes);
      CAPTURE(rows);
      CHECK(of_experts >= before);
      CHECK(of_experts == most);
      before = of_experts;
    }
  }
}

// ---- lists

TEST_CASE("drawn lists are those of a stable sort") {
  for (std::size_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const std::size_t tokens = random.below(20), slots = 1 + random.below(6), experts = 1 + random.below(12),
                      stride = slots + random.below(4), entries = tokens * slots;
    std::vector<std::int32_t> ids(tokens * stride + 1, -7);  // what lies between the rows is no expert
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t s = 0; s < slots; ++s)
        ids[t * stride + s] = static_cast<std::int32_t>(random.below(experts));
    }
    Places expected(entries), offsets(experts + 2, 99), token_rows(entries + 1, 99),
        entry_rows(entries + 1, 99);
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    const auto expert = [&](std::size_t entry) { return ids[entry / slots * stride + entry % slots]; };
    std::stable_sort(expected.begin(), expected.end(),
                     [&](std::size_t a, std::size_t b) { return expert(a) < expert(b); });
    const bool is_default = stride == slots && random.one_in(2), has_tokens = !random.one_in(4),
               has_entries = !random.one_in(4);
    CAPTURE(seed);
    REQUIRE(rapt_expert_lists(ids.data(), is_default ? 0 : static_cast<std::ptrdiff_t>(stride), tokens, slots,
                              experts, offsets.data(), has_tokens ? token_rows.data() : nullptr,
                              has_entries ? entry_rows.data() : nullptr) == RAPT_OK);
    CHECK(offsets[0] == 0);
    CHECK(offsets[experts] == entries);
    CHECK(offsets[experts + 1] == 99);
    for (std::size_t r = 0; r < entries; ++r) {
      CHECK(token_rows[r] == (has_tokens ? expected[r] / slots : 99));
      CHECK(entry_rows[r] == (has_entries ? expected[r] : 99));
    }
    CHECK(token_rows[entries] == 99);
    CHECK(entry_rows[entries] == 99);
    for (std::size_t e = 0; e < experts; ++e) {
      for (std::size_t r = offsets[e]; r < offsets[e + 1]; ++r)
        CHECK(expert(expected[r]) == static_cast<std::int32_t>(e));
    }
  }
}

struct ListsCall {
  static constexpr FunctionName functions[] = {{1, "rapt_expert_lists"}};
  std::vector<std::int32_t> ids = {2, 0, 1, 2, 2, 1};
  std::size_t tokens = 3, slots = 2, experts = 3;
  std::ptrdiff_t stride = 0;
  Places memory = Places(64, 99);
  const std::int32_t *from = ids.data();
  std::size_t *offsets = &memory[0], *token_rows = &memory[10], *entry_rows = &memory[20];

  explicit ListsCall(unsigned = 1) {}
  ListsCall(const ListsCall &) = delete;
  rapt_status run() {
    return rapt_expert_lists(from, stride, tokens, slots, experts, offsets, token_rows, entry_rows);
  }
  bool writes_nothing() const { return false; }
  std::string image() const {
    std::string bytes;
    append_bytes(bytes, memory);
    append_bytes(bytes, ids);
    return bytes;
  }
};

TEST_CASE("arguments of lists") {
  using C = ListsCall;
  expect_statuses<C>({
      {"all lists", 1, RAPT_OK, [](C &) {}},
      {"no lists of rows", 1, RAPT_OK, [](C &c) { c.token_rows = c.entry_rows = nullptr; }},
      {"no tokens and no ids", 1, RAPT_OK, [](C &c) { c.tokens = 0, c.from = nullptr; }},
      {"one token's stride is not looked at", 1, RAPT_OK, [](C &c) { c.tokens = 1, c.stride = -5; }},
      {"lists end where others begin", 1, RAPT_OK,
       [](C &c) { c.token_rows = &c.memory[4], c.entry_rows = &c.memory[10]; }},
      {"no experts", 1, RAPT_BAD_SHAPE, [](C &c) { c.experts = 0; }},
      {"no slots", 1, RAPT_BAD_SHAPE, [](C &c) { c.slots = 0; }},
      {"too many experts", 1, RAPT_BAD_SIZE, [](C &c) { c.experts = SIZE_MAX; }},
      {"too many offsets", 1, RAPT_BAD_SIZE, [](C &c) { c.experts = PTRDIFF_MAX / sizeof(std::size_t); }},
      {"too many entries", 1, RAPT_BAD_SIZE, [](C &c) { c.tokens = SIZE_MAX / 4; }},
      {"a stride beyond memory", 1, RAPT_BAD_SIZE, [](C &c) { c.stride = PTRDIFF_MAX; }},
      {"a short stride", 1, RAPT_BAD_IDS_STRIDE, [](C &c) { c.stride = 1; }},
      {"a negative stride", 1, RAPT_BAD_IDS_STRIDE, [](C &c) { c.stride = -2; }},
      {"no ids", 1, RAPT_BAD_IDS, [](C &c) { c.from = nullptr; }},
      {"a negative id", 1, RAPT_BAD_IDS, [](C &c) { c.ids[5] = -1; }},
      {"the smallest id", 1, RAPT_BAD_IDS, [](C &c) { c.ids[0] = INT32_MIN; }},
      {"an id that is no expert", 1, RAPT_BAD_IDS, [](C &c) { c.ids[5] = 3; }},
      {"no offsets", 1, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets = nullptr; }},
      {"tokens in offsets", 1, RAPT_BAD_OVERLAP, [](C &c) { c.token_rows = &c.memory[3]; }},
      {"entries in tokens", 1, RAPT_BAD_OVERLAP, [](C &c) { c.entry_rows = &c.memory[15]; }},
      {"ids in the lists", 1, RAPT_BAD_OVERLAP,
       [](C &c) { c.from = reinterpret_cast<const std::int32_t *>(&c.memory[22]); }},
  });
}

// ---- statuses

// Three experts, the second without rows, in a layer of 5 rows. `packed` has their weights; the second's are no header.
struct Call {
  static constexpr std::size_t inputs = 70, outputs = 130, experts = 3, rows = 5, x_rows = 4, y_rows = 9;
  static constexpr unsigned whole = 1, all_tasks = 2, check = 4, tasks = 8, any = 15, computes = 3, looks = 7;
  static constexpr FunctionName functions[] = {{whole, "rapt_linear_experts"},
                                               {all_tasks, "rapt_linear_experts_run"},
                                               {check, "rapt_linear_experts_run of no tasks"},
                                               {tasks, "rapt_linear_experts_tasks"}};

  unsigned function;
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  rapt_expert_options of_experts = RAPT_EXPERT_OPTIONS_INIT;
  const rapt_linear_options *given = &options;
  const rapt_expert_options *given_experts = &of_experts;
  Places offsets = {0, 2, 2, 5}, from = {0, 3, 3, 1, 0}, to = {8, 0, 2, 1, 5};
  std::vector<float> x = std::vector<float>(x_rows * inputs, 1), y = std::vector<float>(y_rows * outputs, 7),
                     w = std::vector<float>(experts * inputs * outputs, 0.5f),
                     bias = std::vector<float>(experts * outputs, 3),
                     scales = std::vector<float>(experts * outputs, 1);
  Bytes packed, workspace;
  const void *of_x = x.data(), *of_w = w.data();
  void *of_y = y.data(), *of_workspace = nullptr;
  std::size_t task_count = 0, first = 0, last = 0, workspace_size = 0;

  explicit Call(unsigned bit) : function(bit) {
    options.rows = rows;
    options.in_features = inputs;
    options.out_features = outputs;
    options.bias = bias.data();
    options.x_rows = from.data();
    options.y_rows = to.data();
    of_experts.experts = experts;
    of_experts.offsets = offsets.data();
    measure();
  }
  Call(const Call &) = delete;

  // Makes room for what the options describe, and finds all tasks.
  void measure() {
    REQUIRE(rapt_linear_experts_workspace(&options, &workspace_size) == RAPT_OK);
    workspace.resize(workspace_size);
    of_workspace = workspace.data();
    if (function == all_tasks) REQUIRE(rapt_linear_experts_tasks(&options, &of_experts, &last) == RAPT_OK);
  }
  void pack(std::size_t gap = 0) {
    std::size_t length = 0;
    REQUIRE(rapt_linear_packed_length(&options, &length) == RAPT_OK);
    packed.assign(experts * (length + gap), 0xee);
    for (const std::size_t e : {std::size_t{0}, std::size_t{2}})
      REQUIRE(rapt_linear_pack(&w[e * inputs * outputs], 0, outputs, &options, &packed[e * (length + gap)],
                               length) == RAPT_OK);
    of_w = packed.data();
    of_experts.w_stride = static_cast<std::ptrdiff_t>(length + gap);
    options.packed_w = 1;
  }
  void quantize() {
    options.w_type = RAPT_I8;
    options.w_scales = scales.data();
    measure();
  }
  void empty(std::size_t n) {
    options.rows = n;
    std::fill(offsets.begin(), offsets.end(), 0);
    of_x = of_w = of_workspace = of_y = nullptr;
    options.x_rows = options.y_rows = nullptr;
    workspace_size = 0;
    last = 0;
  }

  rapt_status run() {
    if (function == tasks) return rapt_linear_experts_tasks(given, given_experts, &task_count);
    if (function == whole)
      return rapt_linear_experts(of_x, of_w, of_y, given, given_experts, of_workspace, workspace_size);
    return rapt_linear_experts_run(of_x, of_w, of_y, given, given_experts, first, last, of_workspace,
                                   workspace_size);
  }
  bool writes_nothing() const { return function == check || offsets.back() == 0; }
  std::string image() const {
    std::string bytes;
    append_bytes(bytes, y);
    append_bytes(bytes, x);
    append_bytes(bytes, w);
    append_bytes(bytes, packed);
    append_bytes(bytes, offsets);
    bytes += std::to_string(task_count);
    return bytes;
  }
};
using C = Call;

TEST_CASE("valid calls") {
  expect_statuses<C>({
      {"plain weights", C::any, RAPT_OK, [](C &) {}},
      {"packed weights", C::any, RAPT_OK, [](C &c) { c.pack(); }},
      {"packed weights with gaps", C::any, RAPT_OK, [](C &c) { c.pack(4); }},
      {"quantized arrays", C::any, RAPT_OK, [](C &c) { c.quantize(); }},
      {"packed quantized arrays", C::looks, RAPT_OK,
       [](C &c) {
         c.quantize();
         c.pack();
         c.options.w_scales = nullptr;
       }},
      {"a codebook for all experts", C::any, RAPT_OK,
       [](C &c) {
         c.options.w_type = RAPT_U4;
         c.options.w_codebook = c.w.data();
         c.measure();
       }},
      {"one expert has no strides", C::any, RAPT_OK,
       [](C &c) {
         c.of_experts.experts = 1;
         c.offsets = {0, 5};
         c.of_experts.offsets = c.offsets.data();
         c.of_experts.w_stride = -3;
         c.of_experts.bias_stride = PTRDIFF_MIN;
         c.measure();
       }},
      {"experts of the same weights", C::any, RAPT_OK,
       [](C &c) {
         c.options.w_strides = {C::inputs, 1};
         c.of_experts.w_stride = 4;
       }},
      {"add beside y", C::any, RAPT_OK,
       [](C &c) {
         c.options.y_rows = c.options.x_rows = nullptr;
         c.options.rows = 2;
         c.offsets = {0, 1, 1, 2};
         c.of_experts.offsets = c.offsets.data();
         c.options.add = &c.y[2 * C::outputs];
       }},
      {"add is y without a list", C::any, RAPT_OK,
       [](C &c) {
         c.options.y_rows = nullptr;
         c.options.add = c.of_y;
       }},
      {"no rows", C::any & ~C::tasks, RAPT_OK, [](C &c) { c.empty(0); }},
  });
}

TEST_CASE("options of the experts") {
  expect_statuses<C>({
      {"null", C::any, RAPT_BAD_EXPERTS, [](C &c) { c.given_experts = nullptr; }},
      {"size 0", C::any, RAPT_BAD_EXPERTS, [](C &c) { c.of_experts.size = 0; }},
      {"a shorter size", C::any, RAPT_BAD_EXPERTS, [](C &c) { c.of_experts.size -= 8; }},
      {"a longer size", C::any, RAPT_BAD_EXPERTS, [](C &c) { c.of_experts.size += 8; }},
      {"no experts", C::any, RAPT_BAD_SHAPE, [](C &c) { c.of_experts.experts = 0; }},
      {"too many experts", C::any, RAPT_BAD_SIZE, [](C &c) { c.of_experts.experts = SIZE_MAX; }},
      {"no offsets", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.of_experts.offsets = nullptr; }},
      {"offsets from 1", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets[0] = 1; }},
      {"offsets to 4", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets[3] = 4; }},
      {"offsets to 6", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets[3] = 6; }},
      {"decreasing offsets", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets[2] = 1; }},
      {"an offset beyond the rows", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.offsets[1] = 6; }},
      {"offsets without rows", C::any, RAPT_BAD_EXPERT_OFFSETS, [](C &c) { c.options.rows = 0; }},
      {"w_stride below 0", C::any, RAPT_BAD_EXPERT_STRIDE, [](C &c) { c.of_experts.w_stride = -4; }},
      {"w_stride of half an element", C::any, RAPT_BAD_EXPERT_STRIDE,
       [](C &c) { c.of_experts.w_stride = 40002; }},
      {"w_stride beyond memory", C::any, RAPT_BAD_SIZE,
       [](C &c) { c.of_experts.w_stride = PTRDIFF_MAX - 3; }},
      {"no w_stride with w_strides", C::any, RAPT_BAD_EXPERT_STRIDE,
       [](C &c) {
         c.options.w_strides = {C::inputs, 1};
       }},
      {"no w_stride with packed weights", C::any, RAPT_BAD_EXPERT_STRIDE,
       [](C &c) {
         c.pack();
         c.of_experts.w_stride = 0;
       }},
      {"w_stride within packed weights", C::looks, RAPT_BAD_EXPERT_STRIDE,
       [](C &c) {
         c.pack();
         c.of_experts.w_stride -= 4;
       }},
      {"bias_stride without a bias", C::any, RAPT_BAD_BIAS_STRIDE,
       [](C &c) {
         c.options.bias = nullptr;
         c.of_experts.bias_stride = C::outputs;
       }},
      {"bias_stride within a bias", C::any, RAPT_BAD_BIAS_STRIDE,
       [](C &c) { c.of_experts.bias_stride = C::outputs - 1; }},
      {"bias_stride below 0", C::any, RAPT_BAD_BIAS_STRIDE, [](C &c) { c.of_experts.bias_stride = -1000; }},
      {"bias_stride beyond memory", C::any, RAPT_BAD_SIZE,
       [](C &c) { c.of_experts.bias_stride = PTRDIFF_MAX / 4; }},
      {"add is y in a list", C::looks, RAPT_BAD_ADD, [](C &c) { c.options.add = c.of_y; }},
  });
}

TEST_CASE("arguments as those of rapt_linear") {
  expect_statuses<C>({
      {"no options", C::any, RAPT_BAD_OPTIONS, [](C &c) { c.given = nullptr; }},
      {"the options' size", C::any, RAPT_BAD_OPTIONS_SIZE, [](C &c) { c.options.size = 0; }},
      {"no inputs", C::any, RAPT_BAD_SHAPE, [](C &c) { c.options.in_features = 0; }},
      {"a type", C::any, RAPT_BAD_TYPE, [](C &c) { c.options.x_type = RAPT_I4; }},
      {"no x", C::looks, RAPT_BAD_X, [](C &c) { c.of_x = nullptr; }},
      {"no w", C::looks, RAPT_BAD_W, [](C &c) { c.of_w = nullptr; }},
      {"no y", C::looks, RAPT_BAD_Y, [](C &c) { c.of_y = nullptr; }},
      {"no workspace", C::looks, RAPT_BAD_WORKSPACE, [](C &c) { c.of_workspace = nullptr; }},
      {"a short workspace", C::looks, RAPT_BAD_WORKSPACE, [](C &c) { --c.workspace_size; }},
      {"tasks past the last", C::all_tasks, RAPT_BAD_TASKS, [](C &c) { ++c.last; }},
      {"tasks backwards", C::all_tasks | C::check, RAPT_BAD_TASKS, [](C &c) { c.first = c.last + 1; }},
      {"another's packed weights", C::looks, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack();
         --c.options.out_features;
       }},
      {"the first expert's header", C::looks, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack();
         c.packed[9] ^= 1;
       }},
      {"the last expert's header", C::looks, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack();
         c.packed[2 * static_cast<std::size_t>(c.of_experts.w_stride) + 9] ^= 1;
       }},
      {"a codebook in i8 arithmetic", C::looks, RAPT_BAD_W_CODEBOOK,
       [](C &c) {
         c.options.w_type = RAPT_U4;
         c.options.arithmetic = RAPT_ARITHMETIC_I8;
         c.options.w_codebook = c.w.data();
         c.measure();
       }},
  });
}

TEST_CASE("arrays that overlap") {
  expect_statuses<C>({
      {"y on x", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.of_y = c.x.data(); }},
      {"y on the first weights", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.of_y = c.w.data(); }},
      {"y on the last weights", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) { c.of_y = &c.w[2 * C::inputs * C::outputs + 100]; }},
      {"y on weights of no rows", C::looks, RAPT_OK, [](C &c) { c.of_y = &c.w[C::inputs * C::outputs]; }},
      {"y on the last packed weights", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) {
         c.pack();
         c.of_y = &c.packed[2 * static_cast<std::size_t>(c.of_experts.w_stride) + 1000];
       }},
      {"y on the last bias", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) { c.options.bias = &c.y[8 * C::outputs - 2 * C::outputs]; }},
      {"y on the last scales", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) {
         c.quantize();
         c.options.w_scales = &c.y[8 * C::outputs - 2 * C::outputs];
       }},
      {"y on offsets", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) {
         const std::size_t bytes = sizeof(std::size_t) * 4;
         std::memcpy(&c.y[C::outputs], c.offsets.data(), bytes);
         c.of_experts.offsets = reinterpret_cast<const std::size_t *>(&c.y[C::outputs]);
       }},
      {"part of y on add", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.options.add = &c.y[1]; }},
      {"the workspace on the last weights", C::looks, RAPT_BAD_WORKSPACE,
       [](C &c) {
         c.workspace.resize(c.workspace_size + 3 * C::inputs * C::outputs * sizeof(float));
         c.of_workspace = &c.workspace[2 * C::inputs * C::outputs * sizeof(float)];
         c.of_w = c.workspace.data();
       }},
      {"the workspace on offsets", C::looks, RAPT_BAD_WORKSPACE,
       [](C &c) {
         std::memcpy(c.workspace.data(), c.offsets.data(), 4 * sizeof(std::size_t));
         c.of_experts.offsets = reinterpret_cast<const std::size_t *>(c.workspace.data());
       }},
  });
}

// Tasks look at the weights of their experts, and at the rows of y that they write.
TEST_CASE("a run of some tasks looks at their experts alone") {
  Call call(C::all_tasks);
  call.pack();
  call.packed[9] ^= 1;
  call.first = call.last - 1;
  CHECK(call.run() == RAPT_OK);
  call.first = 0;
  CHECK(call.run() == RAPT_BAD_PACKED);
}

}  // namespace
}  // namespace rapt::test
