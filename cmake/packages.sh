# shellcheck shell=bash
# Scripts that build and run something on a bare Debian or Ubuntu source this file. Without dpkg no package ever counts
# as missing: CMake then names each missing library.
#
#   missing_packages PACKAGE...   prints those that are not installed
#   need_packages PACKAGE...      installs them: one line says how many and how large, and apt's output goes to a log.
#                                 Fails where some are still missing, and names them
#   prefer_ninja                  makes Ninja the generator of new builds, where Ninja is installed. CMake keeps the
#                                 generator of a build that it has configured before

packages_log=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/packages.log

# A program with the package's name is enough, such as a cmake that is not Debian's.
missing_packages() {
  command -v dpkg-query >/dev/null || return 0
  local package
  for package in "$@"; do
    type -P "${package%-build}" >/dev/null ||
      [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

need_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return 0; fi
  local as_root=()
  if ((EUID != 0)); then
    as_root=(sudo)
    if [[ ! -t 0 ]]; then as_root+=(-n); fi  # nobody can type a password
    if ! type -P sudo >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
      echo "packages: no right to install them; as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8)
  mkdir -p "$(dirname "$packages_log")"
  install_with_apt "${missing[@]}"
}

prefer_ninja() {
  if type -P ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
}

# install_with_apt PACKAGE...: does what need_packages does, which has set as_root. Packages that this system's apt does
# not know are left out, so that the others are installed.
install_with_apt() {
  local known unknown plan begin=$SECONDS
  printf '%s\n' "" "$(date)" "asked for: $*" >>"$packages_log"
  "${as_root[@]}" apt-get update -q >>"$packages_log" 2>&1 </dev/null || true
  mapfile -t known < <(LC_ALL=C apt-cache policy "$@" |
    awk '/^[^ ]/ { sub(/:$/, ""); name = $0 } $1 == "Candidate:" && $2 != "(none)" { print name }')
  mapfile -t unknown < <(printf '%s\n' "$@" | grep -vxF -f <(printf '%s\n' "${known[@]}") || true)
  if ((${#known[@]} > 0)); then
    plan=$(LC_ALL=C apt-get install --assume-no --no-install-recommends "${known[@]}" 2>&1 || true)
    echo "$plan" >>"$packages_log"
    echo "packages: installing $(plan_in_words <<<"$plan"); names and apt's output: $packages_log" >&2
    if ! "${as_root[@]}" apt-get install -y -q --no-install-recommends -o APT::Status-Fd=1 "${known[@]}" 2>&1 </dev/null |
      show_apt_progress; then
      echo "packages: apt-get failed; the end of $packages_log:" >&2
      tail -n 15 "$packages_log" >&2
      return 1
    fi
    echo "packages: installed in $((SECONDS - begin)) s" >&2
  fi
  if ((${#unknown[@]} > 0)); then
    echo "packages: apt knows none of the name ${unknown[*]}" >&2
    return 1
  fi
}

# Turns what apt-get says that it would do into "37 (212 MB to download, 890 MB on disk)".
plan_in_words() {
  sed -nE 's/^([0-9]+ upgraded, )?([0-9]+) newly installed.*/\2/p
    s/^Need to get ([^/]*\/)?(.*) of archives\.$/(\2 to download/p
    s/^After this operation, (.*) of additional disk space will be used\.$/\1 on disk)/p' |
    paste -sd ' ' | sed 's/download /download, /'
}

# Writes apt's messages to the log; on a terminal it also shows the progress in one line.
show_apt_progress() {
  local line kind percent text
  while IFS= read -r line; do
    case $line in
      dlstatus:* | pmstatus:*)
        if [[ -t 2 ]]; then
          IFS=: read -r kind _ percent text <<<"$line"
          printf '\r%-79.79s' "$([[ $kind == dlstatus ]] && echo download || echo install) ${percent%.*} %: $text" >&2
        fi ;;
      *) echo "$line" >>"$packages_log" ;;
    esac
  done
  if [[ -t 2 ]]; then printf '\r%-79s\r' "" >&2; fi
}
