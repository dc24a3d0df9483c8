#!/bin/sh
# wine.sh PROGRAM.exe [ARGUMENT...]: starts it by Wine, without a display. The prefix is that of WINEPREFIX.
export WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml="  # asks for no Mono and no Gecko
wine=/usr/lib/wine/wine64  # Debian's; the path has no name for it
if ! [ -x "$wine" ]; then wine=wine; fi
exec "$wine" "$@"
