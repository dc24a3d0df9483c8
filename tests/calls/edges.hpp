// Calls at the edges of what rapt.h allows, written by hand, so that one mistake in the description of a call cannot
// hide in all that uses it.
#pragma once

#include <string>

#include "support/kernel_case.hpp"

namespace rapt::test {

// Changes a placed call by words such as
//   eps=-1            a field of the options
//   x_strides.head=3  a stride: batch, head or token
//   x=null            the address of an array
//   positions[7]=-1   an element of an array
//   y=x+8             y begins 8 bytes after x, or -8
// Returns what it does not understand, or an empty text.
std::string change(Call &call, const std::string &words);

}  // namespace rapt::test
