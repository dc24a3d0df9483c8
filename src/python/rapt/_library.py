"""The C interface of rapt.h by ctypes: the library, its structs, and statuses as ValueError."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import c_double, c_float, c_int, c_int64, c_size_t, c_ssize_t, c_uint32, c_void_p
from pathlib import Path
from typing import NamedTuple, TypeVar

REPEAT = -(1 << (8 * ctypes.sizeof(c_ssize_t) - 1))  # RAPT_REPEAT

# rapt_type
F32, F64, F16, BF16, I8, I4, U4 = 1, 2, 3, 4, 5, 6, 7
F8_E4M3, F8_E5M2, U8 = 22, 23, 24


class Blocks(NamedTuple):
    """A rapt_type of weights in blocks of a file."""

    number: int
    inputs: int
    bytes: int
    group: int  # inputs that share a scale


BLOCKS = {
    "Q8_0": Blocks(8, 32, 34, 32),
    "Q4_0": Blocks(9, 32, 18, 32),
    "Q4_1": Blocks(10, 32, 20, 32),
    "Q5_0": Blocks(11, 32, 22, 32),
    "Q5_1": Blocks(12, 32, 24, 32),
    "Q4_K": Blocks(13, 256, 144, 32),
    "Q5_K": Blocks(14, 256, 176, 32),
    "Q6_K": Blocks(15, 256, 210, 16),
    "Q2_K": Blocks(16, 256, 84, 16),
    "Q3_K": Blocks(17, 256, 110, 16),
    "IQ4_NL": Blocks(18, 32, 18, 32),
    "IQ4_XS": Blocks(19, 256, 136, 32),
    "MXFP4": Blocks(20, 32, 17, 32),
    "NVFP4": Blocks(21, 64, 36, 16),
}

CAUSAL = {"bottom_right": 1, "top_left": 2, "offset": 3}
# rapt_word_format
WORDS_GPTQ, WORDS_GPTQ_V2, WORDS_AWQ = 0, 1, 2
WORDS_GPTQ_2BIT, WORDS_GPTQ_V2_2BIT, WORDS_GPTQ_3BIT, WORDS_GPTQ_V2_3BIT = 3, 4, 5, 6
ACTIVATION = {"silu": 0, "gelu": 1, "gelu_tanh": 2}
MAX_DIMS = 8  # RAPT_MAX_DIMS
MAX_BATCH_DIMS = 6  # RAPT_MAX_BATCH_DIMS


class Map(NamedTuple):
    """A function of rapt_map."""

    number: int
    inputs: int
    parameters: int = 0


# The enumerators of rapt_map_function, in its order.
_UNARY = (
    "sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan tanh erf sigmoid log_sigmoid softplus silu gelu"
)
_UNARY += " gelu_tanh mish elu hard_sigmoid hard_swish clamp"
_OTHERS = (
    "add subtract multiply divide add_scaled pow atan2 fma addcmul addcdiv lerp lerp_at erf_backward sigmoid_backward"
)
_OTHERS += " tanh_backward log_sigmoid_backward softplus_backward silu_backward gelu_backward gelu_tanh_backward"
_OTHERS += " mish_backward elu_backward hard_sigmoid_backward hard_swish_backward clamp_backward"
_PARAMETERS = {"softplus": 2, "elu": 3, "clamp": 2, "add_scaled": 1, "addcmul": 1, "addcdiv": 1, "lerp_at": 1}
_PARAMETERS |= {f"{name}_backward": _PARAMETERS[name] for name in ("softplus", "elu", "clamp")}
_INPUTS = dict.fromkeys(_UNARY.split(), 1) | dict.fromkeys(_OTHERS.split(), 2)
_INPUTS |= dict.fromkeys(("fma", "addcmul", "addcdiv", "lerp"), 3)
MAP = {name: Map(number, inputs, _PARAMETERS.get(name, 0)) for number, (name, inputs) in enumerate(_INPUTS.items(), 1)}
ROPE_TYPES = {None: 0, "default": 0, "linear": 1, "llama3": 2, "yarn": 3}
# rapt_reduction
REDUCTION = {
    "sum": 1, "mean": 2, "var": 3, "norm_1": 4, "norm_2": 5, "norm_inf": 6, "prod": 7, "min": 8, "max": 9, "argmin": 10,
    "argmax": 11,
}  # fmt: skip
# rapt_metric_kind
METRIC = {"dot": 0, "cosine": 1, "l2_squared": 2, "dot_distance": 3, "cosine_distance": 4}
ARITHMETIC = {None: 0, "default": 0, "f32": 1, "bf16": 2, "i8": 3}


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_ssize_t), ("head", c_ssize_t), ("token", c_ssize_t)]


class MatrixStrides(ctypes.Structure):
    _fields_ = [("row", c_ssize_t), ("column", c_ssize_t)]


Options = TypeVar("Options", bound="_Options")


class _Options(ctypes.Structure):
    """A struct of options whose `size` is set."""

    def __init__(self, **fields: object) -> None:
        super().__init__(ctypes.sizeof(type(self)), **fields)

    def changed(self: Options, **fields: object) -> Options:
        """A copy with other numbers in these fields."""
        copy = type(self).from_buffer_copy(self)
        for name, value in fields.items():
            setattr(copy, name, value)
        return copy


class SoftmaxOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("scale", c_double),
        ("softcap", c_double),
        ("bias", c_void_p),
        ("bias_stride", c_ssize_t),
        ("mask", c_void_p),
        ("mask_stride", c_ssize_t),
        ("row_lengths", c_void_p),
        ("causal", c_int),
        ("causal_offset", c_ssize_t),
        ("sinks", c_void_p),
        ("empty_rows_are_zero", c_int),
    ]


class MapOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("function", c_int),
        ("type", c_int),
        ("dims", c_size_t),
        ("shape", c_size_t * MAX_DIMS),
        ("x_strides", c_ssize_t * MAX_DIMS),
        ("y_strides", c_ssize_t * MAX_DIMS),
        ("z_strides", c_ssize_t * MAX_DIMS),
        ("out_strides", c_ssize_t * MAX_DIMS),
        ("alpha", c_double),
        ("beta", c_double),
        ("gamma", c_double),
    ]


class GatedOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("activation", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("gate_stride", c_ssize_t),
        ("up_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
    ]


class AttentionOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("q_type", c_int),
        ("kv_type", c_int),
        ("out_type", c_int),
        ("arithmetic", c_int),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("scale_group", c_size_t),
        ("batch", c_size_t),
        ("q_heads", c_size_t),
        ("kv_heads", c_size_t),
        ("q_len", c_size_t),
        ("kv_len", c_size_t),
        ("qk_dim", c_size_t),
        ("v_dim", c_size_t),
        ("q_strides", Strides),
        ("k_strides", Strides),
        ("v_strides", Strides),
        ("out_strides", Strides),
        ("scale", c_double),
        ("query_scales", c_void_p),
        ("query_scale_strides", Strides),
        ("softcap", c_double),
        ("alibi_slopes", c_void_p),
        ("bias", c_void_p),
        ("bias_strides", Strides),
        ("sinks", c_void_p),
        ("causal", c_int),
        ("causal_offset", c_ssize_t),
        ("window_left", c_size_t),
        ("window_right", c_size_t),
        ("window_chunk", c_size_t),
        ("mask", c_void_p),
        ("mask_strides", Strides),
        ("kv_lengths", c_void_p),
        ("q_offsets", c_void_p),
        ("kv_offsets", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_size_t),
        ("page_size", c_size_t),
        ("packed_keys", c_int),
        ("lse", c_void_p),
        ("lse_strides", Strides),
        ("kv_starts", c_void_p),
        ("q_starts", c_void_p),
        ("key_lists", c_void_p),
        ("key_list_strides", Strides),
        ("queries_per_list", c_size_t),
        ("key_list_lengths", c_void_p),
        ("key_list_length_strides", Strides),
        ("cache_len", c_size_t),
        ("v_type", c_int),
        ("bias_type", c_int),
        ("bias_slopes", c_void_p),
    ]


class AttentionGradients(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("out", c_void_p),
        ("dout", c_void_p),
        ("dq", c_void_p),
        ("dk", c_void_p),
        ("dv", c_void_p),
        ("dout_strides", Strides),
        ("dq_strides", Strides),
        ("dk_strides", Strides),
        ("dv_strides", Strides),
        ("dbias", c_void_p),
        ("dsinks", c_void_p),
        ("type", c_int),
    ]


class LinearOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("x_type", c_int),
        ("w_type", c_int),
        ("y_type", c_int),
        ("arithmetic", c_int),
        ("rows", c_size_t),
        ("in_features", c_size_t),
        ("out_features", c_size_t),
        ("x_strides", MatrixStrides),
        ("w_strides", MatrixStrides),
        ("y_stride", c_ssize_t),
        ("packed_w", c_int),
        ("bias", c_void_p),
        ("row_scales", c_void_p),
        ("add", c_void_p),
        ("add_type", c_int),
        ("add_stride", c_ssize_t),
        ("x_rows", c_void_p),
        ("y_rows", c_void_p),
        ("scale_group", c_size_t),
        ("w_scales", c_void_p),
        ("w_zeros", c_void_p),
        ("w_offsets", c_void_p),
        ("w_scale_type", c_int),
        ("w_codebook", c_void_p),
        ("x_group", c_size_t),
        ("x_scales", c_void_p),
        ("outputs_per_scale", c_size_t),
        ("output_scales", c_void_p),
    ]


class ExpertOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("experts", c_size_t),
        ("offsets", c_void_p),
        ("w_stride", c_ssize_t),
        ("bias_stride", c_ssize_t),
    ]


class LinearBatchOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("dims", c_size_t),
        ("shape", c_size_t * MAX_BATCH_DIMS),
        ("x_strides", c_ssize_t * MAX_BATCH_DIMS),
        ("w_strides", c_ssize_t * MAX_BATCH_DIMS),
        ("y_strides", c_ssize_t * MAX_BATCH_DIMS),
        ("add_strides", c_ssize_t * MAX_BATCH_DIMS),
        ("bias_strides", c_ssize_t * MAX_BATCH_DIMS),
    ]


class EmbeddingBagOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("operation", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("bags", c_size_t),
        ("w_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("offsets", c_void_p),
        ("weights", c_void_p),
    ]


class ExpertSumOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("tokens", c_size_t),
        ("top_k", c_size_t),
        ("cols", c_size_t),
        ("x_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("weights", c_void_p),
        ("weights_stride", c_ssize_t),
        ("add", c_void_p),
        ("add_stride", c_ssize_t),
    ]


class RopeOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("layout", c_int),
        ("batch", c_size_t),
        ("heads", c_size_t),
        ("tokens", c_size_t),
        ("head_dim", c_size_t),
        ("rotary_dim", c_size_t),
        ("x_strides", Strides),
        ("y_strides", Strides),
        ("frequencies", c_void_p),
        ("positions", c_void_p),
        ("positions_stride", c_ssize_t),
        ("first_position", c_int64),
        ("attention_factor", c_double),
        ("backward", c_int),
    ]


class RopeFrequencyOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("rotary_dim", c_size_t),
        ("base", c_double),
        ("scaling", c_int),
        ("factor", c_double),
        ("original_max_position_embeddings", c_size_t),
        ("low_freq_factor", c_double),
        ("high_freq_factor", c_double),
        ("beta_fast", c_double),
        ("beta_slow", c_double),
        ("no_truncate", c_int),
        ("mscale", c_double),
        ("mscale_all_dim", c_double),
    ]


class NormOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("weight_plus_one", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("x_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("eps", c_double),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("residual", c_void_p),
        ("residual_stride", c_ssize_t),
        ("rstd", c_void_p),
        ("mean", c_void_p),
        ("mean_rest", c_void_p),
    ]


class ReduceOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("operation", c_int),
        ("type", c_int),
        ("out_type", c_int),
        ("reduced", c_uint32),
        ("dims", c_size_t),
        ("shape", c_size_t * 8),
        ("x_strides", c_ssize_t * 8),
        ("out_strides", c_ssize_t * 8),
        ("correction", c_double),
        ("mean", c_void_p),
    ]


class ScanOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("operation", c_int),
        ("type", c_int),
        ("axis", c_size_t),
        ("dims", c_size_t),
        ("shape", c_size_t * 8),
        ("x_strides", c_ssize_t * 8),
        ("out_strides", c_ssize_t * 8),
    ]


class CrossEntropyOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("rows", c_size_t),
        ("classes", c_size_t),
        ("x_stride", c_ssize_t),
        ("dx_stride", c_ssize_t),
        ("target", c_void_p),
        ("ignore_index", c_int64),
        ("label_smoothing", c_double),
        ("weight", c_void_p),
        ("lse", c_void_p),
        ("dout", c_void_p),
        ("scale", c_double),
    ]


class IndexAddOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("out_rows", c_size_t),
        ("x_stride", c_ssize_t),
        ("out_stride", c_ssize_t),
        ("indices", c_void_p),
    ]


class TriangularSolveOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("upper", c_int),
        ("unit_diagonal", c_int),
        ("batch", c_size_t),
        ("n", c_size_t),
        ("cols", c_size_t),
        ("a_stride", c_ssize_t),
        ("b_stride", c_ssize_t),
        ("x_stride", c_ssize_t),
        ("a_batch_stride", c_ssize_t),
        ("b_batch_stride", c_ssize_t),
        ("x_batch_stride", c_ssize_t),
    ]


class CausalConvolutionOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("silu", c_int),
        ("batch", c_size_t),
        ("tokens", c_size_t),
        ("channels", c_size_t),
        ("taps", c_size_t),
        ("x_stride", c_ssize_t),
        ("x_batch_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("y_batch_stride", c_ssize_t),
        ("state_stride", c_ssize_t),
        ("w_strides", c_ssize_t * 2),
        ("bias", c_void_p),
    ]


class StateStrides(ctypes.Structure):
    _fields_ = [("batch", c_ssize_t), ("head", c_ssize_t), ("key", c_ssize_t), ("value", c_ssize_t)]


class DeltaRuleOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("gate_type", c_int),
        ("batch", c_size_t),
        ("tokens", c_size_t),
        ("q_heads", c_size_t),
        ("k_heads", c_size_t),
        ("v_heads", c_size_t),
        ("key_dim", c_size_t),
        ("value_dim", c_size_t),
        ("interleaved_heads", c_int),
        ("q_strides", Strides),
        ("k_strides", Strides),
        ("v_strides", Strides),
        ("out_strides", Strides),
        ("scale", c_double),
        ("l2_norm", c_int),
        ("eps", c_double),
        ("g", c_void_p),
        ("g_strides", Strides),
        ("decay_per_key", c_int),
        ("beta", c_void_p),
        ("beta_strides", Strides),
        ("offsets", c_void_p),
        ("state", c_void_p),
        ("state_strides", StateStrides),
        ("final_state", c_void_p),
        ("final_strides", StateStrides),
        ("state_window", c_size_t),
        ("window_stride", c_ssize_t),
    ]


class DeltaRuleGradients(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("dout", c_void_p),
        ("dq", c_void_p),
        ("dk", c_void_p),
        ("dv", c_void_p),
        ("dout_strides", Strides),
        ("dq_strides", Strides),
        ("dk_strides", Strides),
        ("dv_strides", Strides),
        ("dg", c_void_p),
        ("dg_strides", Strides),
        ("dbeta", c_void_p),
        ("dbeta_strides", Strides),
        ("dfinal", c_void_p),
        ("dfinal_strides", StateStrides),
        ("dstate", c_void_p),
        ("dstate_strides", StateStrides),
    ]


class SearchOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("metric", c_int),
        ("type", c_int),
        ("queries", c_size_t),
        ("rows", c_size_t),
        ("dim", c_size_t),
        ("k", c_size_t),
        ("q_stride", c_ssize_t),
        ("x_stride", c_ssize_t),
        ("out_stride", c_ssize_t),
    ]


class MeanPoolOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("batch", c_size_t),
        ("tokens", c_size_t),
        ("dim", c_size_t),
        ("x_stride", c_ssize_t),
        ("batch_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("mask", c_void_p),
        ("row_lengths", c_void_p),
    ]


class NormalizeOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("x_stride", c_ssize_t),
        ("y_stride", c_ssize_t),
        ("eps", c_double),
    ]


class ConvolutionOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("result", c_int),
        ("dims", c_size_t),
        ("batch", c_size_t),
        ("in_channels", c_size_t),
        ("out_channels", c_size_t),
        ("groups", c_size_t),
        ("in_size", c_size_t * 3),
        ("taps", c_size_t * 3),
        ("stride", c_size_t * 3),
        ("dilation", c_size_t * 3),
        ("pad_before", c_size_t * 3),
        ("pad_after", c_size_t * 3),
        ("x_strides", c_ssize_t * 5),
        ("y_strides", c_ssize_t * 5),
        ("packed_w", c_int),
        ("w_type", c_int),
        ("arithmetic", c_int),
        ("bias", c_void_p),
        ("scale_group", c_size_t),
        ("x_group", c_size_t),
    ]


class NormBackwardOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("weight_plus_one", c_int),
        ("rows", c_size_t),
        ("cols", c_size_t),
        ("x_stride", c_ssize_t),
        ("dy_stride", c_ssize_t),
        ("dx_stride", c_ssize_t),
        ("eps", c_double),
        ("weight", c_void_p),
        ("dweight", c_void_p),
        ("dbias", c_void_p),
        ("accumulate", c_int),
        ("rstd", c_void_p),
        ("mean", c_void_p),
        ("mean_rest", c_void_p),
        ("workspace", c_void_p),
        ("workspace_size", c_size_t),
    ]


class AdamwOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("grad_type", c_int),
        ("count", c_size_t),
        ("step", c_size_t),
        ("lr", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("eps", c_double),
        ("weight_decay", c_double),
        ("decay_in_gradient", c_int),
        ("maximize", c_int),
    ]


class SgdOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("grad_type", c_int),
        ("count", c_size_t),
        ("lr", c_double),
        ("momentum", c_double),
        ("dampening", c_double),
        ("weight_decay", c_double),
        ("nesterov", c_int),
        ("first_step", c_int),
        ("maximize", c_int),
    ]


class RandomOptions(_Options):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("type", c_int),
        ("seed", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("count", c_size_t),
        ("probability", c_double),
    ]


def library_in(folder: Path, platform: str) -> Path | None:
    """The library of a platform that sys.platform names. The library of mingw-w64 is called librapt.dll."""
    patterns = {"win32": ["rapt.dll", "librapt.dll"], "darwin": ["librapt*.dylib"]}.get(platform, ["librapt.so*"])
    return next((file for pattern in patterns for file in sorted(folder.glob(pattern))), None)


def _load() -> ctypes.CDLL:
    """RAPT_LIBRARY names another build of the library; the wheel holds its own."""
    named = os.environ.get("RAPT_LIBRARY")
    own = library_in(Path(__file__).parent / "lib", sys.platform)
    if not named and not own:
        raise ImportError(
            "rapt's library is not next to the package: install a wheel (pip wheel .), or name one in RAPT_LIBRARY"
        )
    return ctypes.CDLL(named or str(own))


C = _load()  # CDLL releases the GIL during a call


def _declare(name: str, result: object, *arguments: object) -> None:
    function = getattr(C, f"rapt_{name}")
    function.restype = result
    function.argtypes = arguments


_TEXT = ctypes.c_char_p
_VECTOR_TYPES = {"f32": c_float, "f64": c_double, "f16": c_float, "bf16": c_float}

_declare("version", _TEXT)
_declare("bits_version", ctypes.c_uint)
_declare("status_text", _TEXT, c_int)
_declare("isa_count", c_size_t)
_declare("isa_name", _TEXT, c_size_t)
_declare("isa_usable", c_int, _TEXT)
_declare("isa_status", c_int)
_declare("active_isa", _TEXT)
_declare("force_isa", c_int, _TEXT)
_declare("kernel_isa", _TEXT, _TEXT)

for _type, _number in _VECTOR_TYPES.items():
    _declare(f"dot_{_type}", _number, c_void_p, c_void_p, c_size_t)
    _declare(f"dot_rows_{_type}", None, c_void_p, c_void_p, c_ssize_t, c_size_t, c_size_t, _number, c_void_p)
    _declare(f"scale_{_type}", None, c_void_p, _number, c_void_p, c_size_t)
    for _name in ACTIVATION:
        _declare(f"{_name}_{_type}", None, c_void_p, c_void_p, c_size_t)
        _declare(f"{_name}_backward_{_type}", None, c_void_p, c_void_p, c_void_p, c_size_t)
    for _name in ("softmax_backward", "log_softmax_backward"):
        _declare(
            f"{_name}_{_type}",
            c_int,
            c_void_p,
            c_ssize_t,
            c_void_p,
            c_ssize_t,
            c_void_p,
            c_ssize_t,
            c_size_t,
            c_size_t,
            _number,
        )
    _declare(f"argmax_{_type}", c_size_t, c_void_p, c_size_t)
    for _name in ("softmax", "log_softmax"):
        _declare(
            f"{_name}_{_type}",
            c_int,
            c_void_p,
            c_ssize_t,
            c_void_p,
            c_ssize_t,
            c_size_t,
            c_size_t,
            ctypes.POINTER(SoftmaxOptions),
        )
for _type in ("i8", "u8i8"):
    _declare(f"dot_{_type}", c_int64, c_void_p, c_void_p, c_size_t)
    _declare(f"dot_rows_{_type}", None, c_void_p, c_void_p, c_ssize_t, c_size_t, c_size_t, c_float, c_void_p)
for _type in ("f32", "f64"):
    _number = _VECTOR_TYPES[_type]
    _declare(f"exp_{_type}", None, c_void_p, c_void_p, c_size_t)
    _declare(f"exp_sum_{_type}", _number, c_void_p, _number, _number, c_void_p, c_size_t)
    _declare(
        f"logsumexp_{_type}", c_int, c_void_p, c_ssize_t, c_void_p, c_size_t, c_size_t, ctypes.POINTER(SoftmaxOptions)
    )
for _type in ("f16_to_f32", "bf16_to_f32", "f32_to_f16", "f32_to_bf16"):
    _declare(f"convert_{_type}", None, c_void_p, c_void_p, c_size_t)

_declare("map", c_int, c_void_p, c_void_p, c_void_p, c_void_p, ctypes.POINTER(MapOptions))

_GATED = ctypes.POINTER(GatedOptions)
_declare("gated", c_int, c_void_p, c_void_p, c_void_p, _GATED)
_declare("gated_backward", c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, _GATED)

_OPTIONS = ctypes.POINTER(AttentionOptions)
_GRADIENTS = ctypes.POINTER(AttentionGradients)
_SIZE = ctypes.POINTER(c_size_t)
_declare("attention", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _OPTIONS, c_void_p, c_size_t)
_declare("attention_workspace", c_int, _OPTIONS, _SIZE)
_declare("attention_tasks", c_int, _OPTIONS, _SIZE)
_declare(
    "attention_run", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _OPTIONS, c_size_t, c_size_t, c_void_p, c_size_t
)
_declare("attention_partial_tasks", c_int, _OPTIONS, _SIZE, _SIZE)
_declare(
    "attention_partial", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _OPTIONS, c_size_t, c_size_t, c_void_p, c_size_t
)
_declare("attention_merge", c_int, c_void_p, c_void_p, _OPTIONS, c_size_t, c_size_t, c_void_p, c_size_t)
_declare("attention_pack_keys", c_int, c_void_p, c_ssize_t, c_size_t, c_size_t, _OPTIONS, c_void_p)
_declare("attention_backward_workspace", c_int, _OPTIONS, _SIZE)
_declare("attention_backward_tasks", c_int, _OPTIONS, _GRADIENTS, _SIZE)
_declare("attention_backward", c_int, c_void_p, c_void_p, c_void_p, _OPTIONS, _GRADIENTS, c_void_p, c_size_t)
_declare(
    "attention_backward_run",
    c_int,
    c_void_p,
    c_void_p,
    c_void_p,
    _OPTIONS,
    _GRADIENTS,
    c_size_t,
    c_size_t,
    c_void_p,
    c_size_t,
)

_declare("rope", c_int, c_void_p, c_void_p, ctypes.POINTER(RopeOptions))
_declare("rope_frequencies", c_int, c_void_p, c_void_p, ctypes.POINTER(RopeFrequencyOptions))

_LINEAR = ctypes.POINTER(LinearOptions)
_declare("linear", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, c_void_p, c_size_t)
_declare("linear_workspace", c_int, _LINEAR, _SIZE)
_declare("linear_tasks", c_int, _LINEAR, _SIZE)
_declare("linear_run", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, c_size_t, c_size_t, c_void_p, c_size_t)
_declare("linear_packed_length", c_int, _LINEAR, _SIZE)
_declare("linear_pack", c_int, c_void_p, c_size_t, c_size_t, _LINEAR, c_void_p, c_size_t)
_declare(
    "linear_unpack",
    c_int,
    c_void_p,
    c_size_t,
    c_size_t,
    c_size_t,
    _LINEAR,
    c_void_p,
    c_void_p,
    c_void_p,
    c_void_p,
    c_void_p,
)
_declare("linear_packed_rows", c_int, c_void_p, c_size_t, c_void_p, c_size_t, _LINEAR, c_void_p, c_int, c_ssize_t)
_declare(
    "linear_pack_words", c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int, _LINEAR, c_void_p, c_size_t, c_void_p
)
_EXPERTS = ctypes.POINTER(ExpertOptions)
_declare("linear_experts", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, _EXPERTS, c_void_p, c_size_t)
_declare("linear_experts_workspace", c_int, _LINEAR, _SIZE)
_declare("linear_experts_tasks", c_int, _LINEAR, _EXPERTS, _SIZE)
_declare(
    "linear_experts_run", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, _EXPERTS, c_size_t, c_size_t, c_void_p, c_size_t
)
_BATCH = ctypes.POINTER(LinearBatchOptions)
_declare("linear_batch", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, _BATCH, c_void_p, c_size_t)
_declare("linear_batch_workspace", c_int, _LINEAR, _BATCH, _SIZE)
_declare("linear_batch_tasks", c_int, _LINEAR, _BATCH, _SIZE)
_declare(
    "linear_batch_run", c_int, c_void_p, c_void_p, c_void_p, _LINEAR, _BATCH, c_size_t, c_size_t, c_void_p, c_size_t
)
_declare("embedding_bag", c_int, c_void_p, c_void_p, c_void_p, c_void_p, ctypes.POINTER(EmbeddingBagOptions))
_declare("expert_lists", c_int, c_void_p, c_ssize_t, c_size_t, c_size_t, c_size_t, c_void_p, c_void_p, c_void_p)
_declare("expert_sum", c_int, c_void_p, c_void_p, ctypes.POINTER(ExpertSumOptions))
_declare("reduce", c_int, c_void_p, c_void_p, ctypes.POINTER(ReduceOptions))
_declare("scan", c_int, c_void_p, c_void_p, ctypes.POINTER(ScanOptions))
_declare("cross_entropy", c_int, c_void_p, c_void_p, ctypes.POINTER(CrossEntropyOptions))
_declare("cross_entropy_backward", c_int, c_void_p, c_void_p, ctypes.POINTER(CrossEntropyOptions))
_declare("index_add", c_int, c_void_p, c_void_p, ctypes.POINTER(IndexAddOptions))
_declare("triangular_solve", c_int, c_void_p, c_void_p, c_void_p, ctypes.POINTER(TriangularSolveOptions))
_declare("causal_convolution", c_int, c_void_p, c_void_p, c_void_p, c_void_p, ctypes.POINTER(CausalConvolutionOptions))
_DELTA_RULE = ctypes.POINTER(DeltaRuleOptions)
_declare("delta_rule", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _DELTA_RULE, c_void_p, c_size_t)
_declare("delta_rule_workspace", c_int, _DELTA_RULE, _SIZE)
_declare("delta_rule_tasks", c_int, _DELTA_RULE, _SIZE)
_declare(
    "delta_rule_run", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _DELTA_RULE, c_size_t, c_size_t, c_void_p, c_size_t
)
_DELTA_GRADIENTS = ctypes.POINTER(DeltaRuleGradients)
_declare("delta_rule_backward_workspace", c_int, _DELTA_RULE, _SIZE)
_declare("delta_rule_backward_tasks", c_int, _DELTA_RULE, _SIZE)
_declare("delta_rule_backward", c_int, c_void_p, c_void_p, c_void_p, _DELTA_RULE, _DELTA_GRADIENTS, c_void_p, c_size_t)
_declare(
    "delta_rule_backward_run",
    c_int,
    c_void_p,
    c_void_p,
    c_void_p,
    _DELTA_RULE,
    _DELTA_GRADIENTS,
    c_size_t,
    c_size_t,
    c_void_p,
    c_size_t,
)
_SEARCH = ctypes.POINTER(SearchOptions)
_declare("metric", c_void_p, c_int, c_int)
_declare("metric_f64", c_void_p, c_int)
_declare("metric_rows", c_int, c_void_p, c_void_p, c_void_p, _SEARCH)
_declare("top_k", c_int, c_void_p, c_void_p, c_void_p, c_void_p, _SEARCH, c_void_p, c_size_t)
_declare("top_k_workspace", c_int, _SEARCH, _SIZE)
_declare("top_k_tasks", c_int, _SEARCH, _SIZE)
_declare("top_k_run", c_int, c_void_p, c_void_p, _SEARCH, c_size_t, c_size_t, c_void_p, c_size_t)
_declare("top_k_merge", c_int, c_void_p, c_void_p, _SEARCH, c_void_p, c_size_t)
_declare("mean_pool", c_int, c_void_p, c_void_p, ctypes.POINTER(MeanPoolOptions))
_declare("normalize", c_int, c_void_p, c_void_p, ctypes.POINTER(NormalizeOptions))
_CONVOLUTION = ctypes.POINTER(ConvolutionOptions)
_declare("convolution", c_int, c_void_p, c_void_p, c_void_p, _CONVOLUTION, c_void_p, c_size_t)
_declare("convolution_positions", c_int, _CONVOLUTION, c_void_p)
_declare("convolution_workspace", c_int, _CONVOLUTION, _SIZE)
_declare("convolution_tasks", c_int, _CONVOLUTION, _SIZE)
_declare("convolution_run", c_int, c_void_p, c_void_p, c_void_p, _CONVOLUTION, c_size_t, c_size_t, c_void_p, c_size_t)
_declare("quantize_rows", c_int, c_void_p, c_int, c_ssize_t, c_size_t, c_size_t, c_size_t, c_int, c_void_p, c_void_p)
_declare(
    "dequantize_rows",
    c_int,
    c_void_p,
    c_int,
    c_size_t,
    c_size_t,
    c_size_t,
    c_void_p,
    c_void_p,
    c_void_p,
    c_int,
    c_void_p,
    c_void_p,
    c_int,
    c_ssize_t,
)

for _name in ("rms_norm", "layer_norm"):
    _declare(_name, c_int, c_void_p, c_void_p, ctypes.POINTER(NormOptions))
    _declare(f"{_name}_backward", c_int, c_void_p, c_void_p, c_void_p, ctypes.POINTER(NormBackwardOptions))
_declare("norm_backward_workspace", c_int, ctypes.POINTER(NormBackwardOptions), _SIZE)
_declare("adamw_step", c_int, *5 * (c_void_p,), ctypes.POINTER(AdamwOptions))
_declare("sgd_step", c_int, *3 * (c_void_p,), ctypes.POINTER(SgdOptions))
_declare("random", c_int, c_void_p, ctypes.POINTER(RandomOptions))


def check(status: int) -> None:
    if status != 0:
        raise ValueError(C.rapt_status_text(status).decode())


def count(function: Callable[..., int], *arguments: object, check: Callable[[int], object] = check) -> int:
    """The number that a function of the library writes through its last argument."""
    number = c_size_t()
    check(function(*arguments, ctypes.byref(number)))
    return number.value
