/* Checks, on every level, bits that no compiler flag of a project may change: those of NaN and -inf in a
   softmax, and of a subnormal result. The program may itself be compiled with -ffast-math, so it compares
   only integers. With the argument "subnormals" it also checks that the library has not made the process flush
   subnormal numbers to zero. */
#include <rapt/rapt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static float value_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static int is_wrong_on(const char *level) {
  const uint32_t infinity = 0x7f800000;
  const float logits[4] = {1, value_of(0x7fc00000), value_of(0xff800000), 2}, x = -100;
  float probabilities[4], y;
  int i, wrong = 0;

  if (rapt_softmax_f32(logits, 4, probabilities, 4, 1, 4, NULL) != RAPT_OK) return 1;
  for (i = 0; i < 4; ++i) wrong |= (bits_of(probabilities[i]) & 0x7fffffff) <= infinity;
  rapt_exp_f32(&x, &y, 1);
  wrong |= bits_of(y) != 27;
  if (wrong) {
    printf("%s: softmax %08x %08x %08x %08x, exp %08x\n", level, (unsigned)bits_of(probabilities[0]),
           (unsigned)bits_of(probabilities[1]), (unsigned)bits_of(probabilities[2]),
           (unsigned)bits_of(probabilities[3]), (unsigned)bits_of(y));
  }
  return wrong;
}

int main(int count, char **arguments) {
  size_t i;
  int wrong = 0;
  volatile float subnormal = value_of(27), one = 1;

  if (count > 1 && strcmp(arguments[1], "subnormals") == 0 && bits_of(subnormal * one) != 27) {
    printf("subnormals are flushed to zero in the whole process\n");
    wrong = 1;
  }
  for (i = 0; i < rapt_isa_count(); ++i) {
    const char *level = rapt_isa_name(i);
    if (rapt_force_isa(level) != RAPT_OK) continue;
    printf("%s ", level);
    wrong |= is_wrong_on(level);
  }
  printf(wrong ? "wrong\n" : "right\n");
  return wrong;
}
