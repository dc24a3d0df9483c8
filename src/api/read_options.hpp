// Copies a caller's struct of options. Its `size` names the release that the caller was compiled with.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>

#include "rapt/rapt.h"

namespace rapt {

// Holds the sizes that a struct has had in releases, oldest first. A struct may only grow at its end, and by
// more than its padding. A release that changes it adds a row here, and no row is ever removed.
template <class Options>
inline constexpr std::size_t released_sizes[] = {0};
template <>
inline constexpr std::size_t released_sizes<rapt_softmax_options>[] = {96};  // release 0.2
template <>
inline constexpr std::size_t released_sizes<rapt_cross_entropy_options>[] = {
    sizeof(rapt_cross_entropy_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_attention_options>[] = {
    456,                              // release 0.2
    sizeof(rapt_attention_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_linear_options>[] = {
    sizeof(rapt_linear_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_gated_options>[] = {
    sizeof(rapt_gated_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_rope_options>[] = {
    sizeof(rapt_rope_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_rope_frequency_options>[] = {
    sizeof(rapt_rope_frequency_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_norm_options>[] = {
    sizeof(rapt_norm_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_norm_backward_options>[] = {
    sizeof(rapt_norm_backward_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_adamw_options>[] = {
    sizeof(rapt_adamw_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_sgd_options>[] = {sizeof(rapt_sgd_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_random_options>[] = {
    sizeof(rapt_random_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_expert_options>[] = {
    sizeof(rapt_expert_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_embedding_bag_options>[] = {
    sizeof(rapt_embedding_bag_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_linear_batch_options>[] = {
    sizeof(rapt_linear_batch_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_expert_sum_options>[] = {
    sizeof(rapt_expert_sum_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_map_options>[] = {sizeof(rapt_map_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_reduce_options>[] = {
    sizeof(rapt_reduce_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_scan_options>[] = {
    sizeof(rapt_scan_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_index_add_options>[] = {
    sizeof(rapt_index_add_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_triangular_solve_options>[] = {
    sizeof(rapt_triangular_solve_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_causal_convolution_options>[] = {
    sizeof(rapt_causal_convolution_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_search_options>[] = {
    sizeof(rapt_search_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_mean_pool_options>[] = {
    sizeof(rapt_mean_pool_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_normalize_options>[] = {
    sizeof(rapt_normalize_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_convolution_options>[] = {
    sizeof(rapt_convolution_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_delta_rule_options>[] = {
    sizeof(rapt_delta_rule_options)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_delta_rule_gradients>[] = {
    sizeof(rapt_delta_rule_gradients)};  // not released
template <>
inline constexpr std::size_t released_sizes<rapt_attention_gradients>[] = {168};  // release 0.2

// Copies `given` to `options`, which must hold the defaults. The defaults stay in fields that the caller's
// release lacks, or in all fields if `given` is null.
template <class Options>
rapt_status read_options(const Options *given, Options &options) {
  constexpr auto &sizes = released_sizes<Options>;
  static_assert(sizes[std::size(sizes) - 1] == sizeof(Options), "the struct has grown: add its new size");
  if (!given) return RAPT_OK;
  for (const std::size_t size : sizes) {
    if (given->size != size) continue;
    std::memcpy(&options, given, size);
    return RAPT_OK;
  }
  return RAPT_BAD_OPTIONS_SIZE;
}

// Reads a type as an int, because reading an unknown number as a rapt_type would be undefined behaviour.
inline int number_of(const rapt_type &type) {
  int number;
  static_assert(sizeof type == sizeof number);
  std::memcpy(&number, &type, sizeof number);
  return number;
}

// Fills in the type of floating-point elements, which is f32 by default.
inline rapt_status resolve_float_type(rapt_type &type) {
  const int number = number_of(type);
  if (number < RAPT_TYPE_DEFAULT || number > RAPT_BF16) return RAPT_BAD_TYPE;
  if (number == RAPT_TYPE_DEFAULT) type = RAPT_F32;
  return RAPT_OK;
}

}  // namespace rapt
