// Implements rapt_linear and its companions. Each call checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/linear_arrays.hpp"
#include "api/linear_experts.hpp"
#include "api/linear_options.hpp"
#include "api/packed_layer.hpp"
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

// Returns whether a part of a layer continues the packed weights that the part with output 0 has begun.
bool continues(const PackedHeader &header, const rapt_linear_options &o, const void *packed) {
  return std::memcmp(packed, &header, sizeof header) == 0 &&
         (!o.w_codebook || std::memcmp(static_cast<const char *>(packed) + sizeof header, o.w_codebook,
                                       16 * sizeof *o.w_codebook) == 0);
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
    linear_kernel(o)(&call, tasks.first, tasks.last, workspace.aligned());
  }

  // An empty run checks what all tasks write.
  RowRange rows_to_write() const {
    if (tasks.first == tasks.last) return {0, call.options.rows};
    const LinearTasks all(call.options);
    const LinearTask last = all[tasks.last - 1];
    return {all[tasks.first].first_row, last.first_row + last.rows};
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
      options, bytes, [](const rapt_linear_options &o) { return header_of(o).length; },
      Reads::weights_to_pack);
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
    const int type = number_of(given.w_type);
    if (type != RAPT_U4 && type != RAPT_U8) return RAPT_BAD_TYPE;
    const WordFormat of_words = WordFormat::of(format, given.w_type);
    if (of_words.bits == 0) return RAPT_BAD_TYPE;
    if (!qweight) return RAPT_BAD_W;
    if (!scales) return RAPT_BAD_W_SCALES;
    if (!qzeros) return RAPT_BAD_W_ZEROS;
    given.w_scales = scales;
    given.w_zeros = reinterpret_cast<const std::uint8_t *>(qzeros);  // says that there are zeros
    given.size = sizeof given;
    status = read_and_resolve(&given, o, Reads::weights_to_pack);
    if (status != RAPT_OK) return status;
    if (o.in_features % of_words.unit() != 0 || o.out_features % of_words.unit() != 0) return RAPT_BAD_SHAPE;
    if ((g_idx != nullptr) != (order != nullptr)) return RAPT_BAD_OUT;
    const PackedHeader header = header_of(o);
    if (!packed || packed_size < header.length) return RAPT_BAD_PACKED;
    const std::size_t groups = scale_groups(o), scale_size = QuantizedWeights(o, nullptr).scale_size();
    ListedRows arrays[] = {{qweight, of_words.words_of(o.in_features) * o.out_features, sizeof *qweight},
                           {qzeros, groups * of_words.words_of(o.out_features), sizeof *qzeros},
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
    const Words words{of_words, o.in_features, o.out_features, qweight, qzeros};
    if (!words.zeros_are_bytes(groups)) return RAPT_BAD_W_ZEROS;
    if (order) {
      const std::size_t group = o.scale_group ? o.scale_group : o.in_features;
      if (!groups_are_full(g_idx, o.in_features, group)) return RAPT_BAD_SCALE_GROUP;
      sort_by_group(g_idx, o.in_features, group, order);
    }
    std::memcpy(packed, &header, sizeof header);
    pack_words(o, words, order, packed);
    return RAPT_OK;
  });
}
