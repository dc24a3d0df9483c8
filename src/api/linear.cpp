// Implements rapt_linear and its companions. Each call checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/linear_arrays.hpp"
#include "api/linear_experts.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "api/strides.hpp"
#include "api/tasks.hpp"
#include "api/write_packed_rows.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_file_blocks.hpp"
#include "call/packed_header.hpp"
#include "call/packed_quantized.hpp"
#include "call/packed_weights.hpp"
#include "call/packed_words.hpp"
#include "call/quantized_weights.hpp"
#include "call/unpacked_weights.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

bool resolve_type(rapt_type &type, rapt_type by_default) {
  const int number = number_of(type);
  if (number == RAPT_TYPE_DEFAULT) type = by_default;
  return number >= RAPT_TYPE_DEFAULT && number <= RAPT_F8_E5M2;
}
constexpr bool is_float(rapt_type type) { return type == RAPT_F32 || type == RAPT_F16 || type == RAPT_BF16; }

rapt_status resolve_types(rapt_linear_options &o) {
  if (!resolve_type(o.x_type, RAPT_F32) || !resolve_type(o.w_type, o.x_type) ||
      !resolve_type(o.y_type, o.x_type == RAPT_I8 ? RAPT_F32 : o.x_type) ||
      !resolve_type(o.add_type, o.y_type)) {
    return RAPT_BAD_TYPE;
  }
  if (o.x_type == RAPT_F64 || o.w_type == RAPT_F64) {
    for (const rapt_type type : {o.x_type, o.w_type, o.y_type, o.add_type}) {
      if (type != RAPT_F64) return RAPT_BAD_TYPE;
    }
    return o.arithmetic == RAPT_ARITHMETIC_DEFAULT ? RAPT_OK : RAPT_BAD_ARITHMETIC;
  }
  const bool quantized = is_quantized(o.w_type), x_is_i8 = o.x_type == RAPT_I8;
  if (!is_float(o.y_type) || !is_float(o.add_type) || !(is_float(o.x_type) || (x_is_i8 && quantized)))
    return RAPT_BAD_TYPE;
  const bool is_bf16 = o.x_type == RAPT_BF16 && o.w_type == RAPT_BF16;
  if (o.arithmetic == RAPT_ARITHMETIC_DEFAULT) {
    o.arithmetic = is_bf16 ? RAPT_ARITHMETIC_BF16 : x_is_i8 ? RAPT_ARITHMETIC_I8 : RAPT_ARITHMETIC_F32;
  }
  const bool is_known = (o.arithmetic == RAPT_ARITHMETIC_F32 && !x_is_i8) ||
                        (o.arithmetic == RAPT_ARITHMETIC_BF16 && is_bf16) ||
                        (o.arithmetic == RAPT_ARITHMETIC_I8 && quantized && !F8::of(o.w_type));
  return is_known ? RAPT_OK : RAPT_BAD_ARITHMETIC;
}

// Checks the fields of quantized weights, and those of I8 arithmetic. The types must be resolved.
rapt_status check_quantized(const rapt_linear_options &o) {
  const bool quantized = is_quantized(o.w_type), in_file_blocks = is_in_file_blocks(o.w_type),
             plain = quantized && !o.packed_w && !in_file_blocks;
  const bool in_i8 = o.arithmetic == RAPT_ARITHMETIC_I8;
  const std::size_t g = o.scale_group;
  if (g != 0 && !(quantized && g >= 16 && g <= 256 && (g & (g - 1)) == 0)) return RAPT_BAD_SCALE_GROUP;
  if (o.w_scales && !plain) return RAPT_BAD_W_SCALES;
  if (o.w_zeros && !(plain && o.w_type == RAPT_U4 && !o.w_codebook)) return RAPT_BAD_W_ZEROS;
  if (o.w_offsets && !plain) return RAPT_BAD_W_OFFSETS;
  if (o.w_codebook && !(plain && o.w_type == RAPT_U4)) return RAPT_BAD_W_CODEBOOK;
  const int scale_type = number_of(o.w_scale_type);
  if (scale_type != RAPT_TYPE_DEFAULT) {
    const bool is_known = scale_type == RAPT_F32 || scale_type == RAPT_F16 || scale_type == RAPT_BF16;
    if (!is_known || !quantized || in_file_blocks || (plain && !o.w_scales && !o.w_offsets))
      return RAPT_BAD_W_SCALES;
  }
  const std::size_t shared = o.outputs_per_scale;
  const bool is_known = shared <= 1 || shared == 64 || shared == 128 || shared == 256 || shared == SIZE_MAX;
  if (shared != 0 && !(is_known && quantized && !in_file_blocks && (o.packed_w || o.w_scales)))
    return RAPT_BAD_W_SCALES;
  if (o.x_scales && o.x_type != RAPT_I8) return RAPT_BAD_X_SCALES;
  if (o.x_group != 0 && !(in_i8 && (o.x_group == SIZE_MAX || o.x_group % fold_of(o) == 0)))
    return RAPT_BAD_X_GROUP;
  return RAPT_OK;
}

