// Stops the compilation for a processor on which the results were never tested. cmake/isa.cmake checks this
// too. These checks protect builds that compile the sources in another way.
#pragma once

#if defined(__AARCH64EB__)
#error "rapt needs little-endian AArch64"
#endif

static_assert(sizeof(void *) == 8, "rapt needs a processor with 64-bit addresses");
