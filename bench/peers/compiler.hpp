// Defines the name and version of the compiler. Peers that are plain loops report it as their version.
#pragma once

#define RAPT_PEER_TEXT_OF(x) #x
#define RAPT_PEER_TEXT(x) RAPT_PEER_TEXT_OF(x)

#if defined(__clang__)
#define RAPT_PEER_COMPILER                                                                         \
  "clang " RAPT_PEER_TEXT(__clang_major__) "." RAPT_PEER_TEXT(__clang_minor__) "." RAPT_PEER_TEXT( \
      __clang_patchlevel__)
#else
#define RAPT_PEER_COMPILER \
  "gcc " RAPT_PEER_TEXT(__GNUC__) "." RAPT_PEER_TEXT(__GNUC_MINOR__) "." RAPT_PEER_TEXT(__GNUC_PATCHLEVEL__)
#endif
