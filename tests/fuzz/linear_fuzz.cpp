// Fuzzes rapt_linear, whole and by tasks, with all types, any strides, lists of rows and packed weights.
#include "fuzz/support/linear_fuzz.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace rapt::test;

namespace {

class LinearFuzz : LinearFuzzBase {
 public:
  explicit LinearFuzz(FuzzInput &input) : LinearFuzzBase(input) {}

  void run() {
    choose_types();
    choose_shape();
    if (!place()) return;
    spoil();
    call();
  }

 private:
  enum Operand : std::size_t { x_at, w_at, y_at, add_at, bias_at, scales_at, lists_at, options_at };

  void choose_types() {
    const bool is_f64 = input_.one_in(5);
    for (rapt_type *type : {&o_.x_type, &o_.w_type, &o_.y_type, &add_type_}) {
      *type = is_f64 ? RAPT_F64 : choose_float();
    }
    number_ = is_f64 ? RAPT_F64 : RAPT_F32;
    if (input_.one_in(2) && !is_f64) o_.arithmetic = RAPT_ARITHMETIC_F32;
  }

  void choose_shape() {
    o_.rows = input_.one_in(6) ? input_.below(40) : input_.below(9);
    o_.in_features = 1 + (input_.one_in(8) ? input_.below(1100) : input_.below(40));
    o_.out_features = input_.one_in(4) ? input_.below(200) : input_.below(20);
    placement_ = input_.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
    o_.x_strides = choose_strides(input_, o_.in_features, o_.rows);
    o_.packed_w = input_.one_in(3);
    if (!o_.packed_w) o_.w_strides = choose_strides(input_, o_.in_features, o_.out_features);
    if (input_.one_in(2)) o_.y_stride = static_cast<std::ptrdiff_t>(o_.out_features + 1 + input_.below(5));
  }

  // Returns false if the operands are too large.
  bool place() {
    place_lists();
    const std::size_t most = (FuzzMemory::capacity - 64) / sizeof(double);
    const std::size_t x = extent(rows_of_x_, o_.in_features, o_.x_strides),
                      w = extent(o_.out_features, o_.in_features, o_.w_strides);
    y_stride_ = o_.y_stride == 0 ? o_.out_features : static_cast<std::size_t>(o_.y_stride);
    const std::size_t y = extent(rows_of_y_, o_.out_features, {static_cast<std::ptrdiff_t>(y_stride_), 1});
    std::size_t packed_bytes = 0;
    if (o_.packed_w && rapt_linear_packed_length(&o_, &packed_bytes) != RAPT_OK) return false;
    if (std::max({x, w, y, packed_bytes / size_of(o_.w_type)}) > most) return false;
    x_ = put_filled(x_at, x, o_.x_type);
    w_ = put_filled(w_at, o_.packed_w ? packed_bytes / size_of(o_.w_type) : w, o_.w_type);
    if (o_.packed_w && !begin_packed(packed_bytes)) return false;
    if (!o_.packed_w) check_packing();
    const unsigned wanted = input_.byte();
    y_ = wanted % 4 == 1 ? put_filled(y_at, y, o_.y_type) : put(y_at, y, o_.y_type);
    if (wanted % 4 == 1) {
      o_.add = y_;
      o_.add_stride = o_.y_stride;
    } else if (wanted % 4 == 2) {
      o_.add = put_filled(add_at, extent(rows_of_y_, o_.out_features, contiguous_add()), add_type_);
      o_.add_type = add_type_;
    }
    if (wanted & 4) o_.bias = put_filled(bias_at, o_.out_features, number_);
    if (wanted & 8) o_.row_scales = put_filled(scales_at, o_.rows, number_);
    return true;
  }
  // Gives packed weights of any numbers the header of their layer.
  bool begin_packed(std::size_t bytes) {
    const std::size_t kept = std::min<std::size_t>(o_.out_features, 64);
    const double number = 0;
    rapt_linear_options repeated = o_;
    repeated.w_strides = {RAPT_REPEAT, RAPT_REPEAT};
    std::vector<unsigned char> begun(bytes);
    if (rapt_linear_pack(&number, 0, kept, &repeated, begun.data(), bytes) != RAPT_OK) {
      finding("linear", "refused to be packed");
      return false;
    }
    std::memcpy(w_, begun.data(), 64);
    return true;
  }
  // Plain weights must come back from packed ones.
  void check_packing() const {
    rapt_linear_options of_packed = o_;
    std::size_t bytes = 0;
    if (rapt_linear_packed_length(&o_, &bytes) != RAPT_OK) finding("linear", "refused to be measured");
    std::vector<unsigned char> packed(bytes);
    if (rapt_linear_pack(w_, 0, o_.out_features, &o_, packed.data(), bytes) != RAPT_OK)
      finding("linear", "refused to be packed");
    of_packed.w_strides = {0, 0};
    check_unpacked(packed, of_packed, o_.in_features, o_.w_strides, {});
  }
  rapt_matrix_strides contiguous_add() const { return {static_cast<std::ptrdiff_t>(o_.out_features), 1}; }

