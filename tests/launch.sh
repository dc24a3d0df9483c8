#!/bin/sh
# Starts a test through RAPT_LAUNCHER, a command such as an emulator; without one directly. RAPT_LAUNCHER_LEVELS lists
# the levels that must then run, weakest first; dispatch must choose the last.
if [ -n "$RAPT_LAUNCHER_LEVELS" ]; then
  if [ -n "$RAPT_REQUIRE_ISA" ]; then export RAPT_REQUIRE_ISA="$RAPT_LAUNCHER_LEVELS"; fi
  if [ -z "$RAPT_ISA" ]; then export RAPT_TEST_EXPECT_ISA="${RAPT_LAUNCHER_LEVELS##*,}"; fi
fi
exec $RAPT_LAUNCHER "$@"
