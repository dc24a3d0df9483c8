// Pages between two inaccessible ones.
#pragma once

#include <cstddef>

namespace rapt::test {

std::size_t page_size();

// Accessible memory of `bytes` bytes, a multiple of page_size(). Ends the program if there is none.
unsigned char *map_guarded(std::size_t bytes);
void unmap_guarded(unsigned char *begin, std::size_t bytes);

}  // namespace rapt::test
