// A C++ program that uses rapt: dot, softmax with options, and a status in words.
#include <rapt/rapt.h>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

int main() {
  const std::vector<double> q = {1, 0, 1, 0}, k = {0, 1, 1, 1}, logits = {14, 10, 12};
  std::vector<double> probabilities(3);
  if (rapt_dot_f64(q.data(), k.data(), q.size()) != 1.0) return 1;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale_f64 = 0.125;
  rapt_status status = rapt_softmax_f64(logits.data(), 3, probabilities.data(), 3, 1, 3, &options);
  if (status != RAPT_OK || std::fabs(probabilities[0] - 0.419) > 0.001) return 2;
  options.scale_f64 = NAN;
  status = rapt_softmax_f64(logits.data(), 3, probabilities.data(), 3, 1, 3, &options);
  if (status != RAPT_BAD_SCALE || std::string(rapt_status_text(status)).empty()) return 3;
  std::cout << "C++: rapt " << rapt_version() << " on " << rapt_active_isa() << ": " << probabilities[0]
            << " " << probabilities[1] << " " << probabilities[2] << "; " << rapt_status_text(status) << "\n";
}
