// Rows that move: GET_ROWS, SET_ROWS, CPY, CONT, CONCAT, REPEAT, PAD and FILL.
#include "ggml/buffer.hpp"
#include "ggml/ops.hpp"
#include "ggml/pack.hpp"

namespace rapt_ggml {

namespace {

constexpr std::size_t block = 256;

bool is_number(Tensor t) {
  return is_float(t) || is_type(t, {GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_I16, GGML_TYPE_I8});
}

// n elements that follow each other, from one type to another. Blocks are whole.
void convert(ggml_type from, const std::byte *x, ggml_type to, std::byte *y, std::size_t n) {
  const ggml_type_traits &x_traits = *host().type_traits(from), &y_traits = *host().type_traits(to);
  const std::size_t x_bytes = x_traits.type_size, x_block = static_cast<std::size_t>(x_traits.blck_size);
  const std::size_t y_bytes = y_traits.type_size, y_block = static_cast<std::size_t>(y_traits.blck_size);
  if (from == to) {
    std::memcpy(y, x, n / x_block * x_bytes);
    return;
  }
  if (const std::optional<Blocks> blocks = blocks_of(from); blocks && float_type(to)) {
    return must(rapt_dequantize_rows(x, blocks->type, 1, n, 0, nullptr, nullptr, nullptr, RAPT_TYPE_DEFAULT,
                                     nullptr, y, *float_type(to), 0));
  }
  float numbers[block];
  for (std::size_t i = 0; i < n; i += block) {
    const std::size_t count = std::min(block, n - i);
    const std::byte *const part = x + i / x_block * x_bytes;
    if (can_decode(from)) {
      decode_row(from, part, count, numbers);
    } else {
      x_traits.to_float(part, numbers, static_cast<std::int64_t>(count));
    }
    encode_row(to, numbers, count, y + i / y_block * y_bytes);
  }
}

// Copies n elements at a distance to ones that follow each other.
void gather(const std::byte *x, std::size_t distance, std::size_t size, std::size_t n, std::byte *y) {
  const auto gather_elements = [&](auto element) {
    for (std::size_t i = 0; i < n; ++i, x += distance, y += sizeof element) {
      std::memcpy(&element, x, sizeof element);
      std::memcpy(y, &element, sizeof element);
    }
  };
  if (size == 4) return gather_elements(std::uint32_t{});
  if (size == 8) return gather_elements(std::uint64_t{});
  if (size == 2) return gather_elements(std::uint16_t{});
  gather_elements(std::uint8_t{});
}

bool converts(ggml_type from, ggml_type to) {
  return from == to || ((float_type(from) || host_decodes(from)) && can_encode(to));
}

std::size_t row_number(Tensor ids, const std::byte *p, std::int64_t limit) {
  const std::int64_t id = ids->type == GGML_TYPE_I64 ? *reinterpret_cast<const std::int64_t *>(p)
                                                     : *reinterpret_cast<const std::int32_t *>(p);
  if (id < 0 || id >= limit) throw Failure("a row's number is out of range");
  return static_cast<std::size_t>(id);
}

}  // namespace

bool supports_get_rows(Tensor op) {
  const Tensor from = op->src[0], ids = op->src[1];
  if (ids->type != GGML_TYPE_I32 || !has_dense_rows(op)) return false;
  // The rows of a view are somewhere else in packed weights. Those that the host decodes are rounded there.
  if (is_packed(from)) return !from->view_src && float_type(op->type) && is_exact(from->type);
  return converts(from->type, op->type) && has_dense_rows(from);
}

void get_rows(Graph &graph, Tensor op) {
  const Tensor from = op->src[0], ids = op->src[1];
  const std::optional<Packing> packing = is_packed(from) ? packing_of(from) : std::nullopt;
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    const auto [i1, i2, i3] = place_of_row(op, r);
    const std::size_t id =
        row_number(ids, bytes_of(ids) + i1 * ids->nb[0] + i2 * ids->nb[1] + i3 * ids->nb[2], from->ne[1]);
    if (packing) {
      const std::byte *const packed = bytes_of(from) + (i3 * extent(from, 2) + i2) * packing->matrix_bytes;
      must(rapt_linear_packed_rows(packed, packing->matrix_bytes, &id, 1, &packing->options, row_of(op, r),
                                   *float_type(op->type), 0));
      return;
    }
    convert(from->type, row_at(from, {id, i2, i3}), op->type, row_of(op, r), extent(op, 0));
  });
}

