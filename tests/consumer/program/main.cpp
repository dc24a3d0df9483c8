// Uses rapt in a C++ program: dot, softmax with options, attention, and the text of a status.
#include <rapt/rapt.h>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

// One query over two equal keys gives the average of their values.
bool attends() {
  const std::vector<double> q = {1, 2}, k = {3, 4, 3, 4}, v = {1, 10, 3, 30};
  std::vector<double> out(2);
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = RAPT_F64;
  options.q_len = 1;
  options.kv_len = 2;
  options.qk_dim = 2;
  std::size_t bytes = 0;
  if (rapt_attention_workspace(&options, &bytes) != RAPT_OK) return false;
  std::vector<unsigned char> workspace(bytes);
  return rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(), bytes) ==
             RAPT_OK &&
         out[0] == 2.0 && out[1] == 20.0;
}

int main() {
  const std::vector<double> q = {1, 0, 1, 0}, k = {0, 1, 1, 1}, logits = {14, 10, 12};
  std::vector<double> probabilities(3);
  if (rapt_dot_f64(q.data(), k.data(), q.size()) != 1.0) return 1;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = 0.125;
  rapt_status status = rapt_softmax_f64(logits.data(), 3, probabilities.data(), 3, 1, 3, &options);
  if (status != RAPT_OK || std::fabs(probabilities[0] - 0.419) > 0.001) return 2;
  options.scale = NAN;
  status = rapt_softmax_f64(logits.data(), 3, probabilities.data(), 3, 1, 3, &options);
  if (status != RAPT_BAD_SCALE || std::string(rapt_status_text(status)).empty()) return 3;
  if (!attends()) return 4;
  std::cout << "C++: rapt " << rapt_version() << " on " << rapt_active_isa() << ": " << probabilities[0]
            << " " << probabilities[1] << " " << probabilities[2] << "; " << rapt_status_text(status) << "\n";
}
