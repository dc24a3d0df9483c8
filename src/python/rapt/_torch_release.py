"""enable(pack="replace"): memory of weights that have been packed, given back where it is a mapped file."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

# Of Linux 5.4: pages leave memory, and are read again from the file. Changed ones stay, or go to swap.
_MADV_PAGEOUT = 21


def _is_in_mapped_file(begin: int, end: int) -> bool:
    """Whether the range lies in a private mapping of a file."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        fields = line.split(maxsplit=5)
        first, last = (int(address, 16) for address in fields[0].split("-"))
        if first <= begin and end <= last:
            return fields[1].endswith("p") and len(fields) == 6 and fields[5].startswith("/")
    return False


def release(address: int, length: int) -> bool:
    """Gives whole pages of the range back, whose numbers stay. False: it is no mapped file, and nothing happens."""
    page = mmap.PAGESIZE
    begin, end = -(-address // page) * page, (address + length) // page * page
    if begin >= end or not _is_in_mapped_file(begin, end):
        return False
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(madvise(begin, end - begin, _MADV_PAGEOUT) == 0)