// Fills in the groups of weights in blocks of a file. Only packed ones are multiplied.
rapt_status resolve_file_blocks(rapt_linear_options &o, bool are_multiplied) {
  const FileBlocks file = FileBlocks::of(o.w_type);
  if (!file) return RAPT_OK;
  if (are_multiplied && !o.packed_w) return RAPT_BAD_TYPE;
  if (o.in_features % file.inputs != 0) return RAPT_BAD_SHAPE;
  if (o.scale_group != 0 && o.scale_group != file.group) return RAPT_BAD_SCALE_GROUP;
  o.scale_group = file.group;
  if (o.x_group == 0 && o.arithmetic == RAPT_ARITHMETIC_I8) o.x_group = 32;
  return RAPT_OK;
}

// Fills in the strides of a matrix.
rapt_status resolve_matrix(rapt_matrix_strides &strides, std::size_t rows, std::size_t columns,
                           rapt_status bad, MayRepeat may_repeat = MayRepeat::yes) {
  rapt_strides three{0, strides.row, strides.column};
  const rapt_status status = resolve_strides(three, {1, rows, columns, 1}, may_repeat, bad);
  strides = {three.head, three.token};
  return status;
}
// Fills in the stride of rows whose elements are contiguous.
rapt_status resolve_rows(std::ptrdiff_t &stride, std::size_t columns, rapt_status bad) {
  if (stride == 0) stride = static_cast<std::ptrdiff_t>(columns);
  return stride >= 0 && static_cast<std::size_t>(stride) >= columns ? RAPT_OK : bad;
}

// The sizes of one matrix, and with them all sums that a call needs, must fit the address space.
bool shape_fits(const rapt_linear_options &o) {
  const std::size_t sides[] = {o.rows, o.in_features, o.out_features};
  for (int i = 0; i < 3; ++i) {
    std::size_t elements = 1024;
    for (const std::size_t side : {sides[i], sides[(i + 1) % 3]}) {
      if (__builtin_mul_overflow(elements, side > 0 ? side : 1, &elements)) return false;
    }
    if (elements > std::size_t{PTRDIFF_MAX}) return false;
  }
  return true;
}

// Returns the elements of a row of w, where 4-bit weights and blocks of a file are bytes.
std::size_t columns_of_w(const rapt_linear_options &o) {
  if (const FileBlocks file = FileBlocks::of(o.w_type)) return o.in_features / file.inputs * file.bytes;
  return is_4_bits(o.w_type) ? o.in_features / 2 + o.in_features % 2 : o.in_features;
}

// Fills in the strides of plain weights.
rapt_status resolve_w(rapt_linear_options &o, MayRepeat may_repeat) {
  const std::size_t columns = columns_of_w(o);
  const rapt_status status =
      resolve_matrix(o.w_strides, o.out_features, columns, RAPT_BAD_W_STRIDES, may_repeat);
  if (status != RAPT_OK) return status;
  const bool are_bytes_in_turn = !(is_4_bits(o.w_type) || is_in_file_blocks(o.w_type)) ||
                                 o.out_features == 0 || columns == 1 || o.w_strides.column == 1;
  return are_bytes_in_turn ? RAPT_OK : RAPT_BAD_W_STRIDES;
}

// Whose options they are. Weights to unpack are packed, and options.w_strides are those of the result.
enum class Reads { layer, weights_to_pack, weights_to_unpack };