  // Rows of x are in any order, and may be in the list many times. Rows of y are in falling order.
  void place_lists() {
    rows_of_x_ = rows_of_y_ = o_.rows;
    const unsigned wanted = input_.byte() % 4;
    auto *const lists = reinterpret_cast<std::size_t *>(
        memory().place(lists_at, 2 * o_.rows * sizeof(std::size_t), placement_, 0));
    for (std::size_t r = 0; r < o_.rows; ++r) {
      lists[r] = input_.byte() % (o_.rows + 3);
      lists[o_.rows + r] = 2 * (o_.rows - r) - 1;
    }
    if (wanted & 1) o_.x_rows = lists, rows_of_x_ = o_.rows + 3;
    if (wanted & 2) o_.y_rows = lists + o_.rows, rows_of_y_ = 2 * o_.rows;
  }

  // Makes an argument invalid in some runs.
  void spoil() {
    if (rapt_linear_workspace(&o_, &workspace_size_) != RAPT_OK)
      return finding("linear", "refused to be measured");
    const bool any_work = o_.rows > 0 && o_.out_features > 0;
    switch (input_.byte() % 40) {
      case 1:
        o_.in_features = 0;
        return must_fail(RAPT_BAD_SHAPE);
      case 2:
        o_.size -= 1 + input_.byte();
        return must_fail(RAPT_BAD_OPTIONS_SIZE);
      case 3:
        if (any_work) must_fail(RAPT_BAD_WORKSPACE);
        workspace_size_ -= 1 + input_.byte() % 64;
        return;
      case 4:
        o_.y_type = number_ == RAPT_F64 ? RAPT_F32 : RAPT_F64;
        return must_fail(RAPT_BAD_TYPE);
      case 5:
        o_.arithmetic = 7;
        return must_fail(RAPT_BAD_ARITHMETIC);
      case 6:
        if (o_.out_features == 0) return;
        o_.y_stride = static_cast<std::ptrdiff_t>(o_.out_features) - 1 - input_.byte();
        if (o_.y_stride == 0) o_.y_stride = -1;
        return must_fail(RAPT_BAD_Y_STRIDE);
      case 7:
        if (o_.add) return;
        o_.add_stride = 1;
        return must_fail(RAPT_BAD_ADD);
      case 8:
        o_.x_strides = {-1, -1};
        if (any_work && (o_.rows > 1 || o_.in_features > 1)) must_fail(RAPT_BAD_X_STRIDES);
        rules_.may_fail |= only(RAPT_BAD_X_STRIDES);
        stop_unless_failing_ = true;
        return;
      case 9:
        o_.rows = SIZE_MAX - input_.byte();
        return must_fail(RAPT_BAD_SIZE);
      case 10:
        if (o_.add != y_ || !any_work || o_.out_features == 1) return;  // it may lie in the gap of one output
        o_.add = y_ + size_of(o_.y_type);
        return must_fail(RAPT_BAD_OVERLAP);
      case 11:
        if (!any_work || !o_.packed_w) return;
        w_[input_.byte() % 64] ^= static_cast<unsigned char>(1 + input_.below(255));
        return must_fail(RAPT_BAD_PACKED);
      default:
        return;
    }
  }

  void call() {
    if (stop_unless_failing_ && rules_.must_fail == 0) return;
    // The options end at a guard page, so that reading past them faults.
    auto *const given = reinterpret_cast<rapt_linear_options *>(
        memory().place(options_at, sizeof o_, Placement::ends_at_guard, 0));
    std::memcpy(given, &o_, sizeof o_);
    static GuardedSlot workspace(std::size_t{1} << 20);
    const unsigned cut = input_.byte();
    unsigned calls = 0;
    on_every_level(
        "linear", memory(), results(), rules_,
        [&] {
          unsigned char *const space = workspace.place(workspace_size_, placement_, cut % 64);
          const rapt_status status = (cut + calls++) % 2 == 0 || rules_.must_fail != 0
                                         ? rapt_linear(x_, w_, y_, given, space, workspace_size_)
                                         : by_tasks(w_, given, space, cut);
          if (!workspace.surroundings_intact()) finding("linear", "wrote outside the workspace");
          return status;
        },
        [&](std::vector<std::uint64_t> &bits) { append_results(bits); });
  }

  rapt_type add_type_ = RAPT_F32, number_ = RAPT_F32;
  bool stop_unless_failing_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  LinearFuzz(input).run();
  return 0;
}
