#include "calls/linear.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "calls/linear_values.hpp"
#include "calls/quantized_values.hpp"
#include "support/bits.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

// Says in which row of memory each row of a call is. Some rows of memory belong to no row of the call.
struct RowList {
  RowList(std::size_t rows, bool is_given, Random &random) : place(rows), rows_of_memory(rows) {
    std::iota(place.begin(), place.end(), std::size_t{0});
    if (!is_given) return;
    rows_of_memory = random.below(2);
    for (std::size_t &row : place) {
      row = rows_of_memory;
      rows_of_memory += 1 + random.one_in(3);
    }
    for (std::size_t i = rows; i > 1; --i) std::swap(place[i - 1], place[random.below(i)]);
  }

  std::vector<std::size_t> place;
  std::size_t rows_of_memory;
};

constexpr bool is_4_bits(rapt_type type) { return type == RAPT_I4 || type == RAPT_U4; }
constexpr bool is_f8(rapt_type type) { return type == RAPT_F8_E4M3 || type == RAPT_F8_E5M2; }
constexpr bool is_in_blocks(rapt_type type) { return type >= RAPT_Q8_0 && type <= RAPT_NVFP4; }
constexpr bool is_quantized(rapt_type type) { return type >= RAPT_I8; }

class LinearCall final : public Call {
 public:
  // W is uint8_t for quantized weights, whose type is w_type. A row of blocks of a file has row_bytes.
  template <class X, class W, class Y>
  struct Types {
    rapt_type w_type;
    std::size_t row_bytes = 0;
  };

  template <class X, class W, class Y>
  LinearCall(Types<X, W, Y> types, const RowsProblem &problem, std::size_t outputs,
             rapt_arithmetic arithmetic, std::uint64_t seed, const Layout &layout)
      : Call(layout, seed % 2 == 1),
        random_(seed * 77 + 5),
        how_(layout.linear),
        first_(problem.window.first),
        rows_(problem.window.end(problem.rows) - first_),
        x_list_(rows_, how_.x_rows, random_),
        y_list_(rows_, how_.y_rows, random_),
        split_seed_(random_.next()) {
    const bool x_is_i8 = std::is_same_v<X, std::int8_t>;
    o_.size = sizeof o_;
    o_.x_type = is_short() && std::is_same_v<X, float> ? RAPT_TYPE_DEFAULT : type_of(element_of<X>);
    o_.w_type = is_short() && std::is_same_v<X, W> ? RAPT_TYPE_DEFAULT : types.w_type;
    o_.y_type = is_short() && (std::is_same_v<X, Y> || (x_is_i8 && std::is_same_v<Y, float>))
                    ? RAPT_TYPE_DEFAULT
                    : type_of(element_of<Y>);
    o_.rows = rows_;
    o_.in_features = problem.cols;
    o_.out_features = outputs;
    const bool is_bf16 = std::is_same_v<X, BF16> && std::is_same_v<W, BF16>;
    const rapt_arithmetic by_default = is_bf16   ? RAPT_ARITHMETIC_BF16
                                       : x_is_i8 ? RAPT_ARITHMETIC_I8
                                                 : RAPT_ARITHMETIC_F32;
    if (!std::is_same_v<W, double> && (!is_short() || arithmetic != by_default)) o_.arithmetic = arithmetic;
    w_type_ = types.w_type;
    arithmetic_ = arithmetic;
    x_is_i8_ = x_is_i8;

    Operand &x = add("x", element_of<X>, {1, 1, x_list_.rows_of_memory, problem.cols}, 0, &x_);
    x.missing = RAPT_BAD_X;
    if (how_.x_rows) x.rows = x_list_.place;
    put_in_order(x, how_.x_order, o_.x_strides);
    x.stride_name = "x_strides";
    const std::size_t columns = types.row_bytes      ? types.row_bytes
                                : is_4_bits(w_type_) ? (problem.cols + 1) / 2
                                                     : problem.cols;
    Operand &w = add("w", element_of<W>, {1, 1, outputs, columns}, 1, how_.packed_w ? &plain_w_ : &w_);
    w.missing = how_.packed_w ? RAPT_OK : RAPT_BAD_W;
    w.role = role_of_weights();
    put_in_order(w, is_4_bits(w_type_) || is_in_blocks(w_type_) ? MatrixOrder::rows : how_.w_order,
                 weights().w_strides);
    w.stride_name = "w_strides";
    Operand &y = add("y", element_of<Y>, {1, 1, y_list_.rows_of_memory, outputs}, 2, &y_);
    y.role = Role::output;
    y.missing = RAPT_BAD_Y;
    if (how_.y_rows) y.rows = y_list_.place;
    y.stride_fields[2] = &o_.y_stride;
    y.stride_name = "y_stride";
    if (how_.x_rows) add_list("x_rows", &o_.x_rows, x_list_);
    if (how_.y_rows) add_list("y_rows", &o_.y_rows, y_list_);
  }

  // ---- arrays, of the whole problem