// Fills in the defaults of options that have been read.
rapt_status resolve(rapt_linear_options &o, Reads reads) {
  if (!o.add && (number_of(o.add_type) != RAPT_TYPE_DEFAULT || o.add_stride != 0)) return RAPT_BAD_ADD;
  if (o.in_features == 0) return RAPT_BAD_SHAPE;
  if (!shape_fits(o)) return RAPT_BAD_SIZE;
  rapt_status status = resolve_types(o);
  if (status == RAPT_OK) status = resolve_file_blocks(o, reads == Reads::layer);
  if (status == RAPT_OK) status = check_quantized(o);
  // A list of rows may lead to any row of x.
  const std::size_t rows_of_x = o.x_rows ? 2 : o.rows;
  if (status == RAPT_OK) status = resolve_matrix(o.x_strides, rows_of_x, o.in_features, RAPT_BAD_X_STRIDES);
  const bool unpacks = reads == Reads::weights_to_unpack;
  if (status == RAPT_OK && o.packed_w && !unpacks) {
    status = o.w_strides.row == 0 && o.w_strides.column == 0 ? RAPT_OK : RAPT_BAD_W_STRIDES;
  } else if (status == RAPT_OK) {
    status = resolve_w(o, unpacks ? MayRepeat::no : MayRepeat::yes);
  }
  if (status == RAPT_OK) status = resolve_rows(o.y_stride, o.out_features, RAPT_BAD_Y_STRIDE);
  if (status == RAPT_OK) status = resolve_rows(o.add_stride, o.out_features, RAPT_BAD_ADD);
  return status;
}

// Reads options and fills in their defaults. Those of weights to pack or unpack may say either of packed_w.
rapt_status read_and_resolve(const rapt_linear_options *given, rapt_linear_options &o,
                             Reads reads = Reads::layer) {
  if (!given) return RAPT_BAD_OPTIONS;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (reads != Reads::layer) o.packed_w = reads == Reads::weights_to_unpack;
  return resolve(o, reads);
}

std::size_t workspace_bytes(const rapt_linear_options &o) {
  return LinearWorkspace(o).length() * number_size(o.x_type) + workspace_alignment;
}

std::size_t packed_float_bytes(const rapt_linear_options &o) {
  const std::size_t blocks = o.out_features / linear_block + (o.out_features % linear_block != 0);
  const std::size_t length = o.w_type == RAPT_BF16 ? packed_block_length<BF16>(o.in_features)
                                                   : packed_block_length<float>(o.in_features);
  return sizeof(PackedHeader) + blocks * length * size_of(o.w_type);
}

// Returns the header that rapt_linear_pack writes for the options.
PackedHeader header_of(const rapt_linear_options &o) {
  if (is_quantized(o.w_type)) return QuantizedWeights(o, nullptr).header();
  PackedHeader header = PackedHeader::of(o);
  header.set_length(packed_float_bytes(o));
  return header;
}
std::size_t packed_bytes(const rapt_linear_options &o) { return header_of(o).length; }

// Returns whether packed weights are the layer's. Only then is their length that of the header.
bool are_of_layer(const rapt_linear_options &o, const void *packed) {
  const PackedHeader header = PackedHeader::stored_at(packed);
  return header.fits(o) &&
         header.length ==
             (is_quantized(o.w_type) ? QuantizedWeights(o, packed).packed_size() : packed_float_bytes(o));
}

// Returns whether a part of a layer continues the packed weights that the part with output 0 has begun.
bool continues(const PackedHeader &header, const rapt_linear_options &o, const void *packed) {
  return std::memcmp(packed, &header, sizeof header) == 0 &&
         (!o.w_codebook || std::memcmp(static_cast<const char *>(packed) + sizeof header, o.w_codebook,
                                       16 * sizeof *o.w_codebook) == 0);
}

// Returns whether the arithmetic has the numbers of the weights' codebook. Weights that are not packed have it in the
// options.
bool has_codebook_of_arithmetic(const rapt_linear_options &o, const void *w) {
  if (!is_quantized(o.w_type) || o.arithmetic != RAPT_ARITHMETIC_I8) return true;
  const QuantizedWeights weights(o, w);
  return !weights.has_codebook() || weights.has_codebook_of_integers();
}

// Returns how many tasks a call has.
std::size_t count_tasks(const rapt_linear_options &o) {
  return o.rows == 0 || o.out_features == 0 ? 0 : LinearTasks(o).count();
}

struct Run {
  LinearCall call;
  const rapt_linear_options *options;
  Tasks tasks;
  Workspace workspace;

