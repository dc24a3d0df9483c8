#!/usr/bin/env bash
# deb_test.sh BUILD_DIR [CMAKE_ARGUMENT...]: makes the Debian packages; lintian has nothing to say; installed, a program
# of pkg-config and one of CMake run on them, and rapt-validate; removed, they leave nothing. Then the shared library is
# installed without a package, as the manual says, ldconfig included.
set -euo pipefail
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(mkdir -p "$1" && cd "$1" && pwd)
shift
if ((EUID != 0)); then echo "skipped: Debian packages: only root installs them"; exit 0; fi
packages=$build/packages
export DEBFULLNAME="A test of rapt" DEBEMAIL=test@rapt.test
rm -rf "$packages"
# A folder keeps RAPT_LEVELS of an earlier command: packages have them only if they are asked for again.
kept=$build/kept
rm -rf "$kept"
of_packages() { cmake -S "$source_dir" -B "$kept" -DBUILD_SHARED_LIBS=ON "$@" >"$kept.log" 2>&1; }
of_packages -DRAPT_LEVELS=scalar || { cat "$kept.log" >&2; exit 1; }
for again in -DRAPT_PACKAGE=ON "" -DRAPT_PACKAGE:BOOL=ON; do
  if of_packages $again; then echo "packages lack levels, and nobody asked for fewer" >&2; exit 1; fi
  grep -q "The packages would lack the levels [a-z0-9_ ]*: RAPT_LEVELS is 'scalar'" < <(tr -s ' \n' ' ' <"$kept.log") || { cat "$kept.log" >&2; exit 1; }
done
for again in "-DRAPT_PACKAGE=ON -DRAPT_LEVELS:STRING=scalar" "" "-DRAPT_PACKAGE=ON -DRAPT_LEVELS="; do
  # shellcheck disable=SC2086
  of_packages $again || { cat "$kept.log" >&2; exit 1; }
done

cmake -S "$source_dir" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRAPT_PACKAGE=ON -DBUILD_SHARED_LIBS=ON \
  -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" "$@"
cmake --build "$build" --parallel "$(nproc)"
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$packages"
complaints=$(lintian --fail-on none "$packages"/*.deb 2>&1 | grep -v 'root privileges' || true)
if [[ -n $complaints ]]; then echo "$complaints" >&2; exit 1; fi

soversion=$(sed -n 's/^#define RAPT_VERSION_M[A-Z]* //p' "$source_dir/include/rapt/rapt.h" | paste -sd .)
names=("librapt$soversion" librapt-dev rapt-tools)
remove() { dpkg -P rapt-tools librapt-dev "librapt$soversion" >"$build/remove.log" 2>&1 || true; }
trap remove EXIT
dpkg -i "$packages"/*.deb
# The loader knows the library without LD_LIBRARY_PATH, because the package's trigger runs ldconfig.
dpkg-deb --ctrl-tarfile "$packages"/librapt"$soversion"_*.deb | tar -xO ./triggers | grep -qx 'activate-noawait ldconfig'
known_to_loader() { /sbin/ldconfig -p | grep -F "librapt.so.$soversion " >/dev/null; }
known_to_loader
levels=$(sed 's/ .*//; /^#/d' "$build/rapt_levels.txt" | paste -sd ' ')
dpkg-query -W -f '${Description}\n' "librapt$soversion" | grep -qx " $levels\." ||
  { echo "the description of librapt$soversion does not list the levels $levels" >&2; exit 1; }
work=$build/deb-consumer
rm -rf "$work"
mkdir -p "$work"
cc "$source_dir/tests/consumer/program/main.c" -o "$work/c_program" $(pkg-config --cflags --libs rapt)
"$work/c_program"
cmake -S "$source_dir/tests/consumer/find_package" -B "$work/cmake" \
  "-DRAPT_VERSION=$(dpkg-query -W -f '${Version}' librapt-dev)" >"$work/cmake.log"
cmake --build "$work/cmake" >>"$work/cmake.log"
rapt-validate --quick --kernel softmax_f32
man --where rapt-validate >/dev/null 2>&1 || zgrep -q rapt-validate /usr/share/man/man1/rapt-validate.1.gz
remove
trap - EXIT
for name in "${names[@]}"; do
  if dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -q .; then echo "$name is still there" >&2; exit 1; fi
done
[[ ! -e /usr/include/rapt && ! -e /usr/bin/rapt-validate ]]
if known_to_loader; then echo "the loader still knows librapt.so.$soversion" >&2; exit 1; fi

# Without a package, in a folder that /etc/ld.so.conf.d names. Nothing of a rapt that is there already is touched.
if [[ -e /usr/local/include/rapt ]] || ! grep -qsx /usr/local/lib /etc/ld.so.conf.d/*; then
  echo "skipped: an installation in /usr/local: rapt is there, or the loader does not look there"
else
  plain=$build/plain
  cmake -S "$source_dir" -B "$plain" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DRAPT_BUILD_VALIDATE=OFF \
    -DCMAKE_INSTALL_LIBDIR=lib "$@" -DRAPT_LEVELS=scalar >"$work/plain.log"
  cmake --build "$plain" >>"$work/plain.log"
  uninstall() {
    xargs -r -d '\n' rm -f <"$plain/install_manifest.txt"
    rm -rf /usr/local/include/rapt /usr/local/lib/cmake/rapt /usr/local/share/doc/rapt
    find /usr/local/lib/cmake /usr/local/lib/pkgconfig -maxdepth 0 -empty -delete
    /sbin/ldconfig
  }
  trap uninstall EXIT
  cmake --install "$plain" --prefix /usr/local >>"$work/plain.log"
  cc "$source_dir/tests/consumer/program/main.c" -o "$work/plain_program" $(pkg-config --cflags --libs rapt)
  /sbin/ldconfig
  known_to_loader
  "$work/plain_program"
  uninstall
  trap - EXIT
fi
echo "packages: $(cd "$packages" && du -ch --apparent-size ./*.deb | tail -n 1 | cut -f 1), installed, used and removed"
