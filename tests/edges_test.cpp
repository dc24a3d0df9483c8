// Calls at the edges of what rapt.h allows, written by hand beside the limits of tests/calls. A call that fails leaves every
// array as it was.
#include <doctest/doctest.h>

#include <string>

#include "calls/edges.hpp"
#include "rapt/rapt.h"
#include "support/case_text.hpp"

using namespace rapt::test;

namespace {

struct Edge {
  const char *given, *changes;
  rapt_status status;
};

template <std::size_t count>
void expect(const char *kernels, const Edge (&edges)[count]) {
  std::size_t tried = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!kernel.make || !std::string(kernel.name).starts_with(kernels)) continue;
    tried += 1;
    for (const Edge &edge : edges) {
      INFO(std::string(kernel.name), ", ", std::string(edge.given), ": ", std::string(edge.changes));
      Case read;
      REQUIRE(parse_case(kernel.traits.family, edge.given, read) == "");
      const std::unique_ptr<Call> call = kernel.make(read.problem, read.layout);
      call->place(read.layout);
      REQUIRE(change(*call, edge.changes) == "");
      const rapt_status status = call->run();
      CHECK(std::string(rapt_status_text(status)) == rapt_status_text(edge.status));
      std::vector<std::uint64_t> results;
      if (status == RAPT_OK) call->take(results);
      CHECK(call->touched() == nullptr);
    }
  }
  CHECK(tried > 0);
}

}  // namespace

