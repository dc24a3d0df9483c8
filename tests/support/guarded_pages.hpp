// Maps pages between two inaccessible pages.
#pragma once

#include <cstddef>

namespace rapt::test {

std::size_t page_size();

// Returns `bytes` bytes of accessible memory; `bytes` is a multiple of page_size(). Ends the program if there
// is no memory.
unsigned char *map_guarded(std::size_t bytes);
void unmap_guarded(unsigned char *begin, std::size_t bytes);

}  // namespace rapt::test
