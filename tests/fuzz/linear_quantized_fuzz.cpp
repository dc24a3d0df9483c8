// Fuzzes rapt_linear with quantized weights, plain and packed, whole and by tasks, in both arithmetics. All of them
// must give the same bits on every level.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz/support/linear_fuzz.hpp"

using namespace rapt::test;

namespace {

class QuantizedFuzz : LinearFuzzBase {
 public:
  explicit QuantizedFuzz(FuzzInput &input) : LinearFuzzBase(input) {}

  void run() {
    choose_types();
    choose_shape();
    if (!place()) return;
    spoil();
    call();
  }

 private:
  enum Operand : std::size_t {
    x_at,
    w_at,
    y_at,
    numbers_at,
    w_scales_at,
    w_offsets_at,
    zeros_at,
    x_scales_at,
    packed_at,
    options_at
  };

  void choose_types() {
    constexpr rapt_type weights[] = {RAPT_I8, RAPT_I4, RAPT_U4};
    o_.w_type = weights[input_.byte() % 3];
    o_.x_type = choose_float();
    o_.y_type = choose_float();
    const unsigned how = input_.byte() % 4;
    if (how & 1) o_.arithmetic = RAPT_ARITHMETIC_I8;
    if (how == 3) o_.x_type = RAPT_I8;
    in_i8_ = (how & 1) != 0;
  }
  bool is_4_bits() const { return o_.w_type != RAPT_I8; }

  void choose_shape() {
    constexpr std::size_t groups[] = {0, 16, 32, 64, 128, 256};
    o_.rows = input_.one_in(6) ? input_.below(40) : input_.below(9);
    o_.in_features = 1 + (input_.one_in(4) ? input_.below(1100) : input_.below(70));
    o_.out_features = input_.one_in(4) ? input_.below(200) : input_.below(20);
    o_.scale_group = groups[input_.byte() % 6];
    if (in_i8_) o_.x_group = choose_x_group();
    placement_ = input_.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
    o_.x_strides = choose_strides(input_, o_.in_features, o_.rows);
    columns_of_w_ = is_4_bits() ? (o_.in_features + 1) / 2 : o_.in_features;
    o_.w_strides = choose_strides(input_, columns_of_w_, o_.out_features);
    if (is_4_bits() && o_.w_strides.column != 1) o_.w_strides = {0, 0};
    if (input_.one_in(2)) o_.y_stride = static_cast<std::ptrdiff_t>(o_.out_features + 1 + input_.below(5));
  }
  std::size_t choose_x_group() {
    const std::size_t fold = o_.scale_group ? o_.scale_group : 512;
    const unsigned choice = input_.byte() % 5;
    return choice == 4 ? SIZE_MAX : choice * fold;
  }

  // Returns false if the operands are too large.
  bool place() {
    const std::size_t most = (FuzzMemory::capacity - 64) / sizeof(float);
    const unsigned lists = input_.byte() % 4;
    rows_of_x_ = lists & 1 ? o_.rows + 3 : o_.rows;
    rows_of_y_ = lists & 2 ? 2 * o_.rows : o_.rows;
    const std::size_t x = extent(rows_of_x_, o_.in_features, o_.x_strides),
                      w = extent(o_.out_features, columns_of_w_, o_.w_strides);
    y_stride_ = o_.y_stride == 0 ? o_.out_features : static_cast<std::size_t>(o_.y_stride);
    const std::size_t y = extent(rows_of_y_, o_.out_features, {static_cast<std::ptrdiff_t>(y_stride_), 1});
    const std::size_t groups = o_.scale_group ? (o_.in_features + o_.scale_group - 1) / o_.scale_group : 1;
    const std::size_t scales = o_.out_features * groups;
    if (std::max({x, y, scales}) > most || w > 4 * most) return false;
    x_ = put_filled(x_at, x, o_.x_type);
    w_ = put_filled(w_at, w, RAPT_I8);
    place_weights(scales);
    if (o_.x_type == RAPT_I8) {
      std::size_t group = o_.x_group ? o_.x_group : o_.scale_group ? o_.scale_group : o_.in_features;
      group = std::min(group, o_.in_features);
      const std::size_t x_groups = (o_.in_features + group - 1) / group;
      o_.x_scales = reinterpret_cast<float *>(put_filled(x_scales_at, rows_of_x_ * x_groups, RAPT_F32));
    }
    const unsigned wanted = input_.byte();
    y_ = wanted & 1 ? put_filled(y_at, y, o_.y_type) : put(y_at, y, o_.y_type);
    if (wanted & 1) {
      o_.add = y_;
      o_.add_stride = o_.y_stride;
    }
    place_numbers(lists, wanted);
    return pack(most * sizeof(float));
  }

  void place_weights(std::size_t scales) {
    const unsigned wanted = input_.byte();
    const rapt_type type = choose_float();
    if (wanted & 3) o_.w_scales = put_filled(w_scales_at, scales, type);  // in three quarters of the runs
    if ((wanted & 12) == 4) o_.w_offsets = put_filled(w_offsets_at, scales, type);
    if (o_.w_scales || o_.w_offsets) o_.w_scale_type = type;
    if (o_.w_type != RAPT_U4) return;
    if (wanted & 16) {
      o_.w_zeros = put_filled(zeros_at, scales, RAPT_I8);
    } else if ((wanted & 32) && !in_i8_) {
      o_.w_codebook = reinterpret_cast<float *>(put_filled(zeros_at, 16, RAPT_F32));
    }
  }

