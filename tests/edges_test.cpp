// Calls at the edges of what rapt.h allows, written by hand beside the limits of tests/calls. A call that fails leaves
// every array as it was.
#include "calls/edges.hpp"

#include <doctest/doctest.h>

#include <string>

#include "rapt/rapt.h"
#include "support/case_text.hpp"

using namespace rapt::test;

namespace {

struct Edge {
  const char *given, *changes;
  rapt_status status;
};

template <std::size_t count>
void expect(const char *kernels, const Edge (&edges)[count], const char *except = nullptr) {
  std::size_t tried = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!kernel.make || !std::string(kernel.name).starts_with(kernels)) continue;
    if (except && std::string(kernel.name).starts_with(except)) continue;
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
      {"rows=2 n=16", "options=null", RAPT_BAD_OPTIONS},
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
      {"rows=2 n=16", "type=5", RAPT_BAD_TYPE},
      {"rows=2 n=16", "type=8", RAPT_BAD_TYPE},
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
  expect("rope",
         {
             {"rows=4 n=10 batch=2 heads=3", "", RAPT_OK},
             {"rows=4 n=10 batch=2 heads=3", "options=null", RAPT_BAD_OPTIONS},
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
             {"rows=4 n=10 batch=2 heads=3", "x_strides.head=40 x_strides.batch=0 x_strides.token=0",
              RAPT_BAD_X_STRIDES},
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
             {"rows=4 n=10 batch=2 heads=3 positions=each",
              "positions[7]=-16777217 positions_stride=-9223372036854775808", RAPT_OK},
             {"rows=4 n=10 batch=2 heads=3 positions=each", "positions_stride=3", RAPT_BAD_POSITIONS},
             {"rows=4 n=10 batch=2 heads=3", "positions_stride=4", RAPT_BAD_POSITIONS},
             {"rows=4 n=10 batch=2 heads=3 positions=each", "first_position=1", RAPT_BAD_POSITIONS},
             {"rows=4 n=10 batch=2 heads=3", "attention_factor=nan", RAPT_BAD_ATTENTION_FACTOR},
             {"rows=4 n=10 batch=2 heads=3", "attention_factor=inf", RAPT_BAD_ATTENTION_FACTOR},
             {"rows=4 n=10 batch=2 heads=3", "attention_factor=0x1p-1074", RAPT_BAD_ATTENTION_FACTOR},
         });
}

TEST_CASE("convolutions") {
  expect("convolution",
         {
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 seed=2", "", RAPT_OK},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "", RAPT_OK},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "options=null", RAPT_BAD_OPTIONS},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "x=null", RAPT_BAD_X},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "w=null", RAPT_BAD_W},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "y=null", RAPT_BAD_Y},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "workspace=null", RAPT_BAD_WORKSPACE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "size=8", RAPT_BAD_OPTIONS_SIZE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "type=5", RAPT_BAD_TYPE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "result=3", RAPT_BAD_RESULT},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "result=-1", RAPT_BAD_RESULT},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "dims=0", RAPT_BAD_DIMS},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "dims=4", RAPT_BAD_DIMS},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "in_channels=0", RAPT_BAD_SHAPE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "groups=3", RAPT_BAD_GROUPS},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "stride=-1", RAPT_BAD_SIZE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "taps=0", RAPT_BAD_SHAPE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "dilation=-1", RAPT_BAD_SIZE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 result=1", "packed_w=1", RAPT_BAD_PACKED},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 result=2", "bias=some", RAPT_BAD_BIAS},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "y=x+8", RAPT_BAD_OVERLAP},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "y=w+0", RAPT_BAD_OVERLAP},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133", "workspace=x+0", RAPT_BAD_WORKSPACE},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 result=1", "", RAPT_OK},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 result=2", "", RAPT_OK},
             {"rows=2 n=9 channels=4 outputs=2 height=5 taps=133 result=2", "y=w+0", RAPT_BAD_OVERLAP},
         });
}

TEST_CASE("reductions") {
  expect("reduce", {
                       {"rows=4 n=10 outer=2 middle=3 seed=2", "", RAPT_OK},
                       {"rows=4 n=10 outer=2 middle=3", "", RAPT_OK},
                       {"rows=4 n=10 outer=2 middle=3", "options=null", RAPT_BAD_OPTIONS},
                       {"rows=4 n=10 outer=2 middle=3", "x=null", RAPT_BAD_X},
                       {"rows=4 n=10 outer=2 middle=3", "out=null", RAPT_BAD_OUT},
                       {"rows=4 n=10 outer=2 middle=3", "size=8", RAPT_BAD_OPTIONS_SIZE},
                       {"rows=4 n=10 outer=2 middle=3", "operation=0", RAPT_BAD_OPERATION},
                       {"rows=4 n=10 outer=2 middle=3", "operation=12", RAPT_BAD_OPERATION},
                       {"rows=4 n=10 outer=2 middle=3", "type=5", RAPT_BAD_TYPE},
                       {"rows=4 n=10 outer=2 middle=3", "out_type=5", RAPT_BAD_TYPE},
                       {"rows=4 n=10 outer=2 middle=3 operation=11", "out_type=1", RAPT_BAD_TYPE},
                       {"rows=4 n=10 outer=2 middle=3", "dims=0", RAPT_BAD_DIMS},
                       {"rows=4 n=10 outer=2 middle=3", "dims=9", RAPT_BAD_DIMS},
                       {"rows=4 n=10 outer=2 middle=3", "reduced=16", RAPT_BAD_REDUCED},
                       {"rows=4 n=10 outer=2 middle=3", "correction=1", RAPT_BAD_CORRECTION},
                       {"rows=4 n=10 outer=2 middle=3 operation=3", "correction=inf", RAPT_BAD_CORRECTION},
                       {"rows=4 n=10 outer=2 middle=3 operation=3", "correction=nan", RAPT_BAD_CORRECTION},
                       {"rows=4 n=10 outer=2 middle=3 operation=3", "correction=11", RAPT_OK},
                       {"rows=4 n=10 outer=2 middle=3", "mean=some", RAPT_BAD_MEAN},
                       {"rows=4 n=10 outer=2 middle=3", "out=x+8", RAPT_BAD_OVERLAP},
                       {"rows=4 n=10 outer=2 middle=3", "out=x+0", RAPT_BAD_OVERLAP},
                       {"rows=4 n=10 outer=2 middle=3 operation=3 mean", "mean=x+0", RAPT_BAD_OVERLAP},
                       {"rows=4 n=10 outer=2 middle=3 operation=3 mean", "mean=out+0", RAPT_BAD_OVERLAP},
                       {"rows=0 n=10 outer=2 middle=3", "x=null out=null", RAPT_OK},
                       {"rows=4 n=0 outer=2 middle=3", "x=null", RAPT_OK},
                       {"rows=4 n=0 outer=2 middle=3", "out=null", RAPT_BAD_OUT},
                       {"rows=4 n=0 outer=2 middle=3", "operation=9", RAPT_BAD_SHAPE},
                       {"rows=0 n=0 outer=2 middle=3", "operation=10", RAPT_BAD_SHAPE},
                   });
}

