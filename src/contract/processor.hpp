// Stops the compilation for a processor on which nobody has held the bits. cmake/isa.cmake says so before;
// this is for a build that compiles these sources in another way.
#pragma once

#if defined(__AARCH64EB__)
#error "rapt needs little-endian AArch64"
#endif

static_assert(sizeof(void *) == 8, "rapt needs a processor with 64-bit addresses");
