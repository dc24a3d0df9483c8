"""The statuses of rapt.h that an argument from Python can cause."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    OVERLAP = 10
    SIZE = 11
    SCALE = 14
    SOFTCAP = 15
    ISA_NAME = 19
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
    Y_STRIDES = 79
    ROTARY_DIM = 81
    FREQUENCIES = 82
    ATTENTION_FACTOR = 84
    BASE = 85
    SCALING_FACTOR = 87
    ORIGINAL_LENGTH = 88
    FREQ_FACTORS = 89
    BETAS = 90
    TRUNCATE = 91
    MSCALE = 92
    EPS = 93
    WEIGHT = 94
    KV_STARTS = 115
    Q_STARTS = 116
    KEY_LISTS = 145
    KEY_LIST_LENGTHS = 147
    QUERIES_PER_LIST = 148
