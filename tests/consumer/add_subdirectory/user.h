/* Returns the sum of the squares of x. */
float squares(const float *x, int n);