bool supports_set_rows(Tensor op) {
  const Tensor from = op->src[0], ids = op->src[1];
  return is_type(ids, {GGML_TYPE_I64, GGML_TYPE_I32}) && from->type == GGML_TYPE_F32 &&
         can_encode(op->type) && has_dense_rows(from) && has_dense_rows(op);
}

// Rows of src0 are written into the memory of dst. Rows of a K cache get numbers at the next attention.
void set_rows(Graph &graph, Tensor op) {
  const Tensor from = op->src[0], ids = op->src[1], root = root_of(op);
  const std::size_t rows = row_count(from), cols = extent(from, 0);
  const auto target = [&](std::size_t r) {
    const auto [i1, i2, i3] = place_of_row(from, r);
    const std::byte *const p =
        bytes_of(ids) + i1 * ids->nb[0] + i2 % extent(ids, 1) * ids->nb[1] + i3 % extent(ids, 2) * ids->nb[2];
    return row_at(op, {row_number(ids, p, op->ne[1]), i2, i3});
  };
  if (cols > 1 && may_be_cache(root)) {
    CacheNumbers &cache = numbers_around(root)->at(root->data, row_count(root), root->nb[1]);
    // Rows that no attention has read are those of values, or of a graph that has failed.
    if (graph.written.insert(root).second) cache.forget_fresh();
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row = static_cast<std::size_t>(target(r) - bytes_of(root)) / root->nb[1];
      if (row >= cache.row_count()) throw Failure("a row lies behind its cache");
      cache.write(row);
    }
  }
  graph.engine.split(rows, element_count(from), [&](std::size_t first, std::size_t last) {
    if (cols > 1 || !is_contiguous(from)) {
      for (std::size_t r = first; r < last; ++r)
        convert(from->type, row_of(from, r), op->type, target(r), cols);
      return;
    }
    // The transposed cache of values, without flash attention: a row is one element.
    const std::size_t size = element_size(op);
    std::byte elements[block * sizeof(float)];
    for (std::size_t r = first; r < last; r += block) {
      const std::size_t count = std::min(block, last - r);
      convert(from->type, row_of(from, r), op->type, elements, count);
      for (std::size_t i = 0; i < count; ++i) std::memcpy(target(r + i), elements + i * size, size);
    }
  });
}

// CPY, CONT, DUP: element i of x becomes element i of dst, counted over all dimensions.
bool supports_copy(Tensor op) {
  const Tensor x = op->src[0];
  if (!converts(x->type, op->type)) return false;
  // Blocks are made of f32. Of 16 bits ggml's own CPU builds do not agree how ties round.
  if (elements_in_block(op) > 1 && x->type != op->type && x->type != GGML_TYPE_F32) return false;
  if (has_dense_rows(x) && has_dense_rows(op) && x->ne[0] == op->ne[0]) return true;
  return is_number(x) && is_number(op);  // block types only row by row
}

