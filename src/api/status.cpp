#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

#define RAPT_TEXT_(x) #x
#define RAPT_TEXT(x) RAPT_TEXT_(x)

const char *rapt_version(void) {
  return RAPT_TEXT(RAPT_VERSION_MAJOR) "." RAPT_TEXT(RAPT_VERSION_MINOR) "." RAPT_TEXT(RAPT_VERSION_PATCH);
}

const char *rapt_status_text(rapt_status status) {
  switch (status) {
    case RAPT_OK:
      return "success";
    case RAPT_BAD_X:
      return "x is null";
    case RAPT_BAD_Y:
      return "y is null";
    case RAPT_BAD_DY:
      return "dy is null";
    case RAPT_BAD_DX:
      return "dx is null";
    case RAPT_BAD_OUT:
      return "out is null";
    case RAPT_BAD_X_STRIDE:
      return "x_stride is smaller than a row";
    case RAPT_BAD_Y_STRIDE:
      return "y_stride is smaller than a row";
    case RAPT_BAD_DY_STRIDE:
      return "dy_stride is smaller than a row";
    case RAPT_BAD_DX_STRIDE:
      return "dx_stride is smaller than a row";
    case RAPT_BAD_OVERLAP:
      return "the output overlaps an input without being exactly that input";
    case RAPT_BAD_SIZE:
      return "rows times stride does not fit the address space";
    case RAPT_BAD_OPTIONS_SIZE:
      return "options->size is not the size of a rapt_softmax_options: start from RAPT_SOFTMAX_OPTIONS_INIT";
    case RAPT_BAD_OPTION:
      return "options sets a field that this version of rapt does not know";
    case RAPT_BAD_SCALE:
      return "the scale is NaN or infinite";
    case RAPT_BAD_SOFTCAP:
      return "options->softcap is negative, NaN or infinite";
    case RAPT_BAD_BIAS_STRIDE:
      return "options->bias_stride is neither 0 nor at least a row";
    case RAPT_BAD_MASK_STRIDE:
      return "options->mask_stride is neither 0 nor at least a row";
    case RAPT_BAD_ROW_LENGTHS:
      return "an entry of options->row_lengths is larger than cols";
    case RAPT_BAD_ISA_NAME:
      return "no instruction set of that name is compiled in: see rapt_isa_name";
    case RAPT_BAD_ISA_FOR_THIS_CPU:
      return rapt::unusable_isa_text();
  }
  return "not a status of rapt";
}
