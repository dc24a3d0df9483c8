"""The statuses of rapt.h that an argument from Python can cause."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    OVERLAP = 10
    SIZE = 11
    SCALE = 14
    SOFTCAP = 15
    HEADS = 25
    DIM = 26
    TYPE = 28
    ARITHMETIC = 29
    OUT_STRIDES = 34
    KV_LENGTHS = 41
    BLOCK_TABLE = 43
    PACKED_KEYS = 45
    WORKSPACE = 47
    PACKED = 65
    SCALE_GROUP = 66
    W_SCALES = 67
    W_ZEROS = 68
    W_CODEBOOK = 70
    X_GROUP = 72