  template <class E, class A>
  void hold_x(const std::vector<A> &numbers) {
    hold_rows<E>(operand("x"), x_list_, std::span(numbers), operand("x").sizes[3]);
  }
  template <class E>
  void hold_w(const std::vector<E> &elements) {
    operand("w").hold(std::span(elements));
  }
  template <class A>
  void add_bias(const std::vector<A> &numbers) {
    if (!numbers.empty()) add_array<A>("bias", &o_.bias, 1, std::span(numbers));
  }
  template <class A>
  void add_output_scales(const std::vector<A> &numbers) {
    if (!numbers.empty()) add_array<A>("output_scales", &o_.output_scales, 1, std::span(numbers));
  }
  template <class A>
  void add_row_scales(const std::vector<A> &numbers) {
    if (!numbers.empty())
      add_array<A>("row_scales", &o_.row_scales, 0, std::span(numbers).subspan(first_, rows_));
  }
  // Adds an addend of elements E, which takes the place of y.
  template <class E, class A>
  void add_in_y(const std::vector<A> &numbers) {
    Operand &y = operand("y");
    y.role = Role::both;
    hold_rows<E>(y, y_list_, std::span(numbers), y.sizes[3]);
    add_is_y_ = true;
    if (!is_short()) o_.add_type = type_of(element_of<E>);
  }
  template <class E, class A>
  void add_apart(const std::vector<A> &numbers) {
    Operand &added = add("add", element_of<E>, {1, 1, y_list_.rows_of_memory, o_.out_features}, 0, &o_.add);
    added.rows = operand("y").rows;
    added.stride_fields[2] = &o_.add_stride;
    added.stride_name = "add_stride";
    hold_rows<E>(added, y_list_, std::span(numbers), o_.out_features);
    if (!is_short() || element_of<E> != operand("y").element) o_.add_type = type_of(element_of<E>);
  }
  // Adds the arrays of quantized weights.
  template <class Scale>
  void add_scales(const QuantizedNumbers &numbers, std::size_t scale_group, std::size_t outputs_per_scale) {
    rapt_linear_options &of = weights();
    o_.scale_group = is_in_blocks(w_type_) && is_short() ? 0 : scale_group;
    if (is_in_blocks(w_type_)) return;
    if (!numbers.scales.empty())
      add_array<Scale>("w_scales", &of.w_scales, 0, std::span(numbers.scales), role_of_weights());
    if (!numbers.offsets.empty())
      add_array<Scale>("w_offsets", &of.w_offsets, 0, std::span(numbers.offsets), role_of_weights());
    if (!numbers.zeros.empty())
      add_array<std::uint8_t>("w_zeros", &of.w_zeros, 0, std::span(numbers.zeros), role_of_weights());
    if (!numbers.codebook.empty()) {
      add_array<float>("w_codebook", &of.w_codebook, 0, std::span(numbers.codebook), role_of_weights());
      all().back().has_limits =
          arithmetic_ == RAPT_ARITHMETIC_I8;  // numbers that are no integers are refused
    }
    scale_size_ = sizeof(Scale);
    has_scales_ = !numbers.scales.empty() || !numbers.offsets.empty();
    if (has_scales_ && (!is_short() || !std::is_same_v<Scale, float>))
      o_.w_scale_type = type_of(element_of<Scale>);
    groups_ = numbers.groups;
    if (numbers.scales.empty()) return;
    outputs_per_scale_ = outputs_per_scale == 0 && !is_short() ? 1 : outputs_per_scale;
    if (!how_.packed_w || !is_short()) o_.outputs_per_scale = outputs_per_scale_;
  }
  void add_x_scales(const QuantizedNumbers &numbers, std::size_t x_group) {
    o_.x_group = x_group;
    if (numbers.x_scales.empty()) return;
    Operand &added =
        add("x_scales", Element::f32, {1, 1, x_list_.rows_of_memory, numbers.x_groups}, 0, &o_.x_scales);
    added.set_rows_apart(0);
    added.missing = RAPT_BAD_X_SCALES;
    added.rows = operand("x").rows;
    hold_rows<float>(added, x_list_, std::span(numbers.x_scales), numbers.x_groups);
  }
  // Adds what follows from the others: the packed weights and the workspace.
  void finish() {
    if (how_.packed_w) {
      pack_.size = sizeof pack_;
      pack_.x_type = o_.x_type, pack_.w_type = o_.w_type, pack_.y_type = o_.y_type,
      pack_.arithmetic = o_.arithmetic;
      pack_.rows = o_.rows, pack_.in_features = o_.in_features, pack_.out_features = o_.out_features;
      pack_.scale_group = o_.scale_group, pack_.w_scale_type = o_.w_scale_type;
      pack_.outputs_per_scale = outputs_per_scale_;
      point_at_values(pack_);
      rapt_linear_packed_length(&pack_, &packed_size_);
      Operand &packed = add("w", Element::u8, {1, 1, 1, packed_size_}, 1, &w_);
      packed.missing = RAPT_BAD_W;
      packed.has_limits = true;
      o_.packed_w = 1;
      point_at_nothing(pack_);
    }
    rapt_linear_options sized = o_;
    if (!how_.packed_w) point_at_values(sized);
    sized.add = find("add") || add_is_y_ ? &sized : nullptr;
    rapt_linear_workspace(&sized, &workspace_size_);
    Operand &workspace = add("workspace", Element::u8, {1, 1, 1, workspace_size_}, 2, &workspace_);
    workspace.role = Role::scratch;
    workspace.missing = workspace.bad_overlap = RAPT_BAD_WORKSPACE;
    if (random_.one_in(2)) workspace.values.assign(workspace_size_, 0x3f);
  }

  // ---- the call

  rapt_status run() override {
    Random random(split_seed_);
    const Calls calls = layout().linear.calls;
    if (add_is_y_) {
      o_.add = operand("y").data;  // also where y is null
      o_.add_stride = o_.y_stride;
    }
    // Experts do not add to listed rows of y.
    // Parts of a single row are seldom drawn otherwise, and a batch may join rows of one.
    const bool is_batch = calls == Calls::by_sequence || (calls != Calls::whole && rows_ == 1);
    if (is_batch && may_be_batch()) return run_batch(random);
    if (calls == Calls::by_sequence && !(add_is_y_ && how_.y_rows)) return run_experts(random);
    if (calls != Calls::query_by_query)
      return calls == Calls::whole || calls == Calls::by_sequence
                 ? rapt_linear(x_, w_, y_, given(o_), workspace_, workspace_size_)
                 : run_tasks(calls, random);
    rapt_status status = RAPT_OK;
    for (std::size_t r = rows_; r-- > 0 && status == RAPT_OK;) status = run_row(r);
    return status;
  }
  const char *options() const override { return "rapt_linear_options"; }
  std::vector<rapt_status> elsewhere(Where where) override {
    std::size_t number = 77;
    std::vector<rapt_status> statuses;
    if (where == Where::call) {
      if (has_work())
        statuses.push_back(rapt_linear_run(x_, w_, y_, given(o_), 0, 1, workspace_, workspace_size_));
      return statuses;
    }
    statuses.push_back(rapt_linear_workspace(given(o_), &number));
    statuses.push_back(rapt_linear_tasks(given(o_), &number));
    if (where == Where::options && !how_.packed_w) {
      statuses.push_back(rapt_linear_packed_length(given(o_), &number));
      std::vector<unsigned char> packed(number == 77 ? 1 : number);
      statuses.push_back(rapt_linear_pack(w_, 0, o_.out_features, given(o_), packed.data(), packed.size()));
    }
    return statuses;
  }