TEST_CASE("norms") {
  const Edge of_all[] = {
      {"rows=2 n=16", "", RAPT_OK},
      {"rows=2 n=16", "size=71", RAPT_BAD_OPTIONS_SIZE},
      {"rows=2 n=16", "type=5", RAPT_BAD_TYPE},
      {"rows=2 n=16", "eps=-1", RAPT_BAD_EPS},
      {"rows=2 n=16", "eps=nan", RAPT_BAD_EPS},
      {"rows=2 n=16", "eps=inf", RAPT_BAD_EPS},
      {"rows=2 n=16", "eps=0x1p-1074", RAPT_BAD_EPS},
      {"rows=2 n=16", "weight_plus_one=1", RAPT_BAD_WEIGHT},
      {"rows=2 n=16", "cols=9223372036854775808", RAPT_BAD_SIZE},
      {"rows=2 n=16", "x_stride=15", RAPT_BAD_X_STRIDE},
      {"rows=2 n=16", "x_stride=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=1 n=16", "x_stride=-3", RAPT_OK},
      {"rows=2 n=16", "x=null", RAPT_BAD_X},
      {"rows=0 n=16", "x=null", RAPT_OK},
      {"rows=2 n=0", "x=null", RAPT_OK},
  };
  const Edge forward[] = {
      {"rows=2 n=16", "y=null", RAPT_BAD_Y},
      {"rows=2 n=16", "y_stride=15", RAPT_BAD_Y_STRIDE},
      {"rows=2 n=16", "y=x+8", RAPT_BAD_OVERLAP},
      {"rows=2 n=16", "y=x+0", RAPT_OK},
      {"rows=2 n=16 gap=1,0,0", "y=x+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 weight", "y=weight+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 second", "residual=y+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 second", "residual=x+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16", "residual_stride=16", RAPT_BAD_RESIDUAL_STRIDE},
      {"rows=2 n=16 second", "residual_stride=15", RAPT_BAD_RESIDUAL_STRIDE},
      {"rows=2 n=0", "y=null", RAPT_OK},
  };
  const Edge backward[] = {
      {"rows=2 n=16", "type=3", RAPT_BAD_TYPE},
      {"rows=2 n=16", "accumulate=1", RAPT_BAD_ACCUMULATE},
      {"rows=2 n=16", "dy=null", RAPT_BAD_DY},
      {"rows=2 n=16", "dx=null", RAPT_BAD_DX},
      {"rows=2 n=16", "dy_stride=15", RAPT_BAD_DY_STRIDE},
      {"rows=2 n=16", "dx_stride=15", RAPT_BAD_DX_STRIDE},
      {"rows=2 n=16", "dx=dy+0", RAPT_OK},
      {"rows=2 n=16", "dx=dy+8", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 bias", "dweight=dx+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 bias weight", "dweight=weight+0", RAPT_BAD_OVERLAP},
      {"rows=2 n=16 bias", "dweight=dy+0", RAPT_BAD_OVERLAP},
      {"rows=0 n=16 bias", "x=null dy=null dx=null", RAPT_OK},
      {"rows=0 n=16", "cols=4611686018427387904", RAPT_OK},
      {"rows=0 n=16 bias", "cols=4611686018427387904", RAPT_BAD_SIZE},
  };
  const Edge of_rms[] = {{"rows=2 n=16", "bias=some", RAPT_BAD_BIAS}};
  const Edge of_rms_backward[] = {{"rows=2 n=16", "dbias=some", RAPT_BAD_NORM_DBIAS}};
  const Edge of_layer[] = {{"rows=2 n=16 weight", "weight_plus_one=1", RAPT_BAD_WEIGHT}};
  const Edge of_layer_backward[] = {{"rows=2 n=16 bias", "dbias=dweight+0", RAPT_BAD_OVERLAP}};
  for (const std::string norm : {"rms_norm", "layer_norm"}) {
    for (const char *type : {"_f32", "_f64", "_f16", "_bf16"}) {
      expect((norm + type).c_str(), of_all);
      expect((norm + type).c_str(), forward);
    }
    expect((norm + "_backward").c_str(), backward);
  }
  expect("rms_norm_f", of_rms);
  expect("rms_norm_backward", of_rms_backward);
  expect("layer_norm_f", of_layer);
  expect("layer_norm_backward", of_layer_backward);
}

TEST_CASE("rope") {
  expect("rope", {
      {"rows=4 n=10 batch=2 heads=3", "", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "x=null", RAPT_BAD_X},
      {"rows=4 n=10 batch=2 heads=3", "y=null", RAPT_BAD_Y},
      {"rows=4 n=10 batch=2 heads=3", "frequencies=null", RAPT_BAD_FREQUENCIES},
      {"rows=0 n=10 batch=2 heads=3", "x=null y=null frequencies=null", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "size=8", RAPT_BAD_OPTIONS_SIZE},
      {"rows=4 n=10 batch=2 heads=3", "batch=0", RAPT_BAD_SHAPE},
      {"rows=4 n=10 batch=2 heads=3", "heads=0", RAPT_BAD_SHAPE},
      {"rows=4 n=10 batch=2 heads=3", "head_dim=0", RAPT_BAD_SHAPE},
      {"rows=4 n=10 batch=2 heads=3", "type=5", RAPT_BAD_TYPE},
      {"rows=4 n=10 batch=2 heads=3", "layout=2", RAPT_BAD_LAYOUT},
      {"rows=4 n=10 batch=2 heads=3", "layout=-1", RAPT_BAD_LAYOUT},
      {"rows=4 n=10 batch=2 heads=3", "rotary_dim=3", RAPT_BAD_ROTARY_DIM},
      {"rows=4 n=10 batch=2 heads=3", "rotary_dim=12", RAPT_BAD_ROTARY_DIM},
      {"rows=4 n=9 batch=2 heads=3", "rotary_dim=0", RAPT_BAD_ROTARY_DIM},
      {"rows=4 n=9 batch=2 heads=3", "", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "x_strides.head=40 x_strides.batch=0 x_strides.token=0", RAPT_BAD_X_STRIDES},
      {"rows=4 n=10 batch=2 heads=3 seed=2", "y_strides.head=0", RAPT_BAD_Y_STRIDES},
      {"rows=4 n=10 batch=2 heads=3 seed=2", "y_strides.token=9", RAPT_BAD_Y_STRIDES},
      {"rows=4 n=10 batch=2 heads=3 seed=2", "y_strides.head=39", RAPT_BAD_Y_STRIDES},
      {"rows=4 n=10 batch=2 heads=3 seed=2", "x_strides.token=3074457345618258602", RAPT_BAD_SIZE},
      {"rows=4 n=10 batch=2 heads=3", "tokens=2305843009213693951", RAPT_BAD_SIZE},
      {"rows=4 n=10 batch=2 heads=3", "y=x+8", RAPT_BAD_OVERLAP},
      {"rows=4 n=10 batch=2 heads=3", "y=x+0", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3 gap=0,0,1", "y=x+0", RAPT_BAD_OVERLAP},
      {"rows=4 n=10 batch=2 heads=3", "y=frequencies+32", RAPT_BAD_OVERLAP},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "y=positions+56", RAPT_BAD_OVERLAP},
      {"rows=2 n=10 batch=4 gap=10,0,10", "y=x+160", RAPT_BAD_OVERLAP},
      {"rows=4 n=10 batch=2 heads=3", "frequencies[4]=nan", RAPT_BAD_FREQUENCIES},
      {"rows=4 n=10 batch=2 heads=3", "frequencies[4]=1024.0000001", RAPT_BAD_FREQUENCIES},
      {"rows=4 n=10 batch=2 heads=3", "frequencies[0]=-inf", RAPT_BAD_FREQUENCIES},
      {"rows=4 n=10 batch=2 heads=3", "frequencies[1]=-1024", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "first_position=16777213", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "first_position=16777214", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3", "first_position=-16777216", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3", "first_position=-16777217", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "positions[7]=16777217", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "positions[7]=-16777217", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "positions[7]=-16777217 positions_stride=-9223372036854775808", RAPT_OK},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "positions_stride=3", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3", "positions_stride=4", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3 positions=each", "first_position=1", RAPT_BAD_POSITIONS},
      {"rows=4 n=10 batch=2 heads=3", "attention_factor=nan", RAPT_BAD_ATTENTION_FACTOR},
      {"rows=4 n=10 batch=2 heads=3", "attention_factor=inf", RAPT_BAD_ATTENTION_FACTOR},
      {"rows=4 n=10 batch=2 heads=3", "attention_factor=0x1p-1074", RAPT_BAD_ATTENTION_FACTOR},
  });
}