void copy(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const std::size_t cols = extent(x, 0), of_op = extent(op, 0);
  if (has_dense_rows(x) && has_dense_rows(op) && cols == of_op) {
    return graph.engine.each(row_count(x), element_count(x), [&](std::size_t r) {
      convert(x->type, row_of(x, r), op->type, row_of(op, r), cols);
    });
  }
  if (has_dense_rows(x) && has_dense_rows(op)) {  // runs that are dense on both sides
    return graph.engine.each(row_count(x), element_count(x), [&](std::size_t r) {
      for (std::size_t i = 0; i < cols;) {
        const std::size_t flat = r * cols + i, count = std::min(cols - i, of_op - flat % of_op);
        convert(x->type, row_of(x, r) + i * element_size(x), op->type,
                row_of(op, flat / of_op) + flat % of_op * element_size(op), count);
        i += count;
      }
    });
  }
  // Scattered elements, a block of them at a time.
  graph.engine.split(row_count(x), 4 * element_count(x), [&](std::size_t first, std::size_t last) {
    const std::size_t x_size = element_size(x), y_size = element_size(op);
    std::byte from[block * 8], to[block * 8];
    for (std::size_t r = first; r < last; ++r) {
      const std::byte *const row = row_of(x, r);
      for (std::size_t i = 0; i < cols; i += block) {
        const std::size_t count = std::min(block, cols - i);
        gather(row + i * x->nb[0], x->nb[0], x_size, count, from);
        convert(x->type, from, op->type, to, count);
        std::size_t target_row = (r * cols + i) / of_op, col = (r * cols + i) % of_op;
        std::byte *target = row_of(op, target_row);
        for (std::size_t j = 0; j < count; ++j) {
          std::memcpy(target + col * op->nb[0], to + j * y_size, y_size);
          if (++col == of_op && j + 1 < count) target = row_of(op, ++target_row), col = 0;
        }
      }
    }
  });
}

// CONCAT, REPEAT, PAD and FILL keep the type. Only parts of CONCAT may be transposed.
bool supports_layout(Tensor op) {
  if (!is_number(op) || !has_dense_rows(op)) return false;
  for (const ggml_tensor *source : op->src) {
    if (!source) continue;
    if (source->type != op->type || (op->op != GGML_OP_CONCAT && !has_dense_rows(source))) return false;
  }
  if (op->op == GGML_OP_FILL) return op->type == GGML_TYPE_F32;
  // Padding on the left, and in circles, is of images.
  if (op->op == GGML_OP_PAD) {
    return op->type == GGML_TYPE_F32 && int_param(op, 0) == 0 && int_param(op, 2) == 0 &&
           int_param(op, 4) == 0 && int_param(op, 6) == 0 && int_param(op, 8) == 0;
  }
  return true;
}

void concat(Graph &graph, Tensor op) {
  const int dim = int_param(op, 0);
  for (int part = 0; part < 2; ++part) {
    const Tensor x = op->src[part];
    if (is_empty(x)) continue;
    const std::size_t shift = part ? extent(op->src[0], dim) * op->nb[dim] : 0;
    graph.engine.each(row_count(x), element_count(x), [&](std::size_t r) {
      const RowPlace place = place_of_row(x, r);
      std::byte *const to = row_at(op, place) + shift;
      if (has_dense_rows(x)) {
        std::memcpy(to, row_at(x, place), row_bytes(x));
      } else {
        gather(row_at(x, place), x->nb[0], element_size(x), extent(x, 0), to);
      }
    });
  }
}

void repeat(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    for (std::size_t i = 0; i < extent(op, 0); i += extent(x, 0)) {
      std::memcpy(row_of(op, r) + i * element_size(op), repeated_row(x, op, r), row_bytes(x));
    }
  });
}

void pad(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    const RowPlace place = place_of_row(op, r);
    std::byte *const row = row_at(op, place);
    std::memset(row, 0, row_bytes(op));
    if (place.i1 >= extent(x, 1) || place.i2 >= extent(x, 2) || place.i3 >= extent(x, 3)) return;
    std::memcpy(row, row_at(x, place), row_bytes(x));
  });
}

void fill(Graph &graph, Tensor op) {
  const float number = float_param(op, 0);
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    std::fill_n(elements_of<float>(row_of(op, r)), extent(op, 0), number);
  });
}

}  // namespace rapt_ggml