  bool can_be_undone() const override {
    if (!how_.packed_w || o_.out_features == 0) return true;
    return weights_come_back() && rows_are_numbers() && words_are_packed();
  }
  // Unpacked weights are those that were packed. The last half of an odd row of 4 bits is not looked at.
  bool weights_come_back() const {
    const Operand &w = operand("w");
    struct {
      const char *name;
      std::vector<unsigned char> bytes;
    } arrays[] = {{"w", {}}, {"w_scales", {}}, {"w_zeros", {}}, {"w_offsets", {}}, {"w_codebook", {}}};
    void *to[5] = {};
    for (std::size_t i = 0; i < 5; ++i) {
      if (!find(arrays[i].name)) continue;
      arrays[i].bytes.assign(operand(arrays[i].name).values.size() + 1, canary);
      to[i] = arrays[i].bytes.data();
    }
    rapt_linear_options options = o_;
    options.w_strides = {0, 0};
    const rapt_status status =
        rapt_linear_unpack(w_, packed_size_, 0, o_.out_features, &options, to[0], to[1],
                           static_cast<std::uint8_t *>(to[2]), to[3], static_cast<float *>(to[4]));
    if (status != RAPT_OK) return false;
    for (auto &[name, bytes] : arrays) {
      if (!find(name)) continue;
      std::vector<unsigned char> given = operand(name).values;
      const std::size_t row = w.sizes[3];
      for (std::size_t at = row;
           std::strcmp(name, "w") == 0 && is_4_bits(w_type_) && o_.in_features % 2 != 0 && at <= given.size();
           at += row)
        given[at - 1] &= 15;
      given.push_back(canary);
      if (given != bytes) return false;
    }
    return true;
  }
  // A row of packed integers has the numbers of the plain ones.
  bool rows_are_numbers() const {
    if (!has_integers() || outputs_per_scale_ > 1) return true;
    const std::size_t n = split_seed_ % o_.out_features, inputs = o_.in_features;
    const auto row = [&](const char *name) -> const unsigned char * {
      if (!find(name)) return nullptr;
      const std::vector<unsigned char> &all = operand(name).values;
      return all.data() + all.size() / o_.out_features * n;
    };
    const unsigned char *const codebook = find("w_codebook") ? operand("w_codebook").values.data() : nullptr;
    std::vector<float> found(inputs + 1, 77), expected(inputs + 1, 77);
    rapt_linear_options options = o_;
    options.w_strides = {0, 0};
    rapt_status status =
        rapt_linear_packed_rows(w_, packed_size_, &n, 1, &options, found.data(), RAPT_F32, 0);
    if (status != RAPT_OK) return false;
    status = rapt_dequantize_rows(row("w"), w_type_, 1, inputs, o_.scale_group, row("w_scales"),
                                  row("w_zeros"), row("w_offsets"), o_.w_scale_type,
                                  reinterpret_cast<const float *>(codebook), expected.data(), RAPT_F32, 0);
    return status == RAPT_OK && same_bits(found, expected);
  }
  // As many integers as fill words of GPTQ become the same packed bytes.
  bool words_are_packed() const {
    if (!find("w_zeros") || !find("w_scales") || find("w_offsets") || outputs_per_scale_ > 1) return true;
    const std::size_t bits = w_type_ == RAPT_U8 ? 8 : 4, unit = 32 / bits;
    rapt_linear_options options = pack_;
    const std::size_t inputs = options.in_features = o_.in_features / unit * unit,
                      outputs = options.out_features = o_.out_features / unit * unit;
    if (inputs == 0 || outputs == 0) return true;
    const std::size_t group = o_.scale_group ? o_.scale_group : o_.in_features,
                      groups = (inputs - 1) / group + 1, size = scale_size_;
    const Operand &w = operand("w");
    const std::size_t columns = w.sizes[3];
    const std::vector<unsigned char> &zeros = operand("w_zeros").values, &scales = operand("w_scales").values;
    std::vector<std::uint32_t> qweight(inputs / unit * outputs), qzeros(groups * outputs / unit);
    std::vector<unsigned char> by_output(outputs * groups * size), by_group(by_output),
        of_groups(outputs * groups);
    const auto put = [&](std::uint32_t &word, std::size_t i, unsigned integer) {
      word |= std::uint32_t{integer} << bits * (i % unit);
    };
    for (std::size_t n = 0; n < outputs; ++n) {
      for (std::size_t k = 0; k < inputs; ++k) {
        const unsigned byte = w.values[n * columns + (bits == 8 ? k : k / 2)];
        put(qweight[k / unit * outputs + n], k, bits == 8 ? byte : byte >> 4 * (k % 2) & 15);
      }
      for (std::size_t g = 0; g < groups; ++g) {
        const unsigned zero = of_groups[n * groups + g] = zeros[n * groups_ + g];
        if (zero >> bits != 0) return true;  // which no word has
        put(qzeros[(g * outputs + n) / unit], n, zero);
        const unsigned char *const scale = &scales[(n * groups_ + g) * size];
        std::memcpy(&by_output[(n * groups + g) * size], scale, size);
        std::memcpy(&by_group[(g * outputs + n) * size], scale, size);
      }
    }
    options.w_strides = {static_cast<std::ptrdiff_t>(columns), 1};
    options.w_scales = by_output.data();
    options.w_zeros = of_groups.data();
    std::size_t length = 0;
    if (rapt_linear_packed_length(&options, &length) != RAPT_OK) return false;
    std::vector<unsigned char> expected(length, 1), packed(length, 2);
    if (rapt_linear_pack(w.values.data(), 0, outputs, &options, expected.data(), length) != RAPT_OK)
      return false;
    options.w_strides = {0, 0};
    options.w_scales = nullptr;
    options.w_zeros = nullptr;
    const auto *const of_weights = reinterpret_cast<const std::int32_t *>(qweight.data()),
                      *const of_zeros = reinterpret_cast<const std::int32_t *>(qzeros.data());
    return rapt_linear_pack_words(of_weights, of_zeros, by_group.data(), nullptr, RAPT_WORDS_GPTQ_V2,
                                  &options, packed.data(), length, nullptr) == RAPT_OK &&
           packed == expected;
  }

  void add_limits(Limits &limits) override {
    add_types(limits);
    add_shape(limits);
    add_strides(limits);
    add_groups(limits);
    add_codebooks(limits);
    if (how_.packed_w && is_quantized(w_type_)) add_packed(limits);
    limits.are_of(Where::call);
    limits.field("workspace_size", workspace_size_);
    if (!has_work()) return;
    limits.past("workspace", workspace_size_, RAPT_BAD_WORKSPACE, {0, workspace_size_ - 1});
    for (const char *const list : {"x_rows", "y_rows"}) {
      if (!find(list)) continue;
      for (const std::size_t row : {SIZE_MAX, SIZE_MAX / 2})
        limits.add({list, only(RAPT_BAD_SIZE), [=, this] { set_value(list, rows_ - 1, row); }});
    }
  }

