// Maps pages between two inaccessible guard pages.
#pragma once

#include <cstddef>

namespace rapt::test {

std::size_t page_size();

// Returns `bytes` accessible bytes, a multiple of page_size(). Ends the program if memory is exhausted.
unsigned char *map_guarded(std::size_t bytes);
void unmap_guarded(unsigned char *begin, std::size_t bytes);

}  // namespace rapt::test