  // Rows of x are in any order, and may be in the list many times. Rows of y are in falling order.
  void place_numbers(unsigned lists, unsigned wanted) {
    auto *const numbers = reinterpret_cast<float *>(put(numbers_at, o_.out_features + o_.rows, RAPT_F32));
    input_.fill(numbers, o_.out_features + o_.rows);
    if (wanted & 2) o_.bias = numbers;
    if (wanted & 4) o_.row_scales = numbers + o_.out_features;
    lists_.resize(2 * o_.rows);
    for (std::size_t r = 0; r < o_.rows; ++r) {
      lists_[r] = input_.byte() % (o_.rows + 3);
      lists_[o_.rows + r] = 2 * (o_.rows - r) - 1;
    }
    if (lists & 1) o_.x_rows = lists_.data();
    if (lists & 2) o_.y_rows = lists_.data() + o_.rows;
  }

  // Packs the weights, in one or two parts.
  bool pack(std::size_t most_bytes) {
    std::size_t &bytes = packed_bytes_;
    if (rapt_linear_packed_length(&o_, &bytes) != RAPT_OK) {
      finding("linear", "refused to be measured for packing");
      return false;
    }
    if (bytes > most_bytes) return false;
    packed_ = memory().place(packed_at, bytes, placement_, input_.below(64));
    std::memset(packed_, 0, bytes);
    const std::size_t cut = o_.out_features > 64 && input_.one_in(2) ? 64 : 0;
    if (o_.out_features > 0) {
      if (cut > 0) pack_part(0, cut);
      pack_part(cut, o_.out_features - cut);
    }
    packed_o_ = o_;
    packed_o_.packed_w = 1;
    packed_o_.w_strides = {0, 0};
    packed_o_.w_scales = packed_o_.w_offsets = nullptr;
    packed_o_.w_zeros = nullptr;
    packed_o_.w_codebook = nullptr;
    if (o_.out_features > 0) check_unpacked_arrays();
    if (input_.one_in(2)) packed_o_.w_scale_type = RAPT_TYPE_DEFAULT;
    return true;
  }
  // All arrays must come back from the packed weights.
  void check_unpacked_arrays() const {
    const std::size_t groups = o_.scale_group ? (o_.in_features + o_.scale_group - 1) / o_.scale_group : 1,
                      scales = o_.out_features * groups, size = size_of(o_.w_scale_type);
    std::vector<unsigned char> back[3] = {std::vector<unsigned char>(scales * size),
                                          std::vector<unsigned char>(scales * size),
                                          std::vector<unsigned char>(scales)};
    float codebook[16];
    FuzzScales to;
    if (o_.w_scales) to.scales = back[0].data();
    if (o_.w_offsets) to.offsets = back[1].data();
    if (o_.w_zeros) to.zeros = back[2].data();
    if (o_.w_codebook) to.codebook = codebook;
    check_unpacked({packed_, packed_ + packed_bytes_}, packed_o_, columns_of_w_, o_.w_strides, to);
    const void *const given[] = {o_.w_scales, o_.w_offsets, o_.w_zeros};
    for (std::size_t i = 0; i < 3; ++i) {
      if (given[i] && std::memcmp(given[i], back[i].data(), back[i].size()) != 0)
        finding("linear", "unpacked other scales");
    }
    if (o_.w_codebook && std::memcmp(codebook, o_.w_codebook, sizeof codebook) != 0)
      finding("linear", "unpacked another codebook");
  }
  void pack_part(std::size_t first, std::size_t outputs) {
    rapt_linear_options part = o_;
    const std::size_t groups = o_.scale_group ? (o_.in_features + o_.scale_group - 1) / o_.scale_group : 1;
    const auto skip = [&](const void *array, std::size_t size) {
      return array ? static_cast<const unsigned char *>(array) + first * groups * size : nullptr;
    };
    part.w_scales = skip(o_.w_scales, size_of(o_.w_scale_type));
    part.w_offsets = skip(o_.w_offsets, size_of(o_.w_scale_type));
    part.w_zeros = skip(o_.w_zeros, 1);
    const bool is_contiguous = o_.w_strides.row == 0 && o_.w_strides.column == 0;
    const std::size_t row = is_contiguous                     ? columns_of_w_
                            : o_.w_strides.row == RAPT_REPEAT ? 0
                                                              : static_cast<std::size_t>(o_.w_strides.row);
    if (rapt_linear_pack(w_ + first * row, first, outputs, &part, packed_, packed_bytes_) != RAPT_OK)
      finding("linear", "refused to be packed");
  }