TEST_CASE("scans") {
  expect("scan", {
                     {"rows=4 n=10 outer=2 middle=3 seed=2", "", RAPT_OK},
                     {"rows=4 n=10 outer=2 middle=3 operation=3", "", RAPT_OK},
                     {"rows=4 n=10 outer=2 middle=3", "options=null", RAPT_BAD_OPTIONS},
                     {"rows=4 n=10 outer=2 middle=3", "x=null", RAPT_BAD_X},
                     {"rows=4 n=10 outer=2 middle=3", "out=null", RAPT_BAD_OUT},
                     {"rows=4 n=10 outer=2 middle=3", "size=8", RAPT_BAD_OPTIONS_SIZE},
                     {"rows=4 n=10 outer=2 middle=3", "operation=2", RAPT_BAD_OPERATION},
                     {"rows=4 n=10 outer=2 middle=3", "type=5", RAPT_BAD_TYPE},
                     {"rows=4 n=10 outer=2 middle=3", "dims=0", RAPT_BAD_DIMS},
                     {"rows=4 n=10 outer=2 middle=3", "dims=9", RAPT_BAD_DIMS},
                     {"rows=4 n=10 outer=2 middle=3", "axis=8", RAPT_BAD_AXIS},
                     {"rows=4 n=10 outer=2 middle=3", "out=x+0", RAPT_OK},
                     {"rows=4 n=10 outer=2 middle=3", "out=x+4", RAPT_BAD_OVERLAP},
                     {"rows=4 n=0 outer=2 middle=3", "x=null", RAPT_OK},
                 });
}

TEST_CASE("the delta rule") {
  const char *const whole = "rows=4 n=10 key_dim=12 batch=2 heads=2 decay beta state seed=2";
  expect("delta_rule",
         {
             {whole, "", RAPT_OK},
             {whole, "options=null", RAPT_BAD_OPTIONS},
             {whole, "q=null", RAPT_BAD_Q},
             {whole, "k=null", RAPT_BAD_K},
             {whole, "v=null", RAPT_BAD_V},
             {whole, "out=null", RAPT_BAD_OUT},
             {whole, "workspace=null", RAPT_BAD_WORKSPACE},
             {whole, "size=8", RAPT_BAD_OPTIONS_SIZE},
             {whole, "type=2", RAPT_BAD_TYPE},
             {whole, "gate_type=2", RAPT_BAD_TYPE},
             {whole, "batch=0", RAPT_BAD_SHAPE},
             {whole, "q_heads=0", RAPT_BAD_SHAPE},
             {whole, "key_dim=0", RAPT_BAD_SHAPE},
             {whole, "q_heads=3", RAPT_BAD_HEADS},
             {whole, "k_heads=3", RAPT_BAD_HEADS},
             {whole, "v_heads=3", RAPT_BAD_HEADS},
             {whole, "scale=nan", RAPT_BAD_SCALE},
             {whole, "l2_norm=3", RAPT_BAD_L2_NORM},
             {whole, "eps=1", RAPT_BAD_EPS},
             {whole, "g=null decay_per_key=1", RAPT_BAD_DECAY},
             {whole, "state_window=2", RAPT_BAD_STATE_WINDOW},
             {whole, "window_stride=1", RAPT_BAD_STATE_WINDOW},
             {whole, "final_state=state+0", RAPT_OK},
             {whole, "final_state=state+4", RAPT_BAD_OVERLAP},
             {whole, "out=v+0", RAPT_BAD_OVERLAP},
             {whole, "out=final_state+0", RAPT_BAD_OVERLAP},
             {"rows=0 n=10 key_dim=12 batch=2 heads=2 decay beta state seed=2", "q=null", RAPT_OK},
         },
         "delta_rule_backward");
}

TEST_CASE("gradients of the delta rule") {
  const char *const whole = "rows=4 n=10 key_dim=12 batch=2 heads=2 decay beta state seed=2";
  const char *const plain = "rows=4 n=10 key_dim=12 batch=2 heads=2 seed=2";
  expect("delta_rule_backward",
         {
             {whole, "", RAPT_OK},
             {whole, "options=null", RAPT_BAD_OPTIONS},
             {whole, "gradients=8", RAPT_BAD_GRADIENTS},
             {whole, "q=null", RAPT_BAD_Q},
             {whole, "k=null", RAPT_BAD_K},
             {whole, "v=null", RAPT_BAD_V},
             {whole, "dout=null", RAPT_BAD_DOUT},
             {whole, "dq=null", RAPT_BAD_DQ},
             {whole, "dk=null", RAPT_BAD_DK},
             {whole, "dv=null", RAPT_BAD_DV},
             {whole, "dg=null", RAPT_BAD_DG},
             {whole, "dbeta=null", RAPT_BAD_DBETA},
             {whole, "dstate=null", RAPT_BAD_STATE_STRIDES},
             {whole, "workspace=null", RAPT_BAD_WORKSPACE},
             {whole, "size=8", RAPT_BAD_OPTIONS_SIZE},
             {whole, "g=null", RAPT_BAD_G_STRIDES},
             {whole, "beta=null", RAPT_BAD_BETA_STRIDES},
             {plain, "dg_strides=1", RAPT_BAD_DG},
             {plain, "dbeta_strides=1", RAPT_BAD_DBETA},
             {whole, "dq=q+0", RAPT_BAD_OVERLAP},
             {whole, "dstate=state+0", RAPT_BAD_OVERLAP},
             {whole, "dk=dq+0", RAPT_BAD_OVERLAP},
             {"rows=0 n=10 key_dim=12 batch=2 heads=2 decay beta state seed=2", "dq=null", RAPT_OK},
         });
}

