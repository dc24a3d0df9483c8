"""The operators of PyTorch that stay its own under rapt.torch.enable(), because their bits are the same everywhere."""

from __future__ import annotations

# Their arithmetic is a single operation of IEEE 754 at a time, in one order. tests/python/torch_exact.py has a call of
# each, whose bits it compares over PyTorch's instruction sets, numbers of threads, and places in an array. add and sub
# count with an alpha of 1.
ARITHMETIC = frozenset(
    """
    add sub rsub mul div floor_divide fmod remainder neg abs reciprocal square sign sgn frac floor ceil round
    trunc relu leaky_relu leaky_relu_backward hardtanh hardtanh_backward hardsigmoid hardsigmoid_backward hardswish
    hardswish_backward _prelu_kernel_backward hardshrink _prelu_kernel threshold threshold_backward where
    masked_fill maximum minimum fmax fmin clamp copysign nan_to_num heaviside copy amax aminmax argmax topk sort
    nll_loss_forward max_pool2d_with_indices upsample_nearest2d nll_loss2d_forward reflection_pad1d avg_pool2d avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d max_pool3d_with_indices reflection_pad2d replication_pad2d im2col
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
    _adaptive_avg_pool2d_backward adaptive_avg_pool3d_backward upsample_nearest2d_backward reflection_pad2d_backward
    replication_pad2d_backward col2im pixel_shuffle index_add scatter_add embedding_dense_backward rand bernoulli
    native_dropout hardshrink_backward softshrink_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward
    upsample_nearest1d_backward upsample_nearest3d_backward _upsample_nearest_exact1d_backward
    _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward reflection_pad1d_backward
    reflection_pad3d_backward replication_pad1d_backward replication_pad3d_backward
    """.split()
)

# They copy, choose, compare, count or make, or call other operators, which are met themselves.
MOVES = frozenset(
    """
    masked_scatter clamp_min clamp_max eq ne lt le gt ge equal isfinite isinf isnan isposinf isneginf signbit frexp
    bitwise_and bitwise_or bitwise_not bitwise_xor logical_and logical_or logical_not logical_xor all any argmin
    amin max min msort kthvalue histc bincount unique_dim _unique2 _copy_from clone _to_copy _local_scalar_dense
    contiguous detach alias resize set fill zero empty empty_like empty_strided new_empty new_empty_strided zeros
    zeros_like ones ones_like full full_like new_zeros new_ones new_full scalar_tensor lift lift_fresh arange eye
    tril triu tril_indices triu_indices cat stack view _unsafe_view _reshape_alias reshape reshape_as view_as t
    transpose permute expand unsqueeze squeeze split split_with_sizes unbind as_strided slice select diagonal narrow
    chunk unfold flatten movedim slice_backward select_backward unfold_backward diagonal_backward as_strided_scatter
    slice_scatter select_scatter repeat repeat_interleave flip roll constant_pad_nd rot90 masked_select
    count_nonzero isin searchsorted bucketize view_as_real view_as_complex complex conj_physical channel_shuffle
    pixel_unshuffle narrow_copy embedding index index_select gather take nonzero index_put index_fill index_copy
    scatter nll_loss_backward nll_loss2d_backward rand_like random randint randperm uniform
    multinomial native_dropout_backward _foreach _embedding_bag_backward _fused_sdp_choice is_same_size is_set_to
    _nested_tensor_size record_stream replication_pad1d replication_pad3d reflection_pad3d upsample_nearest1d
    median nanmedian mode _cummax_helper _cummin_helper put unique_consecutive unique_dim_consecutive _unique
    nonzero_static native_channel_shuffle gcd lcm nextafter adaptive_max_pool2d adaptive_max_pool3d max_unpool2d max_unpool3d
    bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __ilshift__ __irshift__ lu_unpack _assert_async
    _functional_assert_async
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    """.split()
)

EXACT = ARITHMETIC | MOVES
