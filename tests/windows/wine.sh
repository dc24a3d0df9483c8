#!/bin/sh
# wine.sh PROGRAM.exe [ARGUMENT...]: starts it by Wine, without a display. The prefix is that of WINEPREFIX.
export WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml="  # asks for no Mono and no Gecko
wine=/usr/lib/wine/wine64  # Debian's; it has no name of its own in the path
if ! [ -x "$wine" ]; then wine=wine; fi
exec "$wine" "$@"