 protected:
  // Packs some blocks of outputs at a time, the first ones first and then in any order.
  void prepare() override {
    if (!how_.packed_w) return;
    Random random(split_seed_ + 1);
    const std::size_t outputs = pack_.out_features;
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t first = 0; first < outputs;) {
      const std::size_t count = std::min(outputs - first, 64 * (1 + random.below(3)));
      parts.emplace_back(first, count);
      first += count;
    }
    if (parts.empty()) parts.emplace_back(0, 0);
    if (parts.size() > 1 && random.one_in(2)) std::reverse(parts.begin() + 1, parts.end());
    const Operand &w = operand("w"), &packed = *packed_operand();
    for (const auto &[first, count] : parts) {
      rapt_linear_options part = pack_;
      const auto skip = [&, first = first](const void *array, std::size_t outputs, std::size_t size) {
        return array ? static_cast<const unsigned char *>(array) + first / outputs * groups_ * size : nullptr;
      };
      part.w_scales = skip(pack_.w_scales, std::max<std::size_t>(pack_.outputs_per_scale, 1), scale_size_);
      part.w_offsets = skip(pack_.w_offsets, 1, scale_size_);
      part.w_zeros = static_cast<const std::uint8_t *>(skip(pack_.w_zeros, 1, 1));
      const rapt_status status = rapt_linear_pack(w.is_empty() ? w.data : w.row(0, 0, first), first, count,
                                                  &part, packed.data, packed_size_);
      if (status != RAPT_OK) std::abort();  // what the call then computes would mislead
    }
  }

 private:
  static constexpr std::ptrdiff_t apart = 3;

  Role role_of_weights() const { return how_.packed_w ? Role::aside : Role::input; }
  bool has_integers() const {
    return w_type_ == RAPT_I8 || w_type_ == RAPT_I4 || w_type_ == RAPT_U4 || w_type_ == RAPT_U8;
  }
  // The options that have the weights' arrays: those of packing have them where the call has packed weights.
  rapt_linear_options &weights() { return how_.packed_w ? pack_ : o_; }
  const Operand *find(const char *name) const {
    for (const Operand &operand : operands()) {
      if (std::strcmp(operand.name, name) == 0) return &operand;
    }
    return nullptr;
  }
  const Operand &operand(const char *name) const { return *find(name); }
  Operand &operand(const char *name) { return const_cast<Operand &>(*find(name)); }
  Operand *packed_operand() {
    for (Operand &operand : all()) {
      if (operand.pointer == &w_) return &operand;
    }
    return nullptr;
  }

  void put_in_order(Operand &matrix, MatrixOrder order, rapt_matrix_strides &strides) {
    matrix.stride_fields[2] = &strides.row;
    matrix.stride_fields[3] = &strides.column;
    const auto rows = static_cast<std::ptrdiff_t>(matrix.sizes[2]),
               cols = static_cast<std::ptrdiff_t>(matrix.sizes[3]);
    if (order == MatrixOrder::columns) {
      matrix.strides[2] = 1;
      matrix.strides[3] = std::max<std::ptrdiff_t>(rows, 1) + layout().gap[matrix.slot];
    } else if (order == MatrixOrder::apart) {
      matrix.strides[2] = apart * cols;
      matrix.strides[3] = apart;
    }
  }
  void add_list(const char *name, void *pointer, const RowList &list) {
    Operand &added = add(name, Element::size, {1, 1, 1, rows_}, 0, pointer);
    added.has_limits = true;
    added.hold(std::span<const std::size_t>(list.place));
  }
  template <class E, class Numbers>
  void add_array(const char *name, void *pointer, std::size_t slot, Numbers numbers,
                 Role role = Role::input) {
    Operand &added = add(name, element_of<E>, {1, 1, 1, numbers.size()}, slot, pointer);
    added.role = role;
    std::vector<E> elements;
    for (const auto number : numbers) elements.push_back(E(number));
    added.hold(std::span<const E>(elements));
  }
  // Holds the call's rows of `numbers` in the order of memory. Rows of no call hold canary bytes.
  template <class E, class A>
  void hold_rows(Operand &matrix, const RowList &list, std::span<const A> numbers, std::size_t cols) const {
    std::vector<E> image(list.rows_of_memory * cols);
    if (!image.empty()) std::memset(static_cast<void *>(image.data()), canary, image.size() * sizeof(E));
    for (std::size_t r = 0; r < list.place.size(); ++r) {
      for (std::size_t c = 0; c < cols; ++c)
        image[list.place[r] * cols + c] = E(numbers[(first_ + r) * cols + c]);
    }
    matrix.hold(std::span<const E>(image));
  }
  // Lets options point anywhere at all, for functions that only look at which arrays there are.
  void point_at_values(rapt_linear_options &options) {
    static const float some[16] = {};
    const auto at = [&](const char *name) { return find(name) ? some : nullptr; };
    options.w_scales = at("w_scales");
    options.w_offsets = at("w_offsets");
    options.w_zeros = reinterpret_cast<const std::uint8_t *>(at("w_zeros"));
    options.w_codebook = at("w_codebook");
  }
  void point_at_nothing(rapt_linear_options &options) const {
    options.w_scales = options.w_offsets = nullptr;
    options.w_zeros = nullptr;
    options.w_codebook = nullptr;
  }

  rapt_status run_tasks(Calls calls, Random &random) {
    std::size_t tasks = 0;
    rapt_status status = rapt_linear_tasks(&o_, &tasks);
    const auto run = [&](std::size_t first, std::size_t end) {
      if (status == RAPT_OK)
        status = rapt_linear_run(x_, w_, y_, &o_, first, end, workspace_, workspace_size_);
    };
    if (calls == Calls::task_by_task) {
      for (std::size_t task = tasks; task > 0; --task) run(task - 1, task);
      return status;
    }
    const std::size_t longest = random.one_in(2) ? 3 : tasks;
    for (std::size_t first = 0; first < tasks;) {
      const std::size_t end = first + std::min(tasks - first, random.below(longest + 1));
      run(first, end);
      first = end;
    }
    return status;
  }
  // Divides the rows among experts, whose weights and biases are equal. Those of experts without rows are canary bytes.
  rapt_status run_experts(Random &random) {
    rapt_linear_options o = o_;
    rapt_expert_options experts{};
    experts.size = sizeof experts;
    experts.experts = 1 + random.below(5);
    std::vector<std::size_t> offsets(experts.experts + 1);
    for (std::size_t e = 1; e < experts.experts; ++e) offsets[e] = random.below(rows_ + 1);
    offsets.back() = rows_;
    std::sort(offsets.begin(), offsets.end());
    experts.offsets = offsets.data();
    std::deque<std::vector<unsigned char>> copies;
    const auto copy = [&](const void *array, std::size_t bytes, std::size_t stride) -> const void * {
      if (!array || bytes == 0) return array;
      std::vector<unsigned char> &all = copies.emplace_back(experts.experts * stride, canary);
      for (std::size_t e = 0; e < experts.experts; ++e) {
        if (offsets[e] != offsets[e + 1]) std::memcpy(&all[e * stride], array, bytes);
      }
      return all.data();
    };
    const auto gap = [&] { return random.one_in(2) ? random.below(9) : 0; };
    const std::size_t element = size_of(operand("w").element), number = w_type_ == RAPT_F64 ? 8 : 4,
                      bytes = how_.packed_w ? packed_size_ : operand("w").extent(),
                      stride = bytes + gap() * element;
    const bool is_dense =
        !how_.packed_w && o.w_strides.row == 0 && o.w_strides.column == 0 && stride == bytes;
    experts.w_stride = is_dense ? 0 : static_cast<std::ptrdiff_t>(stride);
    const void *const w = copy(w_, bytes, stride);
    if (o.bias) {
      const std::size_t distance = o.out_features + gap();
      if (distance != o.out_features) experts.bias_stride = static_cast<std::ptrdiff_t>(distance);
      o.bias = copy(o.bias, o.out_features * number, distance * number);
    }
    o.output_scales = copy(o.output_scales, o.out_features * number, o.out_features * number);
    const std::size_t scales = o.out_features * groups_,
                      of_scales = o.w_scales ? operand("w_scales").extent() : 0;
    o.w_scales = copy(o.w_scales, of_scales, of_scales);
    o.w_offsets = copy(o.w_offsets, scales * scale_size_, scales * scale_size_);
    o.w_zeros = static_cast<const std::uint8_t *>(copy(o.w_zeros, scales, scales));
    std::size_t size = 0, tasks = 0;
    rapt_status status = rapt_linear_experts_workspace(&o, &size);
    if (status == RAPT_OK) status = rapt_linear_experts_tasks(&o, &experts, &tasks);
    std::vector<unsigned char> workspace(size + 1);
    if (status != RAPT_OK || random.one_in(2))
      return rapt_linear_experts(x_, w, y_, &o, &experts, workspace.data(), size);
    for (std::size_t first = 0; first < tasks && status == RAPT_OK;) {
      const std::size_t end = first + 1 + random.below(tasks - first);
      status = rapt_linear_experts_run(x_, w, y_, &o, &experts, first, end, workspace.data(), size);
      first = end;
    }
    return status;
  }
  bool may_be_batch() const {
    return !how_.packed_w && o_.w_type < RAPT_I8 && !o_.x_rows && !o_.y_rows && rows_ > 0 &&
           o_.out_features > 0 && !(o_.row_scales && o_.output_scales);
  }
  // Divides the outputs or the rows among the products of a batch, neighbours along its first dimension. Rows have
  // equal weights and biases, or one for all.
  rapt_status run_batch(Random &random) {
    rapt_linear_options o = o_;
    rapt_linear_batch_options batch = RAPT_LINEAR_BATCH_OPTIONS_INIT;
    const bool by_outputs = o.row_scales || (!o.output_scales && (rows_ == 1 || random.one_in(2)));
    std::size_t &divided = by_outputs ? o.out_features : o.rows;
    const auto divisor_of = [&](std::size_t number) {
      std::size_t divisor = random.one_in(2) ? number : 1 + random.below(number);
      while (number % divisor != 0) --divisor;
      return divisor;
    };
    const std::size_t drawn = divisor_of(divided), products = drawn == 1 ? divided : drawn,
                      few = 2 + random.below(2),
                      neighbours = products % few == 0 ? few : divisor_of(products);
    const auto row_or = [](std::ptrdiff_t row, std::size_t dense) {
      return row != 0 ? row : static_cast<std::ptrdiff_t>(dense);
    };
    o.y_stride = row_or(o.y_stride, o.out_features);
    if (o.add) o.add_stride = row_or(o.add_stride, o.out_features);
    divided /= products;
    batch.dims = 2;
    batch.shape[0] = neighbours, batch.shape[1] = products / neighbours;
    const auto set_step = [&](std::ptrdiff_t(&strides)[RAPT_MAX_BATCH_DIMS], std::ptrdiff_t step,
                              std::size_t count) {
      strides[0] = step == RAPT_REPEAT ? step : step * static_cast<std::ptrdiff_t>(count);
      strides[1] = step == RAPT_REPEAT ? step : strides[0] * static_cast<std::ptrdiff_t>(neighbours);
    };
    std::deque<std::vector<unsigned char>> copies;
    const auto copy = [&](const void *array, std::size_t bytes, std::size_t size,
                          std::ptrdiff_t(&strides)[RAPT_MAX_BATCH_DIMS]) -> const void * {
      strides[0] = strides[1] = RAPT_REPEAT;
      if (!array || bytes == 0 || random.one_in(2)) return array;
      const std::size_t stride = bytes + random.below(9) * size;
      std::vector<unsigned char> &all = copies.emplace_back((products - 1) * stride + bytes, canary);
      for (std::size_t p = 0; p < products; ++p) std::memcpy(&all[p * stride], array, bytes);
      set_step(strides, static_cast<std::ptrdiff_t>(stride / size), 1);
      return all.data();
    };
    const void *w = w_;
    if (by_outputs) {
      batch.x_strides[0] = batch.x_strides[1] = RAPT_REPEAT;
      set_step(batch.w_strides, row_or(o.w_strides.row, o.in_features), divided);
      set_step(batch.y_strides, 1, divided);
      if (o.add) set_step(batch.add_strides, 1, divided);
      if (o.bias) set_step(batch.bias_strides, 1, divided);
    } else {
      const std::size_t number = w_type_ == RAPT_F64 ? 8 : 4;
      set_step(batch.x_strides, row_or(o.x_strides.row, o.in_features), divided);
      set_step(batch.y_strides, o.y_stride, divided);
      if (o.add) set_step(batch.add_strides, o.add_stride, divided);
      w = copy(w_, operand("w").extent(), size_of(operand("w").element), batch.w_strides);
      if (o.bias) o.bias = copy(o.bias, o.out_features * number, number, batch.bias_strides);
    }
    std::size_t size = 0, tasks = 0;
    rapt_status status = rapt_linear_batch_workspace(&o, &batch, &size);
    if (status == RAPT_OK) status = rapt_linear_batch_tasks(&o, &batch, &tasks);
    std::vector<unsigned char> workspace(size + 1);
    if (status != RAPT_OK || random.one_in(2))
      return rapt_linear_batch(x_, w, y_, &o, &batch, workspace.data(), size);
    for (std::size_t first = 0; first < tasks && status == RAPT_OK;) {
      const std::size_t end = first + 1 + random.below(tasks - first);
      status = rapt_linear_batch_run(x_, w, y_, &o, &batch, first, end, workspace.data(), size);
      first = end;
    }
    return status;
  }
  // Runs a row alone, with a workspace of its size, at the same end of the memory.
  rapt_status run_row(std::size_t r) {
    rapt_linear_options o = o_;
    const Operand &x = operand("x"), &y = operand("y");
    o.rows = 1;
    if (o.x_rows) o.x_rows += r;
    if (o.y_rows) o.y_rows += r;
    if (o.row_scales)
      o.row_scales = static_cast<const unsigned char *>(o.row_scales) + r * (w_type_ == RAPT_F64 ? 8 : 4);
    if (o.x_scales && !o.x_rows) o.x_scales += r * operand("x_scales").sizes[3];
    const Operand *const add = find("add");
    if (add && !o.y_rows && !add->is_empty()) o.add = add->row(0, 0, r);
    void *const to = o.y_rows || y.is_empty() ? y_ : y.row(0, 0, r);
    if (add_is_y_) o.add = to ? to : y.data;
    std::size_t bytes = 0;
    const rapt_status status = rapt_linear_workspace(&o, &bytes);
    if (status != RAPT_OK || bytes > workspace_size_) return status == RAPT_OK ? RAPT_BAD_WORKSPACE : status;
    unsigned char *const workspace =
        static_cast<unsigned char *>(workspace_) +
        (layout().placement == Placement::ends_at_guard ? workspace_size_ - bytes : 0);
    return rapt_linear(o.x_rows || x.is_empty() ? x_ : x.row(0, 0, r), w_, to, &o, workspace, bytes);
  }

  // ---- limits

  void add_types(Limits &limits) {
    const bool in_f64 = w_type_ == RAPT_F64, quantized = is_quantized(w_type_);
    limits.are_of(Where::options);
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.field("x_type", o_.x_type);
    limits.field("w_type", o_.w_type);
    limits.past("x_type", o_.x_type, RAPT_BAD_TYPE, {8, 99, ~0u});
    limits.past("w_type", o_.w_type, RAPT_BAD_TYPE, {RAPT_U8 + 1, 99, ~0u});
    limits.past("y_type", o_.y_type, RAPT_BAD_TYPE,
                {8, 99, ~0u, RAPT_I8, RAPT_I4, RAPT_U4, RAPT_F8_E4M3, RAPT_U8});
    if (!is_short()) {  // else other types follow from these
      limits.past("x_type", o_.x_type, RAPT_BAD_TYPE, {RAPT_I4, RAPT_U4, RAPT_F8_E5M2, RAPT_U8});
      limits.past("x_type", o_.x_type, RAPT_BAD_TYPE, {in_f64 ? RAPT_F32 : RAPT_F64});
      limits.past("w_type", o_.w_type, RAPT_BAD_TYPE, {in_f64 ? RAPT_F32 : RAPT_F64});
      limits.past("y_type", o_.y_type, RAPT_BAD_TYPE, {in_f64 ? RAPT_F32 : RAPT_F64});
      if (!quantized && !in_f64) limits.past("x_type", o_.x_type, RAPT_BAD_TYPE, {RAPT_I8});
    }
    limits.past("arithmetic", o_.arithmetic, RAPT_BAD_ARITHMETIC, {4, -1, 99});
    if (!quantized || is_f8(w_type_))
      limits.past("arithmetic", o_.arithmetic, RAPT_BAD_ARITHMETIC, {RAPT_ARITHMETIC_I8});
    if (in_f64 || x_is_i8_)
      limits.past("arithmetic", o_.arithmetic, RAPT_BAD_ARITHMETIC, {RAPT_ARITHMETIC_F32});
    const bool is_bf16 = operand("x").element == Element::bf16 && w_type_ == RAPT_BF16;
    if (!is_bf16) limits.past("arithmetic", o_.arithmetic, RAPT_BAD_ARITHMETIC, {RAPT_ARITHMETIC_BF16});
    if (find("add") || add_is_y_) {
      if (add_is_y_) return;  // the call sets add as it runs
      limits.past("add_type", o_.add_type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, 99, ~0u});
    } else {
      limits.past("add_type", o_.add_type, RAPT_BAD_ADD, {RAPT_F32, RAPT_I8, 99, ~0u});
      limits.past("add_stride", o_.add_stride, RAPT_BAD_ADD,
                  {1, -1, static_cast<std::ptrdiff_t>(o_.out_features) + 1});
    }
  }
  void add_shape(Limits &limits) {
    limits.are_of(Where::options);
    limits.past("in_features", o_.in_features, RAPT_BAD_SHAPE, {0});
    limits.past("in_features", o_.in_features, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2});
    limits.past("out_features", o_.out_features, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2});
    limits.past("rows", o_.rows, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2});
    const auto outputs = static_cast<std::ptrdiff_t>(o_.out_features);
    limits.past("y_stride", o_.y_stride, RAPT_BAD_Y_STRIDE, {-1, -outputs - 1, RAPT_REPEAT});
    if (outputs > 1) limits.past("y_stride", o_.y_stride, RAPT_BAD_Y_STRIDE, {1, outputs - 1});
    if (!find("add")) return;
    limits.past("add_stride", o_.add_stride, RAPT_BAD_ADD, {-1, -outputs - 1, RAPT_REPEAT});
    if (outputs > 1) limits.past("add_stride", o_.add_stride, RAPT_BAD_ADD, {1, outputs - 1});
  }
  void add_strides(Limits &limits) {
    limits.are_of(Where::options);
    const auto set = [&](const char *name, rapt_matrix_strides &strides, rapt_status bad,
                         rapt_matrix_strides values) {
      limits.add({name, only(bad), [&strides, values] { strides = values; }});
    };
    const std::size_t rows_of_x = o_.x_rows || how_.x_rows ? 2 : rows_;
    const auto outputs = static_cast<std::ptrdiff_t>(o_.out_features);
    const auto inputs = static_cast<std::ptrdiff_t>(o_.in_features);
    const auto columns = static_cast<std::ptrdiff_t>(operand("w").sizes[3]);
    limits.field("x_strides.row", o_.x_strides.row);
    limits.field("x_strides.column", o_.x_strides.column);
    limits.field("w_strides.row", o_.w_strides.row);
    limits.field("w_strides.column", o_.w_strides.column);
    if (rows_of_x > 1) {
      set("x_strides", o_.x_strides, RAPT_BAD_X_STRIDES, {0, 1});
      set("x_strides", o_.x_strides, RAPT_BAD_X_STRIDES, {-inputs, 1});
    }
    if (inputs > 1 && rows_of_x > 0) {
      set("x_strides", o_.x_strides, RAPT_BAD_X_STRIDES, {inputs, 0});
      set("x_strides", o_.x_strides, RAPT_BAD_X_STRIDES, {inputs, -1});
    }
    if (how_.packed_w) {
      limits.are_of(Where::work);
      set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {columns, 1});
      set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {0, 1});
    } else {
      if (outputs > 1) {
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {0, 1});
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {-columns, 1});
      }
      if (columns > 1 && outputs > 0) {
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {columns, 0});
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {columns, -1});
      }
      if (is_4_bits(w_type_) && columns > 1 && outputs > 0) {
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {2 * columns, 2});
        if (outputs > 1) set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {1, outputs});
        set("w_strides", o_.w_strides, RAPT_BAD_W_STRIDES, {columns, RAPT_REPEAT});
      }
    }
    limits.are_of(Where::call);
    if (!has_work()) return;
    if (rows_ > 1 && !how_.x_rows) set("x_strides", o_.x_strides, RAPT_BAD_SIZE, {PTRDIFF_MAX, 1});
    if (rows_ > 1 && !how_.y_rows)
      limits.add({"y_stride", only(RAPT_BAD_SIZE), [this] { o_.y_stride = PTRDIFF_MAX; }});
    if (outputs > 1 && !how_.packed_w) set("w_strides", o_.w_strides, RAPT_BAD_SIZE, {PTRDIFF_MAX, 1});
  }
  void add_groups(Limits &limits) {
    limits.are_of(Where::options);
    const bool quantized = is_quantized(w_type_), in_i8 = quantized && arithmetic_ == RAPT_ARITHMETIC_I8;
    const auto past_pointer = [&](const char *name, auto &pointer, rapt_status bad) {
      limits.past(name, pointer, bad,
                  {reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(&limits)});
    };
    if (!quantized) {
      limits.past("scale_group", o_.scale_group, RAPT_BAD_SCALE_GROUP, {16, 32, 1, SIZE_MAX});
      past_pointer("w_scales", o_.w_scales, RAPT_BAD_W_SCALES);
      past_pointer("w_zeros", o_.w_zeros, RAPT_BAD_W_ZEROS);
      past_pointer("w_offsets", o_.w_offsets, RAPT_BAD_W_OFFSETS);
      past_pointer("w_codebook", o_.w_codebook, RAPT_BAD_W_CODEBOOK);
      limits.past("w_scale_type", o_.w_scale_type, RAPT_BAD_W_SCALES, {RAPT_F32, 99});
    } else {
      limits.past("scale_group", o_.scale_group, RAPT_BAD_SCALE_GROUP,
                  {1, 8, 15, 24, 48, 96, 512, std::size_t{1} << 32, SIZE_MAX});
      if (is_in_blocks(w_type_)) {
        limits.past("scale_group", o_.scale_group, RAPT_BAD_SCALE_GROUP, {64, 128, 256});
        limits.past("w_scale_type", o_.w_scale_type, RAPT_BAD_W_SCALES, {RAPT_F32, RAPT_F16});
      }
      limits.past("w_scale_type", o_.w_scale_type, RAPT_BAD_W_SCALES,
                  {RAPT_F64, RAPT_I8, RAPT_I4, 8, 99, ~0u});
      if (!has_scales_ && !how_.packed_w)
        limits.past("w_scale_type", o_.w_scale_type, RAPT_BAD_W_SCALES, {RAPT_F32, RAPT_F16});
      const bool has_codebook = find("w_codebook") != nullptr;
      if ((w_type_ != RAPT_U4 && w_type_ != RAPT_U8) || (has_codebook && !how_.packed_w))
        past_pointer("w_zeros", o_.w_zeros, RAPT_BAD_W_ZEROS);
      const rapt_status bad_codebook =
          find("w_zeros") && !how_.packed_w ? RAPT_BAD_W_ZEROS : RAPT_BAD_W_CODEBOOK;
      if (w_type_ != RAPT_U4) past_pointer("w_codebook", o_.w_codebook, bad_codebook);
    }
    limits.past("outputs_per_scale", o_.outputs_per_scale, RAPT_BAD_W_SCALES,
                {2, 32, 63, 65, 96, 192, 512, SIZE_MAX - 1});
    if (!quantized || is_in_blocks(w_type_) || (!how_.packed_w && !find("w_scales")))
      limits.past("outputs_per_scale", o_.outputs_per_scale, RAPT_BAD_W_SCALES, {1, 64, 128, SIZE_MAX});
    if (!x_is_i8_) past_pointer("x_scales", o_.x_scales, RAPT_BAD_X_SCALES);
    if (!in_i8) {
      limits.past("x_group", o_.x_group, RAPT_BAD_X_GROUP, {32, 512, SIZE_MAX});
    } else {
      const bool in_16 =
          w_type_ == RAPT_Q2_K || w_type_ == RAPT_Q3_K || w_type_ == RAPT_Q6_K || w_type_ == RAPT_NVFP4;
      const std::size_t fold = in_16                   ? 16
                               : is_in_blocks(w_type_) ? 32
                               : o_.scale_group        ? o_.scale_group
                                                       : 512;
      limits.past("x_group", o_.x_group, RAPT_BAD_X_GROUP,
                  {1, fold - 1, fold + 1, 3 * fold / 2, SIZE_MAX - 1});
    }
  }
  // I8 arithmetic has codebooks of integers of bytes.
  void add_codebooks(Limits &limits) {
    if (arithmetic_ != RAPT_ARITHMETIC_I8 || w_type_ != RAPT_U4 || !has_work()) return;
    limits.are_of(Where::call);
    if (!how_.packed_w) {
      static const float bad[4][16] = {
          {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0.5f}, {128}, {0, -129}, {0, 0, NAN}};
      for (const float(&codebook)[16] : bad)
        limits.past("w_codebook", o_.w_codebook, find("w_zeros") ? RAPT_BAD_W_ZEROS : RAPT_BAD_W_CODEBOOK,
                    {codebook});
    } else if (find("w_codebook")) {
      const std::size_t header = 64;
      for (std::size_t q = 0; q < 16; ++q)
        limits.add({"w", only(RAPT_BAD_W_CODEBOOK), [=, this] { spoil(*packed_operand(), header + 4 * q); }});
    }
  }
  // Packed weights bring their arrays, and are of one layer.
  void add_packed(Limits &limits) {
    limits.are_of(Where::work);
    limits.past<const void *>("w_scales", o_.w_scales, RAPT_BAD_W_SCALES, {&limits});
    limits.past<const void *>("w_offsets", o_.w_offsets, RAPT_BAD_W_OFFSETS, {&limits});
    limits.past("w_zeros", o_.w_zeros, RAPT_BAD_W_ZEROS, {reinterpret_cast<const std::uint8_t *>(&limits)});
    limits.past("w_codebook", o_.w_codebook, RAPT_BAD_W_CODEBOOK, {reinterpret_cast<const float *>(&limits)});
    limits.are_of(Where::call);
    limits.at("packed_w", o_.packed_w, {1, -1, 256});
    if (!has_work()) return;
    const std::size_t other_group = o_.scale_group == 64 ? 128 : 64;
    const bool are_blocks = is_in_blocks(w_type_);
    if (o_.x_group == 0 && !are_blocks)
      limits.past("scale_group", o_.scale_group, RAPT_BAD_PACKED, {other_group});
    if (o_.in_features > 1 && !operand("x").rows)
      limits.past("in_features", o_.in_features, are_blocks ? RAPT_BAD_SHAPE : RAPT_BAD_PACKED,
                  {o_.in_features - 1});
    if (o_.out_features > 1)
      limits.past("out_features", o_.out_features, RAPT_BAD_PACKED, {o_.out_features - 1});
    for (const rapt_type type : {RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8}) {
      if (type != w_type_ && !is_short() && o_.x_group == 0)
        limits.past("w_type", o_.w_type, RAPT_BAD_PACKED, {static_cast<unsigned>(type)});
    }
    if (has_scales_) {
      const rapt_type other_type = scale_size_ == 4 ? RAPT_F16 : RAPT_F32;
      limits.past("w_scale_type", o_.w_scale_type, RAPT_BAD_PACKED, {static_cast<unsigned>(other_type)});
    }
    if (!are_blocks)
      limits.past("outputs_per_scale", o_.outputs_per_scale, RAPT_BAD_PACKED,
                  {outputs_per_scale_ == 128 ? SIZE_MAX : 128});
    const std::size_t header = 64;
    for (std::size_t i = 0; i < header; i += 7)
      limits.add({"w", only(RAPT_BAD_PACKED), [=, this] { spoil(*packed_operand(), i); }});
  }

  Random random_;
  const LinearLayout how_;
  const std::size_t first_, rows_;
  const RowList x_list_, y_list_;
  const std::uint64_t split_seed_;
  rapt_type w_type_ = RAPT_F32;
  int arithmetic_ = 0;
  bool x_is_i8_ = false, add_is_y_ = false, has_scales_ = false;
  std::size_t groups_ = 0, outputs_per_scale_ = 0, scale_size_ = 0, packed_size_ = 0, workspace_size_ = 0;
  rapt_linear_options o_{}, pack_{};
  void *x_ = nullptr, *w_ = nullptr, *plain_w_ = nullptr, *y_ = nullptr, *workspace_ = nullptr;
};