  rapt_status operator()() {
    rapt_linear_options &o = call.options;
    const rapt_status status = read_and_resolve(options, o);
    if (status != RAPT_OK) return status;
    const std::size_t count = count_tasks(o);
    if (!tasks.fit(count)) return RAPT_BAD_TASKS;
    if (count == 0) return RAPT_OK;
    const rapt_status pointers = check_pointers();
    if (pointers != RAPT_OK) return pointers;
    std::size_t packed_length = 0;
    const rapt_status weights = check_weights(packed_length);
    if (weights != RAPT_OK) return weights;
    const std::size_t bytes = workspace_bytes(o);
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    const rapt_status arrays =
        check_arrays(call, packed_length, columns_of_w(o), {workspace.data, bytes, 1}, rows_to_write());
    if (arrays != RAPT_OK || tasks.first == tasks.last) return arrays;
    compute();
    return RAPT_OK;
  }

  rapt_status check_pointers() const {
    if (!call.x) return RAPT_BAD_X;
    if (call.options.x_type == RAPT_I8 && !call.options.x_scales) return RAPT_BAD_X_SCALES;
    if (!call.w) return RAPT_BAD_W;
    return call.y ? RAPT_OK : RAPT_BAD_Y;
  }
  // Checks weights in memory, and finds how long they are if they are packed.
  rapt_status check_weights(std::size_t &packed_length) const {
    const rapt_linear_options &o = call.options;
    if (o.packed_w) {
      if (!are_of_layer(o, call.w)) return RAPT_BAD_PACKED;
      const PackedHeader header = PackedHeader::stored_at(call.w);
      packed_length = header.length;
    }
    return has_codebook_of_arithmetic(o, call.w) ? RAPT_OK : RAPT_BAD_W_CODEBOOK;
  }
  void compute() {
    const rapt_linear_options &o = call.options;
    // Kernels read the header of quantized weights, and those of floats from the first block on.
    if (o.packed_w && !is_quantized(o.w_type))
      call.w = static_cast<const char *>(call.w) + sizeof(PackedHeader);
    kernel()(&call, tasks.first, tasks.last, workspace.aligned());
  }

  // An empty run checks what all tasks write.
  RowRange rows_to_write() const {
    if (tasks.first == tasks.last) return {0, call.options.rows};
    const LinearTasks all(call.options);
    const LinearTask last = all[tasks.last - 1];
    return {all[tasks.first].first_row, last.first_row + last.rows};
  }

  auto kernel() const -> decltype(kernels().f32.linear) {
    const rapt_linear_options &o = call.options;
    if (is_quantized(o.w_type)) {
      return o.arithmetic == RAPT_ARITHMETIC_I8 ? kernels().i8.linear_in_i8 : kernels().i8.linear_quantized;
    }
    if (o.arithmetic == RAPT_ARITHMETIC_BF16) return kernels().bf16.linear_in_bf16;
    return with_any_element(
        o.w_type, [](auto element) { return kernels().of<typename decltype(element)::type>().linear; });
  }
};

// ---- several experts

rapt_status read_and_resolve(const rapt_linear_options *options, const rapt_expert_options *given,
                             rapt_linear_options &o, Experts &experts) {
  const rapt_status status = read_and_resolve(options, o);
  if (status != RAPT_OK) return status;
  const bool is_dense = !o.packed_w && options->w_strides.row == 0 && options->w_strides.column == 0;
  return experts.read(given, o, is_dense ? o.out_features * columns_of_w(o) * size_of(o.w_type) : 0);
}

std::size_t count_tasks_of(const rapt_linear_options &o, const Experts &experts) {
  std::size_t tasks = 0;
  if (o.out_features == 0) return 0;
  (void)experts.for_each(o, 0, SIZE_MAX,
                         [&](std::size_t, const LinearTasks &, std::size_t, std::size_t last) {
                           tasks += last;
                           return RAPT_OK;
                         });
  return tasks;
}

// Every expert must find room, however many rows it has.
std::size_t workspace_bytes_of_experts(const rapt_linear_options &o) {
  rapt_linear_options largest = o;
  const std::size_t most = LinearTasks::most_rows_of(o);
  if (most < o.rows) largest.rows = most;
  return workspace_bytes(largest);
}

struct RunExperts {
  LinearCall call;
  const rapt_linear_options *options;
  const rapt_expert_options *given;
  Tasks tasks;
  Workspace workspace;
  Experts experts{};