  // Makes an argument invalid in some runs. Then only plain weights are tried.
  void spoil() {
    if (rapt_linear_workspace(&o_, &workspace_size_) != RAPT_OK)
      return finding("linear", "refused to be measured");
    const bool any_work = o_.rows > 0 && o_.out_features > 0;
    const auto plain = [](const void *pointer) { return pointer != nullptr; };
    switch (input_.byte() % 40) {
      case 1:
        o_.scale_group += 1 + input_.byte() % 15;
        return must_fail(RAPT_BAD_SCALE_GROUP);
      case 2:
        if (!in_i8_) {
          o_.x_group = 512;
        } else {
          o_.x_group = 1 + input_.byte() % 15;
        }
        return must_fail(RAPT_BAD_X_GROUP);
      case 3:
        o_.w_zeros = w_;
        if (o_.w_type == RAPT_U4 && !o_.w_codebook) o_.w_codebook = reinterpret_cast<float *>(x_);
        rules_.may_fail |= only(RAPT_BAD_W_CODEBOOK);
        return must_fail(RAPT_BAD_W_ZEROS);
      case 4:
        if (o_.w_type == RAPT_U4 && !in_i8_) return;
        o_.w_codebook = reinterpret_cast<float *>(x_);
        o_.w_zeros = nullptr;
        return must_fail(RAPT_BAD_W_CODEBOOK);
      case 5:
        if (o_.x_type == RAPT_I8) {
          o_.x_scales = nullptr;
          if (any_work) must_fail(RAPT_BAD_X_SCALES);
          return;
        }
        o_.x_scales = reinterpret_cast<float *>(x_);
        return must_fail(RAPT_BAD_X_SCALES);
      case 6:
        if (plain(o_.w_scales) || plain(o_.w_offsets)) {
          o_.w_scale_type = input_.one_in(2) ? RAPT_I8 : RAPT_F64;
        } else {
          o_.w_scale_type = RAPT_F16;
        }
        return must_fail(RAPT_BAD_W_SCALES);
      case 7:
        if (any_work) must_fail(RAPT_BAD_WORKSPACE);
        workspace_size_ -= 1 + input_.byte() % 64;
        return;
      case 8:
        o_.arithmetic = in_i8_ && o_.x_type == RAPT_I8 ? RAPT_ARITHMETIC_F32 : RAPT_ARITHMETIC_BF16;
        return must_fail(RAPT_BAD_ARITHMETIC);
      case 9:
        if (!is_4_bits() || !any_work || columns_of_w_ == 1) return;
        o_.w_strides = {static_cast<std::ptrdiff_t>(2 * columns_of_w_), 2};
        return must_fail(RAPT_BAD_W_STRIDES);
      case 10:
        o_.in_features = SIZE_MAX - input_.byte();
        return must_fail(RAPT_BAD_SIZE);
      case 11:
        if (!any_work || !o_.w_scales || o_.y_rows) return;  // rows that are not listed may hold anything
        o_.w_scales = y_;
        return must_fail(RAPT_BAD_OVERLAP);
      case 12:
        if (!any_work) return;
        packed_o_.scale_group = packed_o_.scale_group == 64 ? 128 : 64;
        if (packed_o_.x_group != 0) packed_o_.x_group = SIZE_MAX;
        only_packed_ = true;
        // x_scales may be too few for the other group.
        return must_fail(RAPT_BAD_PACKED);
      case 13:
        if (!any_work) return;
        packed_[input_.byte() % 8] ^= 1;
        only_packed_ = true;
        return must_fail(RAPT_BAD_PACKED);
      default:
        return;
    }
  }

  void call() {
    // The options end at a guard page, so that reading past them faults.
    auto *const given = reinterpret_cast<rapt_linear_options *>(
        memory().place(options_at, 2 * sizeof o_, Placement::ends_at_guard, 0));
    const std::size_t packed_place = input_.one_in(2) ? 1 : 0;
    std::memcpy(given + 1 - packed_place, &o_, sizeof o_);
    std::memcpy(given + packed_place, &packed_o_, sizeof o_);
    static GuardedSlot workspace(std::size_t{1} << 20);
    const unsigned cut = input_.byte();
    unsigned calls = 0;
    on_every_level(
        "linear", memory(), results(), rules_,
        [&] {
          unsigned char *const space = workspace.place(workspace_size_, placement_, cut % 64);
          const unsigned way = rules_.must_fail != 0 ? 0 : cut + calls++;
          const bool packed = only_packed_ || (way & 2) != 0;
          const rapt_linear_options *const options = given + (packed ? packed_place : 1 - packed_place);
          const void *const w = packed ? packed_ : w_;
          const rapt_status status = way % 2 == 0 ? rapt_linear(x_, w, y_, options, space, workspace_size_)
                                                  : by_tasks(w, options, space, cut);
          if (!workspace.surroundings_intact()) finding("linear", "wrote outside the workspace");
          return status;
        },
        [&](std::vector<std::uint64_t> &bits) { append_results(bits); });
  }

  rapt_linear_options packed_o_;
  bool in_i8_ = false, only_packed_ = false;
  std::size_t columns_of_w_ = 0;
  unsigned char *packed_ = nullptr;
  std::size_t packed_bytes_ = 0;
  std::vector<std::size_t> lists_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  QuantizedFuzz(input).run();
  return 0;
}