template <class E, class A>
std::vector<E> elements(const std::vector<A> &numbers) {
  std::vector<E> made;
  for (const A number : numbers) made.push_back(E(number));
  return made;
}

}  // namespace

template <class W>
std::unique_ptr<Call> make_linear_call(const Problem &problem, const Layout &layout,
                                       rapt_arithmetic arithmetic) {
  const LinearProblem &wanted = problem.as<LinearProblem>();
  const LinearNumbers<Number<W>> &numbers = make_linear<W>(problem);
  std::unique_ptr<LinearCall> call;
  with_linear_types<W>(wanted.types, [&]<class X, class Y>(LinearTypes<X, Y>) {
    call = std::make_unique<LinearCall>(LinearCall::Types<X, W, Y>{type_of(element_of<W>)}, wanted,
                                        wanted.outputs, arithmetic, problem.seed, layout);
    call->template hold_x<X>(numbers.x);
    call->hold_w(elements<W>(numbers.w));
    call->add_output_scales(numbers.output_scales);
    call->add_bias(numbers.bias);
    call->add_row_scales(numbers.row_scales);
    const bool has_type_of_y = wanted.add == Addend::like_y || std::is_same_v<X, Y>;
    if (wanted.add != Addend::none && has_type_of_y && layout.alias != Alias::none) {
      call->template add_in_y<Y>(numbers.add);
    } else if (wanted.add == Addend::like_y) {
      call->template add_apart<Y>(numbers.add);
    } else if (wanted.add == Addend::like_x) {
      call->template add_apart<X>(numbers.add);
    }
  });
  if (call) call->finish();
  return call;
}
template std::unique_ptr<Call> make_linear_call<float>(const Problem &, const Layout &, rapt_arithmetic);
template std::unique_ptr<Call> make_linear_call<double>(const Problem &, const Layout &, rapt_arithmetic);
template std::unique_ptr<Call> make_linear_call<F16>(const Problem &, const Layout &, rapt_arithmetic);
template std::unique_ptr<Call> make_linear_call<BF16>(const Problem &, const Layout &, rapt_arithmetic);

