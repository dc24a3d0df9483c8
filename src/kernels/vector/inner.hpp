// Marks the functions and lambdas that become part of a kernel.
//
// A kernel is [[gnu::flatten]]: gcc then inlines all that it calls, at once, and optimises the result. If the
// functions below it were always_inline, gcc would inline each into its caller first, and optimise every statement
// again at every level. clang's flatten inlines only the kernel's own calls, and needs always_inline.
//
//   gcc 12, AVX-512                 | always_inline   | flatten
//   softmax over f64, CPU seconds   | 18.0            | 9.5
//   attention over f32              | 15.8            | 9.8
//   its loop of one row, per square | 271 instructions | 185
//
// Two rules follow. A function that is not inlined, and calls such functions, must be [[gnu::noinline, gnu::flatten]].
// gcc must not remove calls of functions that only prefetch, as it does with pure ones (cmake/flags.cmake).
#pragma once

#ifdef __clang__
#define RAPT_INNER __attribute__((always_inline))
#else
#define RAPT_INNER
#endif
