// Describes all options of a case in tables: the field, its word in the text of a case, its limits, and its
// random draw. The writer and parser of texts, the shrinker and the random generators read these tables. A
// new option needs a field in problem.hpp, a row in options.cpp, and the line that passes it to the API.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <variant>
#include <vector>

#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

template <class Owner, class... Types>
using FieldOf = std::variant<Types Owner::*...>;
template <class Owner>
struct Fields {
  using Any = FieldOf<Owner, bool, double, std::size_t, std::ptrdiff_t, std::optional<std::ptrdiff_t>, PerRow,
                      RowRange, InputClass, Calls, ElementTypes, Addend, MatrixOrder, WeightType,
                      QuantizedTypes, XGroup, SharedScales, RopePositions>;
};
template <>
struct Fields<Layout> {
  using Any = FieldOf<Layout, bool, Placement, Alias, std::array<std::size_t, 3>,
                      std::array<std::ptrdiff_t, 3>, std::optional<FpState>>;
};

struct Draw {
  Random &random;
  bool chosen;  // whether to set this option; attention sets few, because options hide each other's effects
  bool many;    // many options are to be set
};

template <class Owner>
struct Option {
  const char *word;
  typename Fields<Owner>::Any field;
  // Null if an earlier option's function also draws this option, or if random cases never set it.
  void (*draw)(const Draw &, Owner &) = nullptr;
  // Lists texts of cases that set only this option, and options that it needs.
  std::array<const char *, 4> alone{};
  bool follows = false;  // has no effect without an earlier option, so it is never chosen by itself
  std::ptrdiff_t least = PTRDIFF_MIN, most = PTRDIFF_MAX;
  std::ptrdiff_t multiple = 1;
  bool is_always_written = false;
};

template <class... Owners>
using TablesOf = std::tuple<std::span<const Option<Owners>>...>;
using Tables =
    TablesOf<Problem, VectorProblem, RowsProblem, DotRowsProblem, SoftmaxOptions, AttentionProblem,
             AttentionOptions, NormProblem, LinearProblem, QuantizedProblem, RopeProblem, ReduceProblem,
             ConvolutionProblem, DeltaProblem, Layout, AttentionLayout, LinearLayout>;
const Tables &tables();

template <class Owner>
std::span<const Option<Owner>> options_of() {
  return std::get<std::span<const Option<Owner>>>(tables());
}

// Calls visit(owner, option) for every option of the tables that apply to the case.
template <class AnyCase, class Visit>
void for_each_option(AnyCase &given, Visit &&visit) {
  const auto all = [&]<class Owner>(Owner &owner) {
    for (const auto &option : options_of<std::remove_const_t<Owner>>()) visit(owner, option);
  };
  const auto rows_of = [](auto &problem) -> auto & {
    using Rows = std::conditional_t<std::is_const_v<AnyCase>, const RowsProblem, RowsProblem>;
    return static_cast<Rows &>(problem);
  };
  const auto of_problem = [&]<class Kind>(Kind &problem) {
    using Plain = std::remove_const_t<Kind>;
    if constexpr (std::is_base_of_v<RowsProblem, Plain>) all(rows_of(problem));
    if constexpr (std::is_same_v<Plain, VectorProblem> || std::is_same_v<Plain, DotRowsProblem>) all(problem);
    if constexpr (std::is_same_v<Plain, AttentionProblem> || std::is_same_v<Plain, LinearProblem> ||
                  std::is_same_v<Plain, NormProblem> || std::is_same_v<Plain, QuantizedProblem> ||
                  std::is_same_v<Plain, RopeProblem> || std::is_same_v<Plain, ReduceProblem> ||
                  std::is_same_v<Plain, ConvolutionProblem> || std::is_same_v<Plain, DeltaProblem>)
      all(problem);
    if constexpr (requires { problem.options; }) all(problem.options);
  };
  std::visit(of_problem, given.problem.of);
  all(given.problem);
  all(given.layout);
  if (std::holds_alternative<AttentionProblem>(given.problem.of) ||
      std::holds_alternative<RopeProblem>(given.problem.of) ||
      std::holds_alternative<DeltaProblem>(given.problem.of)) {
    all(given.layout.attention);
  }
  if (std::holds_alternative<LinearProblem>(given.problem.of) ||
      std::holds_alternative<QuantizedProblem>(given.problem.of) ||
      std::holds_alternative<ReduceProblem>(given.problem.of) ||
      std::holds_alternative<ConvolutionProblem>(given.problem.of)) {
    all(given.layout.linear);
  }
}

// Draws all options of softmax, of linear layers and of rope, but none, one or many options of attention.
void draw(Random &random, SoftmaxOptions &options);
void draw(Random &random, AttentionOptions &options);
void draw(Random &random, NormProblem &problem);
void draw(Random &random, LinearProblem &problem);
void draw(Random &random, QuantizedProblem &problem);
void draw(Random &random, RopeProblem &problem);
void draw(Random &random, ReduceProblem &problem);
void draw(Random &random, ConvolutionProblem &problem);
void draw(Random &random, DeltaProblem &problem);

// Draw layouts for attention and rope, for linear layers and reductions, and for all other kernels. The layouts have no
// floating-point state.
Layout draw_layout(Random &random, std::size_t element_size);
Layout draw_attention_layout(Random &random, std::size_t element_size);
Layout draw_linear_layout(Random &random, std::size_t element_size);

// Returns the default options, then options with one choice each.
std::vector<SoftmaxOptions> each_softmax_option_alone();

}  // namespace rapt::test