TEST_CASE("linear layers") {
  const Edge of_all[] = {
      {"rows=3 n=5 outputs=130", "", RAPT_OK},
      {"rows=3 n=5 outputs=130", "options=null", RAPT_BAD_OPTIONS},
      {"rows=3 n=5 outputs=130", "size=208", RAPT_BAD_OPTIONS_SIZE},
      {"rows=3 n=5 outputs=130", "x=null", RAPT_BAD_X},
      {"rows=3 n=5 outputs=130", "w=null", RAPT_BAD_W},
      {"rows=3 n=5 outputs=130", "y=null", RAPT_BAD_Y},
      {"rows=3 n=5 outputs=130", "workspace=null", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130", "workspace_size=63", RAPT_BAD_WORKSPACE},
      {"rows=0 n=5 outputs=130", "x=null w=null y=null workspace=null", RAPT_OK},
      {"rows=3 n=5 outputs=0", "x=null w=null y=null workspace=null", RAPT_OK},
      {"rows=3 n=5 outputs=130", "in_features=0", RAPT_BAD_SHAPE},
      {"rows=3 n=5 outputs=130", "in_features=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130", "rows=18446744073709551615", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130", "out_features=18446744073709551615", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130", "x_type=99", RAPT_BAD_TYPE},
      {"rows=3 n=5 outputs=130", "y_type=5", RAPT_BAD_TYPE},
      {"rows=3 n=5 outputs=130", "arithmetic=4", RAPT_BAD_ARITHMETIC},
      {"rows=3 n=5 outputs=130", "arithmetic=-1", RAPT_BAD_ARITHMETIC},
      {"rows=3 n=5 outputs=130 seed=2", "x_strides.column=0", RAPT_BAD_X_STRIDES},
      {"rows=3 n=5 outputs=130 seed=2", "x_strides.row=0", RAPT_BAD_X_STRIDES},
      {"rows=3 n=5 outputs=130 seed=2", "x_strides.row=-5", RAPT_BAD_X_STRIDES},
      {"rows=1 n=5 outputs=130 seed=2", "x_strides.row=-77", RAPT_OK},
      {"rows=3 n=5 outputs=130 seed=2", "x_strides.row=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130 seed=2", "w_strides.row=-5", RAPT_BAD_W_STRIDES},
      {"rows=3 n=5 outputs=130 seed=2", "w_strides.row=0", RAPT_BAD_W_STRIDES},
      {"rows=3 n=5 outputs=130 seed=2", "w_strides.row=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130 packed_w", "w_strides.row=5 w_strides.column=1", RAPT_BAD_W_STRIDES},
      {"rows=3 n=5 outputs=130", "y_stride=129", RAPT_BAD_Y_STRIDE},
      {"rows=3 n=5 outputs=130", "y_stride=-130", RAPT_BAD_Y_STRIDE},
      {"rows=3 n=5 outputs=130", "y_stride=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130", "add_stride=130", RAPT_BAD_ADD},
      {"rows=3 n=5 outputs=130", "add_type=1", RAPT_BAD_ADD},
      {"rows=3 n=5 outputs=130 x_rows", "x_rows[1]=4611686018427387903", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130 x_rows", "x_rows[1]=18446744073709551615", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130 y_rows", "y_rows[1]=4611686018427387903", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130", "y=x+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130", "y=w+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 bias", "y=bias+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 row_scales", "y=row_scales+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 output_scales", "y=output_scales+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 output_scales", "workspace=output_scales+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130", "outputs_per_scale=96", RAPT_BAD_W_SCALES},
      {"rows=3 n=5 outputs=130", "outputs_per_scale=18446744073709551614", RAPT_BAD_W_SCALES},
      {"rows=3 n=5 outputs=130", "outputs_per_scale=128", RAPT_BAD_W_SCALES},
      {"rows=3 n=5 outputs=130 x_rows", "y=x_rows+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130", "workspace=x+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130", "workspace=w+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130", "workspace=y+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130 bias", "workspace=bias+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=5 outputs=130 x_rows", "workspace=x_rows+0", RAPT_BAD_WORKSPACE},
  };
  const Edge of_floats[] = {
      {"rows=3 n=5 outputs=130", "scale_group=32", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=5 outputs=130", "w_scales=some", RAPT_BAD_W_SCALES},
      {"rows=3 n=5 outputs=130", "w_scale_type=1", RAPT_BAD_W_SCALES},
      {"rows=3 n=5 outputs=130", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=5 outputs=130", "w_offsets=some", RAPT_BAD_W_OFFSETS},
      {"rows=3 n=5 outputs=130", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=5 outputs=130", "x_scales=some", RAPT_BAD_X_SCALES},
      {"rows=3 n=5 outputs=130", "x_group=18446744073709551615", RAPT_BAD_X_GROUP},
      {"rows=3 n=5 outputs=130 seed=2", "x_type=5", RAPT_BAD_TYPE},
      {"rows=3 n=5 outputs=130", "arithmetic=3", RAPT_BAD_ARITHMETIC},
      {"rows=3 n=5 outputs=130 add=like_y seed=2", "add_stride=129", RAPT_BAD_ADD},
      {"rows=3 n=5 outputs=130 add=like_y seed=2", "add_stride=-130", RAPT_BAD_ADD},
      {"rows=3 n=5 outputs=130 add=like_y seed=2", "add_stride=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 outputs=130 add=like_y", "add_type=5", RAPT_BAD_TYPE},
      {"rows=3 n=5 outputs=130 add=like_y", "y=add+0", RAPT_OK},
      {"rows=3 n=5 outputs=130 add=like_y", "y=add+8", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 add=like_y gap=1,0,0", "y=add+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 outputs=130 packed_w", "out_features=129", RAPT_BAD_PACKED},
      {"rows=3 n=5 outputs=130 packed_w", "in_features=4", RAPT_BAD_PACKED},
  };
  for (const char *kernel : {"linear_f32", "linear_f64", "linear_f16", "linear_bf16", "linear_in_bf16"}) {
    expect(kernel, of_all);
    expect(kernel, of_floats);
  }
  expect("linear_f64", {{"rows=3 n=5 outputs=130", "arithmetic=1", RAPT_BAD_ARITHMETIC},
                        {"rows=3 n=5 outputs=130 seed=2", "w_type=1", RAPT_BAD_TYPE},
                        {"rows=3 n=5 outputs=130 seed=2", "y_type=1", RAPT_BAD_TYPE}});
  expect("linear_f", {{"rows=3 n=5 outputs=130", "arithmetic=2", RAPT_BAD_ARITHMETIC}});

  const Edge of_quantized[] = {
      {"rows=3 n=70 outputs=67 scale_group=32 scales", "scale_group=8", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=70 outputs=67 scale_group=32 scales", "scale_group=48", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=70 outputs=67 scale_group=32 scales", "scale_group=512", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=70 outputs=67 scale_group=32 scales", "w_scale_type=2", RAPT_BAD_W_SCALES},
      {"rows=3 n=70 outputs=67 scale_group=32 scales", "w_scale_type=-3", RAPT_BAD_W_SCALES},
      {"rows=3 n=70 outputs=67", "w_scale_type=1", RAPT_BAD_W_SCALES},
      {"rows=3 n=70 outputs=67 offsets types=f16_f32_f16", "", RAPT_OK},
      {"rows=3 n=70 outputs=67 scales", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=70 outputs=67 weights=i4 scales", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=70 outputs=67 scales", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=70 outputs=67 weights=i4 scales", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=70 outputs=67 scales", "x_scales=some", RAPT_BAD_X_SCALES},
      {"rows=3 n=70 outputs=67 scales", "arithmetic=2", RAPT_BAD_ARITHMETIC},
      {"rows=3 n=70 outputs=67 scales seed=2", "x_type=6", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 scales seed=2", "x_type=2", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 scales", "w_type=8", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 scales seed=2", "w_type=2", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 weights=u4 scales seed=2", "w_strides.column=2", RAPT_BAD_W_STRIDES},
      {"rows=3 n=70 outputs=67 weights=i4 scales seed=2", "w_strides.column=-9223372036854775808",
       RAPT_BAD_W_STRIDES},
      {"rows=3 n=70 outputs=67 weights=i4 scales seed=2", "w_strides.row=-9223372036854775808", RAPT_OK},
      {"rows=3 n=70 outputs=67 scales packed_w", "w_scales=some", RAPT_BAD_W_SCALES},
      {"rows=3 n=70 outputs=67 weights=u4 zeros packed_w", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=70 outputs=67 offsets packed_w", "w_offsets=some", RAPT_BAD_W_OFFSETS},
      {"rows=3 n=70 outputs=67 weights=u4 scales packed_w", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=70 outputs=67 weights=u4 scales scale_group=32 packed_w seed=2", "w_type=6",
       RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u4 scales scale_group=32 packed_w", "scale_group=64", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u4 scales scale_group=32 packed_w", "out_features=66",
       RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u4 scales scale_group=32 packed_w", "in_features=69", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u4 scales scale_group=32 packed_w", "w_scale_type=3", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u4 scale_group=32 packed_w", "w_scale_type=1", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 scales", "outputs_per_scale=1", RAPT_OK},
      {"rows=3 n=70 outputs=67 offsets", "outputs_per_scale=1", RAPT_BAD_W_SCALES},
      {"rows=3 n=70 outputs=67 scales shared=of_128", "", RAPT_OK},
      {"rows=3 n=70 outputs=67 scales shared=all packed_w", "outputs_per_scale=128", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 scales shared=of_128 packed_w", "outputs_per_scale=0", RAPT_OK},
      {"rows=3 n=70 outputs=67 scales shared=of_128 packed_w", "outputs_per_scale=1", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 scales packed_w", "outputs_per_scale=64", RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 scales shared=of_64", "y=w_scales+4", RAPT_BAD_OVERLAP},
      {"rows=3 n=70 outputs=67 scales", "y=w_scales+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=70 outputs=67 offsets", "y=w_offsets+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=70 outputs=67 weights=u4 zeros", "y=w_zeros+1", RAPT_BAD_OVERLAP},
      {"rows=3 n=70 outputs=67 weights=u8 zeros", "", RAPT_OK},
      {"rows=3 n=71 outputs=67 weights=u8 scales scale_group=32 zeros offsets packed_w", "", RAPT_OK},
      {"rows=3 n=70 outputs=67 weights=u8 zeros", "y=w_zeros+1", RAPT_BAD_OVERLAP},
      {"rows=3 n=70 outputs=67 weights=u8 zeros packed_w", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=70 outputs=67 weights=u8 zeros", "w_codebook=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=70 outputs=67 weights=u8 scales", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=70 outputs=67 weights=u8 scales w_order=columns", "", RAPT_OK},
      {"rows=3 n=70 outputs=67 weights=u8 scales scale_group=32 packed_w seed=2", "w_type=5",
       RAPT_BAD_PACKED},
      {"rows=3 n=70 outputs=67 weights=u8 scales seed=2", "x_type=24", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 weights=u8 scales seed=2", "w_type=25", RAPT_BAD_TYPE},
      {"rows=3 n=70 outputs=67 scales", "workspace=w_scales+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=70 outputs=67 weights=u4 zeros", "workspace=w_zeros+0", RAPT_BAD_WORKSPACE},
      {"rows=3 n=70 outputs=67 offsets", "workspace=w_offsets+0", RAPT_BAD_WORKSPACE},
  };
  const Edge of_blocks[] = {
      {"rows=3 n=512 outputs=67 weights=q4_k", "", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=q4_k", "packed_w=0", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=q4_k", "w_type=14", RAPT_BAD_PACKED},
      {"rows=3 n=512 outputs=67 weights=q6_k", "w_type=25", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=q4_k", "x_type=8", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=q4_k", "y_type=13", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=q4_k", "in_features=256", RAPT_BAD_PACKED},
      {"rows=3 n=512 outputs=67 weights=q4_k", "in_features=480", RAPT_BAD_SHAPE},
      {"rows=3 n=96 outputs=67 weights=q8_0", "in_features=80", RAPT_BAD_SHAPE},
      {"rows=3 n=512 outputs=67 weights=q4_k", "scale_group=32", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=q4_k", "scale_group=16", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=512 outputs=67 weights=q6_k", "scale_group=16", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=q6_k", "scale_group=32", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=512 outputs=67 weights=q2_k", "scale_group=16", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=q3_k", "scale_group=32", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=512 outputs=67 weights=q3_k", "in_features=384", RAPT_BAD_SHAPE},
      {"rows=3 n=512 outputs=67 weights=iq4_nl", "", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=iq4_nl", "w_type=9", RAPT_BAD_PACKED},
      {"rows=3 n=512 outputs=67 weights=iq4_xs", "in_features=480", RAPT_BAD_SHAPE},
      {"rows=3 n=512 outputs=67 weights=mxfp4", "scale_group=32", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=mxfp4", "x_type=20", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=mxfp4", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=512 outputs=67 weights=mxfp4", "w_scales=some", RAPT_BAD_W_SCALES},
      {"rows=3 n=512 outputs=67 weights=nvfp4", "scale_group=16", RAPT_OK},
      {"rows=3 n=512 outputs=67 weights=nvfp4", "scale_group=32", RAPT_BAD_SCALE_GROUP},
      {"rows=3 n=512 outputs=67 weights=nvfp4", "in_features=480", RAPT_BAD_SHAPE},
      {"rows=3 n=512 outputs=67 weights=nvfp4", "w_type=25", RAPT_BAD_TYPE},
      {"rows=3 n=512 outputs=67 weights=q5_0", "outputs_per_scale=1", RAPT_BAD_W_SCALES},
      {"rows=3 n=512 outputs=67 weights=q5_0", "w_scale_type=3", RAPT_BAD_W_SCALES},
      {"rows=3 n=512 outputs=67 weights=q5_0", "w_scales=some", RAPT_BAD_W_SCALES},
      {"rows=3 n=512 outputs=67 weights=q4_k", "w_offsets=some", RAPT_BAD_W_OFFSETS},
      {"rows=3 n=512 outputs=67 weights=q4_0", "w_zeros=some", RAPT_BAD_W_ZEROS},
      {"rows=3 n=512 outputs=67 weights=q4_0", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
      {"rows=3 n=512 outputs=67 weights=q4_0", "w_strides.row=288", RAPT_BAD_W_STRIDES},
  };
  for (const char *kernel : {"linear_quantized", "linear_in_i8"}) {
    expect(kernel, of_all);
    expect(kernel, of_quantized);
    expect(kernel, of_blocks);
  }
  expect("linear_quantized",
         {{"rows=3 n=70 outputs=67 weights=u4 codebook", "", RAPT_OK},
          {"rows=3 n=70 outputs=67 weights=u4 codebook", "w_zeros=some", RAPT_BAD_W_ZEROS},
          {"rows=3 n=70 outputs=67 weights=u4 codebook", "y=w_codebook+0", RAPT_BAD_OVERLAP},
          {"rows=3 n=70 outputs=67 weights=u4 codebook packed_w", "arithmetic=3", RAPT_BAD_W_CODEBOOK},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales shared=of_128 packed_w", "", RAPT_OK},
          {"rows=3 n=70 outputs=67 weights=f8_e5m2 scales", "", RAPT_OK},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales", "arithmetic=3", RAPT_BAD_ARITHMETIC},
          {"rows=3 n=70 outputs=67 weights=f8_e5m2 scales seed=2", "x_type=5", RAPT_BAD_ARITHMETIC},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales seed=2", "x_type=22", RAPT_BAD_TYPE},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales seed=2", "y_type=23", RAPT_BAD_TYPE},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales", "w_zeros=some", RAPT_BAD_W_ZEROS},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales", "w_codebook=some", RAPT_BAD_W_CODEBOOK},
          {"rows=3 n=70 outputs=67 weights=f8_e4m3 scales packed_w", "w_type=23", RAPT_BAD_PACKED},
          {"rows=3 n=70 outputs=67", "x_group=32", RAPT_BAD_X_GROUP},
          {"rows=3 n=70 outputs=67", "x_group=18446744073709551615", RAPT_BAD_X_GROUP}});
  expect(
      "linear_in_i8",
      {{"rows=3 n=70 outputs=67 types=i8_f32_f32 scale_group=32", "", RAPT_OK},
       {"rows=3 n=70 outputs=67 types=i8_f32_f32 scale_group=32", "x_scales=null", RAPT_BAD_X_SCALES},
       {"rows=3 n=70 outputs=67 types=i8_f32_f32 scale_group=32", "arithmetic=1", RAPT_BAD_ARITHMETIC},
       {"rows=3 n=70 outputs=67 types=i8_f32_f32 scale_group=32", "y=x_scales+0", RAPT_BAD_OVERLAP},
       {"rows=3 n=70 outputs=67 types=i8_f32_f32 scale_group=32", "workspace=x_scales+0", RAPT_BAD_WORKSPACE},
       {"rows=3 n=70 outputs=67 types=i8_f32_f32 x_rows", "x_rows[2]=18446744073709551615", RAPT_BAD_SIZE},
       {"rows=3 n=70 outputs=67 scale_group=32", "x_group=48", RAPT_BAD_X_GROUP},
       {"rows=3 n=70 outputs=67 scale_group=32", "x_group=16", RAPT_BAD_X_GROUP},
       {"rows=3 n=70 outputs=67", "x_group=32", RAPT_BAD_X_GROUP},
       {"rows=3 n=70 outputs=67 scale_group=32", "x_group=18446744073709551614", RAPT_BAD_X_GROUP},
       {"rows=3 n=70 outputs=67 weights=u4 codebook integers", "", RAPT_OK},
       {"rows=3 n=70 outputs=67 weights=u4 codebook integers packed_w", "", RAPT_OK},
       {"rows=3 n=70 outputs=67 weights=u4 codebook integers", "w_zeros=some", RAPT_BAD_W_ZEROS},
       {"rows=3 n=70 outputs=67 weights=u4 codebook integers", "y=w_codebook+0", RAPT_BAD_OVERLAP},
       {"rows=3 n=70 outputs=67 weights=u4 codebook integers packed_w", "w_codebook=some",
        RAPT_BAD_W_CODEBOOK},
       {"rows=3 n=70 outputs=67 weights=u4 zeros", "w_codebook=some", RAPT_BAD_W_ZEROS},
       {"rows=3 n=70 outputs=67 weights=u4", "w_codebook=some", RAPT_OK}});
}

TEST_CASE("rows of softmax") {
  const Edge of_all[] = {
      {"rows=3 n=5", "", RAPT_OK},
      {"rows=3 n=5", "options=null", RAPT_OK},
      {"rows=3 n=5", "x=null", RAPT_BAD_X},
      {"rows=0 n=5", "x=null", RAPT_OK},
      {"rows=3 n=5", "x_stride=4", RAPT_BAD_X_STRIDE},
      {"rows=3 n=5", "x_stride=0", RAPT_BAD_X_STRIDE},
      {"rows=3 n=5", "x_stride=-7", RAPT_BAD_X_STRIDE},
      {"rows=1 n=5", "x_stride=-7", RAPT_OK},
      {"rows=3 n=5", "x_stride=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5", "rows=18446744073709551615", RAPT_BAD_SIZE},
      {"rows=1 n=5", "cols=18446744073709551615", RAPT_BAD_SIZE},
      {"rows=3 n=5", "size=95", RAPT_BAD_OPTIONS_SIZE},
      {"rows=3 n=5", "scale=inf", RAPT_BAD_SCALE},
      {"rows=3 n=5", "scale=nan", RAPT_BAD_SCALE},
      {"rows=3 n=5", "scale=0x1p-1074", RAPT_BAD_SCALE},
      {"rows=3 n=5", "scale=-3", RAPT_OK},
      {"rows=3 n=5", "softcap=-1", RAPT_BAD_SOFTCAP},
      {"rows=3 n=5", "softcap=inf", RAPT_BAD_SOFTCAP},
      {"rows=3 n=5", "softcap=0x1p-1074", RAPT_BAD_SOFTCAP},
      {"rows=3 n=5", "causal=4", RAPT_BAD_CAUSAL},
      {"rows=3 n=5", "causal=-1", RAPT_BAD_CAUSAL},
      {"rows=3 n=5", "causal_offset=1", RAPT_BAD_CAUSAL_OFFSET},
      {"rows=3 n=5 causal=0", "causal_offset=1152921504606846976", RAPT_OK},
      {"rows=3 n=5 causal=0", "causal_offset=1152921504606846977", RAPT_BAD_CAUSAL_OFFSET},
      {"rows=3 n=5 causal=0", "causal_offset=-1152921504606846977", RAPT_BAD_CAUSAL_OFFSET},
      {"rows=3 n=5", "bias_stride=5", RAPT_BAD_BIAS_STRIDE},
      {"rows=3 n=5", "mask_stride=5", RAPT_BAD_MASK_STRIDE},
      {"rows=3 n=5 bias=each", "bias_stride=4", RAPT_BAD_BIAS_STRIDE},
      {"rows=3 n=5 mask=each", "mask_stride=-5", RAPT_BAD_MASK_STRIDE},
      {"rows=3 n=5 bias=each", "bias_stride=0", RAPT_OK},
      {"rows=3 n=5 bias=each", "bias_stride=9223372036854775807", RAPT_BAD_SIZE},
      {"rows=3 n=5 row_lengths", "row_lengths[2]=6", RAPT_BAD_ROW_LENGTHS},
      {"rows=3 n=5 row_lengths", "row_lengths[2]=5", RAPT_OK},
  };
  const Edge of_matrices[] = {
      {"rows=3 n=5", "y=null", RAPT_BAD_Y},
      {"rows=3 n=0", "x=null y=null", RAPT_OK},
      {"rows=3 n=0", "rows=18446744073709551615", RAPT_OK},
      {"rows=3 n=5", "y_stride=4", RAPT_BAD_Y_STRIDE},
      {"rows=3 n=5", "y=x+0", RAPT_OK},
      {"rows=3 n=5", "y=x+8", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 gap=1,0,0", "y=x+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 bias=each", "y=bias+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 mask=shared", "y=mask+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 row_lengths", "y=row_lengths+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5 sinks", "y=sinks+0", RAPT_BAD_OVERLAP},
      {"rows=3 n=5", "empty_rows_are_zero=-1", RAPT_OK},
  };
  for (const char *kernel : {"softmax_f", "softmax_bf16", "log_softmax_f", "log_softmax_bf16"}) {
    expect(kernel, of_all);
    expect(kernel, of_matrices);
  }
  expect("logsumexp", of_all);
  expect("logsumexp", {{"rows=3 n=5", "out=null", RAPT_BAD_OUT},
                       {"rows=3 n=5", "out=x+0", RAPT_BAD_OVERLAP},
                       {"rows=3 n=5 sinks", "out=sinks+0", RAPT_BAD_OVERLAP},
                       {"rows=3 n=5", "empty_rows_are_zero=1", RAPT_BAD_EMPTY_ROWS}});
  expect("softmax_backward", {{"rows=3 n=5", "", RAPT_OK},
                              {"rows=3 n=5", "y=null", RAPT_BAD_Y},
                              {"rows=3 n=5", "dy=null", RAPT_BAD_DY},
                              {"rows=3 n=5", "dx=null", RAPT_BAD_DX},
                              {"rows=3 n=0", "y=null dy=null dx=null", RAPT_OK},
                              {"rows=3 n=0", "rows=18446744073709551615", RAPT_OK},
                              {"rows=3 n=5", "y_stride=4", RAPT_BAD_Y_STRIDE},
                              {"rows=3 n=5", "dy_stride=0", RAPT_BAD_DY_STRIDE},
                              {"rows=3 n=5", "dx_stride=-7", RAPT_BAD_DX_STRIDE},
                              {"rows=3 n=5", "dx=y+0", RAPT_OK},
                              {"rows=3 n=5", "dx=dy+0", RAPT_OK},
                              {"rows=3 n=5", "dx=y+8", RAPT_BAD_OVERLAP},
                              {"rows=3 n=5 gap=0,1,0", "dx=dy+0", RAPT_BAD_OVERLAP},
                              {"rows=3 n=5", "rows=18446744073709551615", RAPT_BAD_SIZE}});
}

// The seed of a case chooses its shape. 25 has two tokens of three slots with weights and add, 17 two of two without.
TEST_CASE("sums of experts") {
  expect("expert_sum", {{"n=16 seed=25", "", RAPT_OK},
                        {"n=16 seed=17", "", RAPT_OK},
                        {"n=16 seed=25", "options=null", RAPT_BAD_OPTIONS},
                        {"n=16 seed=25", "size=0", RAPT_BAD_OPTIONS_SIZE},
                        {"n=16 seed=25", "type=5", RAPT_BAD_TYPE},
                        {"n=16 seed=25", "type=99", RAPT_BAD_TYPE},
                        {"n=16 seed=25", "top_k=0", RAPT_BAD_SHAPE},
                        {"n=16 seed=25", "tokens=18446744073709551615", RAPT_BAD_SIZE},
                        {"n=16 seed=17", "x_stride=0 y_stride=0 cols=9223372036854775808", RAPT_BAD_SIZE},
                        {"n=16 seed=25", "x=null", RAPT_BAD_X},
                        {"n=16 seed=25", "y=null", RAPT_BAD_Y},
                        {"n=16 seed=25", "tokens=0 x=null y=null", RAPT_OK},
                        {"n=0 seed=25", "x=null y=null", RAPT_OK},
                        {"n=16 seed=25", "x_stride=15", RAPT_BAD_X_STRIDE},
                        {"n=16 seed=25", "x_stride=-16", RAPT_BAD_X_STRIDE},
                        {"n=16 seed=25", "y_stride=15", RAPT_BAD_Y_STRIDE},
                        {"n=16 seed=25", "add_stride=15", RAPT_BAD_ADD},
                        {"n=16 seed=17", "add_stride=16", RAPT_BAD_ADD},
                        {"n=16 seed=25", "weights_stride=2", RAPT_BAD_WEIGHTS_STRIDE},
                        {"n=16 seed=17", "weights_stride=2", RAPT_BAD_WEIGHTS_STRIDE},
                        {"n=16 seed=25", "x_stride=9223372036854775807", RAPT_BAD_SIZE},
                        {"n=16 seed=25", "weights_stride=9223372036854775807", RAPT_BAD_SIZE},
                        {"n=16 seed=0", "y_stride=-1 add_stride=-3", RAPT_OK},
                        {"n=16 seed=25", "y=x+0", RAPT_BAD_OVERLAP},
                        {"n=16 seed=25", "y=weights+0", RAPT_BAD_OVERLAP},
                        {"n=16 seed=25", "y=add+0", RAPT_OK},
                        {"n=16 seed=25", "y=add+8", RAPT_BAD_OVERLAP}});
}

// Seed 24 has weights, 9 means, and 1 maxima with their rows. Their bags are 3, 2 and 3, of 2, 4 and 3 rows.
TEST_CASE("embedding bags") {
  expect("embedding_bag", {{"n=16 seed=24", "", RAPT_OK},
                           {"n=16 seed=9", "", RAPT_OK},
                           {"n=16 seed=1", "", RAPT_OK},
                           {"n=16 seed=24", "options=null", RAPT_BAD_OPTIONS},
                           {"n=16 seed=24", "size=0", RAPT_BAD_OPTIONS_SIZE},
                           {"n=16 seed=24", "type=5", RAPT_BAD_TYPE},
                           {"n=16 seed=24", "operation=3", RAPT_BAD_OPERATION},
                           {"n=16 seed=24", "operation=1", RAPT_BAD_WEIGHT},
                           {"n=16 seed=9", "weights=some", RAPT_BAD_WEIGHT},
                           {"n=16 seed=1", "operation=0", RAPT_BAD_ROWS},
                           {"n=16 seed=1", "max_rows=null", RAPT_OK},
                           {"n=16 seed=24", "w_stride=15", RAPT_BAD_W_STRIDES},
                           {"n=16 seed=24", "y_stride=-16", RAPT_BAD_Y_STRIDE},
                           {"n=16 seed=24", "w=null", RAPT_BAD_W},
                           {"n=16 seed=24", "y=null", RAPT_BAD_Y},
                           {"n=16 seed=24", "indices=null", RAPT_BAD_INDICES},
                           {"n=16 seed=24", "offsets=null", RAPT_BAD_OFFSETS},
                           {"n=16 seed=24", "indices[18]=2", RAPT_BAD_INDICES},
                           {"n=16 seed=24", "indices[0]=-2", RAPT_BAD_INDICES},
                           {"n=16 seed=24", "indices[0]=-1", RAPT_OK},
                           {"n=16 seed=24", "offsets[0]=1", RAPT_BAD_OFFSETS},
                           {"n=16 seed=24", "offsets[1]=99", RAPT_BAD_OFFSETS},
                           {"n=16 seed=24", "offsets[3]=2000000000000000000", RAPT_BAD_SIZE},
                           {"n=16 seed=24", "bags=0 w=null y=null offsets=null", RAPT_OK},
                           {"n=0 seed=24", "w=null y=null", RAPT_OK},
                           {"n=0 seed=24", "offsets=null", RAPT_BAD_OFFSETS},
                           {"n=16 seed=24", "rows=1", RAPT_BAD_INDICES},
                           {"n=16 seed=9", "y=w+0", RAPT_BAD_OVERLAP},
                           {"n=16 seed=9", "y=indices+0", RAPT_BAD_OVERLAP},
                           {"n=16 seed=9", "y=offsets+0", RAPT_BAD_OVERLAP},
                           {"n=16 seed=24", "y=weights+0", RAPT_BAD_OVERLAP},
                           {"n=16 seed=1", "max_rows=y+0", RAPT_BAD_OVERLAP}});
}

// Seed 0 adds five rows to three.
TEST_CASE("sums of rows by index") {
  expect("index_add", {{"n=16 seed=0", "", RAPT_OK},
                       {"n=16 seed=0", "options=null", RAPT_BAD_OPTIONS},
                       {"n=16 seed=0", "size=0", RAPT_BAD_OPTIONS_SIZE},
                       {"n=16 seed=0", "type=5", RAPT_BAD_TYPE},
                       {"n=16 seed=0", "x_stride=15", RAPT_BAD_X_STRIDE},
                       {"n=16 seed=0", "out_stride=-16", RAPT_BAD_OUT_STRIDE},
                       {"n=16 seed=0", "x=null", RAPT_BAD_X},
                       {"n=16 seed=0", "out=null", RAPT_BAD_OUT},
                       {"n=16 seed=0", "indices=null", RAPT_BAD_INDICES},
                       {"n=16 seed=0", "indices[4]=3", RAPT_BAD_INDICES},
                       {"n=16 seed=0", "indices[0]=-2", RAPT_BAD_INDICES},
                       {"n=16 seed=0", "indices[0]=-1", RAPT_OK},
                       {"n=16 seed=0", "out_rows=2", RAPT_BAD_INDICES},
                       {"n=16 seed=0", "rows=0 x=null out=null indices=null", RAPT_OK},
                       {"n=0 seed=0", "x=null out=null", RAPT_OK},
                       {"n=0 seed=0", "indices=null", RAPT_BAD_INDICES},
                       {"n=16 seed=0", "cols=9223372036854775807", RAPT_BAD_X_STRIDE},
                       {"n=16 seed=0", "x_stride=9223372036854775807", RAPT_BAD_SIZE},
                       {"n=16 seed=0", "out=x+0", RAPT_BAD_OVERLAP},
                       {"n=16 seed=0", "out=x+8", RAPT_BAD_OVERLAP}});
}

// The seed of a case chooses its types and arrays: 0 has f32, i8 and scales, 10 u4, 1090 u4 with zeros, 2170 u4 with a
// codebook.
TEST_CASE("rows of integers") {
  const Edge of_both[] = {
      {"n=40 seed=0", "", RAPT_OK},
      {"n=40 seed=0", "group=18446744073709551615", RAPT_OK},
      {"n=40 seed=0", "q=null", RAPT_BAD_Q},
      {"n=40 seed=0", "q_type=1", RAPT_BAD_TYPE},
      {"n=40 seed=0", "q_type=0", RAPT_BAD_TYPE},
      {"n=40 seed=0", "q_type=99", RAPT_BAD_TYPE},
      {"n=40 seed=0", "rows=18446744073709551615", RAPT_BAD_SIZE},
      {"n=40 seed=2", "rows=1844674407370955162", RAPT_BAD_SIZE},
      {"n=0 seed=0", "q=null", RAPT_OK},
  };
  expect("quantize_rows", of_both);
  expect("dequantize_rows", of_both);
  expect("quantize_rows", {{"n=40 seed=0", "x=null", RAPT_BAD_X},
                           {"n=40 seed=0", "scales=null", RAPT_BAD_SCALES},
                           {"n=40 seed=0", "x_type=2", RAPT_BAD_TYPE},
                           {"n=40 seed=0", "x_type=5", RAPT_BAD_TYPE},
                           {"n=40 seed=0", "q_type=7", RAPT_BAD_TYPE},
                           {"n=40 seed=0", "q_type=24", RAPT_BAD_TYPE},
                           {"n=40 seed=0", "x_stride=39", RAPT_BAD_X_STRIDE},
                           {"n=40 seed=0", "x_stride=-40", RAPT_BAD_X_STRIDE},
                           {"n=40 seed=0", "inputs=9223372036854775807 x_stride=0", RAPT_BAD_SIZE},
                           {"n=40 seed=0", "q=x+0", RAPT_BAD_OVERLAP},
                           {"n=40 seed=0", "q=x+159", RAPT_BAD_OVERLAP},
                           {"n=40 seed=0", "q=x+160", RAPT_OK},
                           {"n=40 seed=0", "scales=x+156", RAPT_BAD_OVERLAP},
                           {"n=40 seed=0", "scales=x+160", RAPT_OK},
                           {"n=40 seed=0", "scales=q+36", RAPT_BAD_OVERLAP},
                           {"n=40 seed=0", "scales=q+40", RAPT_OK}});
  expect("dequantize_rows", {{"n=40 seed=0", "y=null", RAPT_BAD_Y},
                             {"n=40 seed=0", "y_type=2", RAPT_BAD_TYPE},
                             {"n=40 seed=0", "y_stride=39", RAPT_BAD_Y_STRIDE},
                             {"n=40 seed=0", "y_stride=-40", RAPT_BAD_Y_STRIDE},
                             {"n=40 seed=0", "scale_type=2", RAPT_BAD_W_SCALES},
                             {"n=40 seed=0", "scale_type=5", RAPT_BAD_W_SCALES},
                             {"n=40 seed=0", "scales=null scale_type=0", RAPT_OK},
                             {"n=40 seed=0", "scales=null scale_type=3", RAPT_BAD_W_SCALES},
                             {"n=40 seed=0", "zeros=some", RAPT_BAD_W_ZEROS},
                             {"n=40 seed=0", "codebook=some", RAPT_BAD_W_CODEBOOK},
                             {"n=40 seed=2170", "zeros=some", RAPT_BAD_W_ZEROS},
                             {"n=40 seed=0", "y=q+0", RAPT_BAD_OVERLAP},
                             {"n=40 seed=0", "y=q+40", RAPT_OK},
                             {"n=40 seed=0", "y=scales+4", RAPT_BAD_OVERLAP},
                             {"n=40 seed=0", "y=scales+8", RAPT_OK},
                             {"n=40 seed=1090", "y=zeros+0", RAPT_BAD_OVERLAP},
                             {"n=40 seed=2170", "y=codebook+60", RAPT_BAD_OVERLAP},
                             {"n=40 seed=2170", "y=codebook+64", RAPT_OK}});
}

// The seed of a case chooses the type of blocks and that of y: 0 has Q8_0 and f32, 7 Q4_K, 21 f16 and Q4_K. n is
// rounded up to whole blocks. Q8_0 has 34 bytes for 32 inputs.
TEST_CASE("rows of blocks") {
  expect("dequantize_blocks", {{"n=64 seed=0", "", RAPT_OK},
                               {"n=64 seed=0", "group=0", RAPT_OK},
                               {"n=64 seed=0", "group=64", RAPT_BAD_SCALE_GROUP},
                               {"n=64 seed=0", "group=16", RAPT_BAD_SCALE_GROUP},
                               {"n=64 seed=9", "group=16", RAPT_OK},
                               {"n=64 seed=0", "inputs=63", RAPT_BAD_SHAPE},
                               {"n=64 seed=0", "inputs=65", RAPT_BAD_SHAPE},
                               {"n=64 seed=0", "inputs=32", RAPT_OK},
                               {"n=64 seed=0", "inputs=0", RAPT_OK},
                               {"n=256 seed=7", "inputs=128", RAPT_BAD_SHAPE},
                               {"n=64 seed=0", "q=null", RAPT_BAD_Q},
                               {"n=64 seed=0", "y=null", RAPT_BAD_Y},
                               {"n=64 seed=0", "y_type=0", RAPT_BAD_TYPE},
                               {"n=64 seed=0", "y_type=2", RAPT_BAD_TYPE},
                               {"n=64 seed=0", "y_type=8", RAPT_BAD_TYPE},
                               {"n=64 seed=0", "q_type=22", RAPT_BAD_TYPE},
                               {"n=64 seed=0", "y_stride=63", RAPT_BAD_Y_STRIDE},
                               {"n=64 seed=0", "rows=18446744073709551615", RAPT_BAD_SIZE},
                               {"n=64 seed=0", "scales=some", RAPT_BAD_W_SCALES},
                               {"n=64 seed=0", "zeros=some", RAPT_BAD_W_ZEROS},
                               {"n=64 seed=0", "offsets=some", RAPT_BAD_W_OFFSETS},
                               {"n=64 seed=0", "codebook=some", RAPT_BAD_W_CODEBOOK},
                               {"n=64 seed=0", "scale_type=1", RAPT_BAD_W_SCALES},
                               {"n=64 seed=0", "y=q+0", RAPT_BAD_OVERLAP},
                               {"n=64 seed=0", "y=q+64", RAPT_BAD_OVERLAP},
                               {"n=64 seed=0", "y=q+68", RAPT_OK},
                               {"n=0 seed=0", "q=null", RAPT_OK}});
}