std::unique_ptr<Call> make_quantized_call(const Problem &problem, const Layout &layout,
                                          rapt_arithmetic arithmetic) {
  const QuantizedProblem &wanted = problem.as<QuantizedProblem>();
  const bool in_i8 = arithmetic == RAPT_ARITHMETIC_I8;
  if ((in_i8 && ((wanted.codebook && !wanted.integers) || is_f8(wanted.weights))) ||
      (!in_i8 && (has_x_of_i8(wanted.types) || wanted.x_group != XGroup::as_weights)))
    return nullptr;  // the problem is another kernel's
  const oracle::FileType file = file_type_of(wanted.weights);
  const bool are_blocks = file != oracle::FileType::none;
  if (are_blocks && wanted.cols % oracle::size_of_block(file).inputs != 0) return nullptr;
  const QuantizedNumbers &numbers = make_quantized(problem);
  const rapt_type type = type_of_weights(wanted.weights);
  const std::size_t row_bytes =
      are_blocks ? wanted.cols / oracle::size_of_block(file).inputs * oracle::size_of_block(file).bytes : 0;
  Layout placed = layout;
  placed.linear.packed_w = placed.linear.packed_w || are_blocks;
  return with_quantized_types(
      wanted.types, [&]<class X, class Y, class Scale>(TypesOfQuantized<X, Y, Scale>) {
        auto call = std::make_unique<LinearCall>(LinearCall::Types<X, std::uint8_t, Y>{type, row_bytes},
                                                 wanted, wanted.outputs, arithmetic, problem.seed, placed);
        if constexpr (std::is_same_v<X, std::int8_t>) {
          call->template hold_x<X>(numbers.xq);
        } else {
          call->template hold_x<X>(numbers.x);
        }
        std::vector<std::uint8_t> bytes = numbers.blocks;
        for (std::size_t n = 0; !are_blocks && n < wanted.outputs; ++n) {
          const auto row =
              stored_integers(wanted.weights, std::span(numbers.q).subspan(n * wanted.cols, wanted.cols));
          bytes.insert(bytes.end(), row.begin(), row.end());
        }
        call->hold_w(bytes);
        call->template add_scales<Scale>(numbers, group_of_weights(wanted), outputs_per_scale(wanted.shared));
        call->add_x_scales(numbers, in_i8 ? x_group_option(wanted) : 0);
        call->add_output_scales(numbers.output_scales);
        call->add_bias(numbers.bias);
        call->add_row_scales(numbers.row_scales);
        if (wanted.add) call->template add_in_y<Y>(numbers.add);
        call->finish();
        return std::unique_ptr<Call>(std::move(call));
      });
}

}  // namespace rapt::test