  rapt_status operator()() {
    rapt_linear_options &o = call.options;
    const rapt_status status = read_and_resolve(options, given, o, experts);
    if (status != RAPT_OK) return status;
    const std::size_t count = count_tasks_of(o, experts);
    if (!tasks.fit(count)) return RAPT_BAD_TASKS;
    if (count == 0) return RAPT_OK;
    const rapt_status pointers = Run{call, options, tasks, workspace}.check_pointers();
    if (pointers != RAPT_OK) return pointers;
    if (o.add && o.add == call.y && o.y_rows) return RAPT_BAD_ADD;
    const std::size_t bytes = workspace_bytes_of_experts(o);
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    // An empty run checks what all tasks read and write.
    const bool is_check = tasks.first == tasks.last;
    const Tasks looked_at = is_check ? Tasks{0, count} : tasks;
    const rapt_status arrays = check_all_arrays({workspace.data, bytes, 1}, looked_at);
    if (arrays != RAPT_OK || is_check) return arrays;
    return experts.for_each(
        o, tasks.first, tasks.last,
        [&](std::size_t expert, const LinearTasks &, std::size_t first, std::size_t last) {
          Run{experts.layer(call, expert), options, {first, last}, workspace}.compute();
          return RAPT_OK;
        });
  }

  // Returns the rows that the tasks write. All experts' rows follow each other.
  RowRange rows_to_write(Tasks of) const {
    RowRange rows{SIZE_MAX, 0};
    (void)experts.for_each(
        call.options, of.first, of.last,
        [&](std::size_t expert, const LinearTasks &all, std::size_t first, std::size_t last) {
          const std::size_t begin = experts.offsets()[expert];
          const LinearTask last_task = all[last - 1];
          if (rows.first == SIZE_MAX) rows.first = begin + all[first].first_row;
          rows.last = begin + last_task.first_row + last_task.rows;
          return RAPT_OK;
        });
    return rows;
  }

  rapt_status check_all_arrays(const ListedRows &scratch, Tasks of) const {
    const RowRange own = rows_to_write(of);
    LinearCall shared = call;
    shared.w = shared.options.bias = shared.options.w_scales = shared.options.w_offsets = nullptr;
    shared.options.w_zeros = nullptr;
    shared.options.output_scales = nullptr;
    const rapt_status status = check_arrays(shared, 0, 0, scratch, own);
    if (status != RAPT_OK) return status;
    const ReadBesides besides(call, scratch, own);
    const rapt_status offsets = besides.check({experts.offsets(), experts.count() + 1, sizeof(std::size_t)});
    if (offsets != RAPT_OK) return offsets;
    return experts.for_each(
        call.options, of.first, of.last,
        [&](std::size_t expert, const LinearTasks &, std::size_t, std::size_t) {
          return check_arrays_of(Run{experts.layer(call, expert), options, tasks, workspace}, besides);
        });
  }
  rapt_status check_arrays_of(const Run &one, const ReadBesides &besides) const {
    const rapt_linear_options &o = one.call.options;
    std::size_t packed_length = 0;
    rapt_status status = one.check_weights(packed_length);
    if (status == RAPT_OK && !experts.w_stride_is_at_least(packed_length)) status = RAPT_BAD_EXPERT_STRIDE;
    const ListedRows w = o.packed_w ? ListedRows(one.call.w, packed_length, 1)
                                    : ListedRows(one.call.w, o.w_strides, o.out_features, nullptr,
                                                 columns_of_w(o), 1, size_of(o.w_type));
    const auto [scales, zeros, offsets, codebook] = scale_arrays(o, 0, o.out_features);
    const ListedRows bias(o.bias, o.out_features, number_size(o.x_type)),
        output_scales(o.output_scales, o.out_features, number_size(o.x_type));
    for (const ListedRows &array : {w, bias, output_scales, scales, zeros, offsets}) {
      if (status == RAPT_OK) status = besides.check(array);
    }
    return status;
  }
};

