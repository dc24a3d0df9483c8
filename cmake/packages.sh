# shellcheck shell=bash
# Sourced by the scripts that build and run something on a bare Debian or Ubuntu.

# need_packages PACKAGE...: installs the missing ones of these packages and names them. Without dpkg it does nothing: CMake
# then names each missing library.
need_packages() {
  command -v dpkg-query >/dev/null || return 0
  local package missing=()
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi

  local as_root=()
  if ((EUID != 0)); then
    as_root=(sudo)
    if [[ ! -t 0 ]]; then as_root+=(-n); fi  # nobody is there to type a password
    if ! command -v sudo >/dev/null || ! "${as_root[@]}" true; then
      echo "Missing packages, and no right to install them. As root: apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "Installing packages that are needed to build and run this: ${missing[*]}" >&2
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  "${as_root[@]}" apt-get update -qq >&2 </dev/null
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 </dev/null
}
