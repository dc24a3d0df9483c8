#include <user.h>

int main(void) {
  const float x[3] = {1, 2, 3};
  return squares(x, 3) == 14.0f ? 0 : 1;
}