template <class F>
rapt_status query(const rapt_linear_options *options, std::size_t *out, F f, Reads reads = Reads::layer) {
  return in_default_mode([&] {
    rapt_linear_options o;
    const rapt_status status = read_and_resolve(options, o, reads);
    if (status != RAPT_OK) return status;
    if (!out) return RAPT_BAD_OUT;
    *out = f(o);
    return RAPT_OK;
  });
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_linear_workspace(const rapt_linear_options *options, size_t *bytes) {
  return query(options, bytes, workspace_bytes);
}
rapt_status rapt_linear_tasks(const rapt_linear_options *options, size_t *tasks) {
  return query(options, tasks, count_tasks);
}
rapt_status rapt_linear_packed_length(const rapt_linear_options *options, size_t *bytes) {
  return query(
      options, bytes, [](const rapt_linear_options &o) { return packed_bytes(o); }, Reads::weights_to_pack);
}

rapt_status rapt_linear(const void *x, const void *w, void *y, const rapt_linear_options *options,
                        void *workspace, size_t workspace_size) {
  return in_default_mode(Run{{.x = x, .w = w, .y = y}, options, all_tasks, {workspace, workspace_size}});
}
rapt_status rapt_linear_run(const void *x, const void *w, void *y, const rapt_linear_options *options,
                            size_t first, size_t last, void *workspace, size_t workspace_size) {
  return in_default_mode(Run{{.x = x, .w = w, .y = y}, options, {first, last}, {workspace, workspace_size}});
}

rapt_status rapt_linear_experts_workspace(const rapt_linear_options *options, size_t *bytes) {
  return query(options, bytes, workspace_bytes_of_experts);
}
rapt_status rapt_linear_experts_tasks(const rapt_linear_options *options, const rapt_expert_options *experts,
                                      size_t *tasks) {
  return in_default_mode([&] {
    rapt_linear_options o;
    Experts all;
    const rapt_status status = read_and_resolve(options, experts, o, all);
    if (status != RAPT_OK) return status;
    if (!tasks) return RAPT_BAD_OUT;
    *tasks = count_tasks_of(o, all);
    return RAPT_OK;
  });
}
rapt_status rapt_linear_experts(const void *x, const void *w, void *y, const rapt_linear_options *options,
                                const rapt_expert_options *experts, void *workspace, size_t workspace_size) {
  return in_default_mode(
      RunExperts{{.x = x, .w = w, .y = y}, options, experts, all_tasks, {workspace, workspace_size}});
}
rapt_status rapt_linear_experts_run(const void *x, const void *w, void *y, const rapt_linear_options *options,
                                    const rapt_expert_options *experts, size_t first, size_t last,
                                    void *workspace, size_t workspace_size) {
  return in_default_mode(
      RunExperts{{.x = x, .w = w, .y = y}, options, experts, {first, last}, {workspace, workspace_size}});
}

rapt_status rapt_linear_pack(const void *w, size_t first_output, size_t outputs,
                             const rapt_linear_options *options, void *packed, size_t packed_size) {
  return in_default_mode([&] {
    rapt_linear_options o;
    const rapt_status status = read_and_resolve(options, o, Reads::weights_to_pack);
    if (status != RAPT_OK) return status;
    if (!w) return RAPT_BAD_W;
    const PackedHeader header = header_of(o);
    if (!packed || packed_size < header.length || first_output % linear_block != 0) return RAPT_BAD_PACKED;
    if (first_output > o.out_features || outputs > o.out_features - first_output) return RAPT_BAD_SIZE;
    // A layer without outputs is its header.
    if (outputs == 0 && o.out_features > 0) return RAPT_OK;
    if (!has_codebook_of_arithmetic(o, w)) return RAPT_BAD_W_CODEBOOK;
    const auto [scales, zeros, offsets, codebook] = scale_arrays(o, first_output, outputs);
    ListedRows reads[] = {{w, o.w_strides, outputs, nullptr, columns_of_w(o), 1, size_of(o.w_type)},
                          scales,
                          zeros,
                          offsets,
                          codebook};
    for (ListedRows &array : reads) {
      if (!array.measure()) return RAPT_BAD_SIZE;
      if (array.whole().overlaps(packed, header.length)) return RAPT_BAD_OVERLAP;
    }
    if (first_output == 0) {
      std::memcpy(packed, &header, sizeof header);
    } else if (!continues(header, o, packed)) {
      return RAPT_BAD_PACKED;
    }
    if (is_in_file_blocks(o.w_type)) {
      pack_file_blocks(o, w, first_output, outputs, packed);
      return RAPT_OK;
    }
    if (is_quantized(o.w_type)) {
      pack_quantized(o, w, first_output, outputs, packed);
      return RAPT_OK;
    }
    with_any_element(o.w_type, [&](auto element) {
      using E = typename decltype(element)::type;
      pack_weights(static_cast<const E *>(w), o.w_strides.row, o.w_strides.column, first_output, outputs,
                   o.in_features, reinterpret_cast<E *>(static_cast<char *>(packed) + sizeof header));
    });
    return RAPT_OK;
  });
}

rapt_status rapt_linear_unpack(const void *packed, size_t packed_size, size_t first_output, size_t outputs,
                               const rapt_linear_options *options, void *w, void *w_scales, uint8_t *w_zeros,
                               void *w_offsets, float *w_codebook) {
  return in_default_mode([&] {
    rapt_linear_options o;
    const rapt_status status = read_and_resolve(options, o, Reads::weights_to_unpack);
    if (status != RAPT_OK) return status;
    if (!w && outputs > 0) return RAPT_BAD_W;
    if (!packed || packed_size < sizeof(PackedHeader)) return RAPT_BAD_PACKED;
    if (!are_of_layer(o, packed)) return RAPT_BAD_PACKED;
    const PackedHeader header = PackedHeader::stored_at(packed);
    if (packed_size < header.length) return RAPT_BAD_PACKED;
    // Blocks of a file have their scales and offsets in them.
    const bool are_apart = !is_in_file_blocks(o.w_type);
    if (w_scales && !(header.has_scales && are_apart)) return RAPT_BAD_W_SCALES;
    if (w_zeros && !header.has_zeros) return RAPT_BAD_W_ZEROS;
    if (w_offsets && !(header.has_offsets && are_apart)) return RAPT_BAD_W_OFFSETS;
    if (w_codebook && !header.has_codebook) return RAPT_BAD_W_CODEBOOK;
    if (!has_codebook_of_arithmetic(o, packed)) return RAPT_BAD_W_CODEBOOK;
    // From here on the options say how long the arrays are.
    if (o.outputs_per_scale == 0) o.outputs_per_scale = header.shared_outputs();
    o.w_scales = w_scales;
    o.w_zeros = w_zeros;
    o.w_offsets = w_offsets;
    o.w_codebook = w_codebook;
    if ((w_scales || w_offsets) && PackedHeader::of(o).scale_type != header.scale_type)
      return RAPT_BAD_PACKED;
    if (first_output > o.out_features || outputs > o.out_features - first_output) return RAPT_BAD_SIZE;
    if (outputs == 0) return RAPT_OK;
    const auto [scales, zeros, offsets, codebook] = scale_arrays(o, first_output, outputs);
    ListedRows writes[] = {{w, o.w_strides, outputs, nullptr, columns_of_w(o), 1, size_of(o.w_type)},
                           scales,
                           zeros,
                           offsets,
                           codebook};
    for (ListedRows &array : writes) {
      if (!array.measure()) return RAPT_BAD_SIZE;
    }
    if (!writes[0].whole().rows_are_apart()) return RAPT_BAD_W_STRIDES;
    for (const ListedRows &array : writes) {
      if (array.whole().overlaps(packed, header.length)) return RAPT_BAD_OVERLAP;
      for (const ListedRows *other = writes; other != &array; ++other) {
        if (array.whole().overlaps(other->whole())) return RAPT_BAD_OVERLAP;
      }
    }
    auto *const to = static_cast<char *>(w);
    if (is_in_file_blocks(o.w_type)) {
      unpack_file_blocks(o, packed, first_output, outputs, to);
      return RAPT_OK;
    }
    if (is_quantized(o.w_type)) {
      unpack_quantized(
          QuantizedWeights(o, packed), first_output, outputs, o,
          {to, static_cast<char *>(w_scales), w_zeros, static_cast<char *>(w_offsets), w_codebook});
      return RAPT_OK;
    }
    with_any_element(o.w_type, [&](auto element) {
      using E = typename decltype(element)::type;
      unpack_weights<E>(static_cast<const char *>(packed) + sizeof header, first_output, outputs,
                        o.in_features, o.w_strides, to);
    });
    return RAPT_OK;
  });
}

rapt_status rapt_linear_packed_rows(const void *packed, size_t packed_size, const size_t *rows, size_t count,
                                    const rapt_linear_options *options, void *y, rapt_type y_type,
                                    ptrdiff_t y_stride) {
  return in_default_mode([&] {
    rapt_linear_options o;
    rapt_status status = read_and_resolve(options, o, Reads::weights_to_unpack);
    if (status != RAPT_OK) return status;
    const rapt_type type = number_of(y_type) == RAPT_TYPE_DEFAULT ? RAPT_F32 : y_type;
    const bool is_f64 = o.w_type == RAPT_F64;
    if (is_f64 ? type != RAPT_F64 : !is_float(type)) return RAPT_BAD_TYPE;
    status = resolve_rows(y_stride, o.in_features, RAPT_BAD_Y_STRIDE);
    if (status != RAPT_OK || count == 0) return status;
    if (!packed || packed_size < sizeof(PackedHeader) || !are_of_layer(o, packed)) return RAPT_BAD_PACKED;
    const PackedHeader header = PackedHeader::stored_at(packed);
    if (packed_size < header.length) return RAPT_BAD_PACKED;
    if (!y) return RAPT_BAD_Y;
    if (!rows && count > o.out_features) return RAPT_BAD_ROWS;
    ListedRows writes(y, {y_stride, 1}, count, nullptr, 1, o.in_features, size_of(type));
    ListedRows list(rows, count, sizeof *rows);
    if (!writes.measure() || !list.measure()) return RAPT_BAD_SIZE;
    if (writes.whole().overlaps(packed, header.length) || writes.whole().overlaps(list.whole()))
      return RAPT_BAD_OVERLAP;
    for (std::size_t i = 0; rows && i < count; ++i) {
      if (rows[i] >= o.out_features) return RAPT_BAD_ROWS;
    }
    with_any_element(type, [&](auto of_y) {
      using Y = typename decltype(of_y)::type;
      write_packed_rows(o, packed, rows, count, static_cast<Y *>(y), y_stride);
    });
    return RAPT_OK;
  });
}

rapt_status rapt_linear_pack_words(const int32_t *qweight, const int32_t *qzeros, const void *scales,
                                   const int32_t *g_idx, int format, const rapt_linear_options *options,
                                   void *packed, size_t packed_size, size_t *order) {
  return in_default_mode([&] {
    rapt_linear_options given, o;
    if (!options) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(options, given);
    if (status != RAPT_OK) return status;
    if (given.w_scales) return RAPT_BAD_W_SCALES;
    if (given.w_zeros) return RAPT_BAD_W_ZEROS;
    if (given.w_offsets) return RAPT_BAD_W_OFFSETS;
    if (given.w_codebook) return RAPT_BAD_W_CODEBOOK;
    if (number_of(given.w_type) != RAPT_U4 || format < RAPT_WORDS_GPTQ || format > RAPT_WORDS_AWQ)
      return RAPT_BAD_TYPE;
    if (!qweight) return RAPT_BAD_W;
    if (!scales) return RAPT_BAD_W_SCALES;
    if (!qzeros) return RAPT_BAD_W_ZEROS;
    given.w_scales = scales;
    given.w_zeros = reinterpret_cast<const std::uint8_t *>(qzeros);  // says that there are zeros
    given.size = sizeof given;
    status = read_and_resolve(&given, o, Reads::weights_to_pack);
    if (status != RAPT_OK) return status;
    if (o.in_features % 8 != 0 || o.out_features % 8 != 0) return RAPT_BAD_SHAPE;
    if ((g_idx != nullptr) != (order != nullptr)) return RAPT_BAD_OUT;
    const PackedHeader header = header_of(o);
    if (!packed || packed_size < header.length) return RAPT_BAD_PACKED;
    const std::size_t groups = scale_groups(o), scale_size = QuantizedWeights(o, nullptr).scale_size();
    ListedRows arrays[] = {{qweight, o.in_features / 8 * o.out_features, sizeof *qweight},
                           {qzeros, groups * (o.out_features / 8), sizeof *qzeros},
                           {scales, groups * o.out_features, scale_size},
                           {g_idx, o.in_features, sizeof *g_idx},
                           {order, o.in_features, sizeof *order}};
    for (ListedRows &array : arrays) {
      if (!array.measure()) return RAPT_BAD_SIZE;
      if (array.whole().overlaps(packed, header.length)) return RAPT_BAD_OVERLAP;
    }
    for (const ListedRows &array : arrays) {
      if (order && &array != &arrays[4] && array.whole().overlaps(arrays[4].whole())) return RAPT_BAD_OVERLAP;
    }
    if (order) {
      const std::size_t group = o.scale_group ? o.scale_group : o.in_features;
      if (!groups_are_full(g_idx, o.in_features, group)) return RAPT_BAD_SCALE_GROUP;
      sort_by_group(g_idx, o.in_features, group, order);
    }
    std::memcpy(packed, &header, sizeof header);
    pack_words(o, {format, o.in_features, o.out_features, qweight, qzeros}, order, packed);
    return RAPT_OK;
  });
}
