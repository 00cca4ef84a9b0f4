"""Functions of numpy that are sure to make arrays of the tensors they get, and so raise for one on CUDA.

Many others hand the work over to the tensor itself, or only index it: they give a tensor back, on its
device (`take_along_axis`, `squeeze`), or fail on the CPU as well (`numpy.mean(x)` calls `x.mean(out=None)`).
"""

from __future__ import annotations

_ANYWHERE = """
abs absolute add allclose append arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argpartition argsort argwhere around array asanyarray asarray asarray_chkfinite ascontiguousarray
asfortranarray atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_not bitwise_or
bitwise_xor cbrt ceil clip column_stack conj conjugate convolve copy copysign corrcoef correlate cos cosh
count_nonzero cov cross cumprod cumsum deg2rad degrees diag diagonal digitize divide dot dstack einsum equal
exp exp2 expand_dims expm1 fabs fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.irfft fft.rfft
flatnonzero fliplr flipud floor floor_divide fmax fmin fmod greater greater_equal histogram histogram2d
histogramdd hstack hypot inner intersect1d invert isclose isfinite isin isinf isnan kron less less_equal
linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.lstsq linalg.pinv
linalg.qr linalg.slogdet linalg.solve log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor matmul maximum median meshgrid minimum mod multiply nanargmax nanargmin nancumsum nanmax nanmean
nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar negative not_equal outer pad
partition percentile polyval power ptp quantile rad2deg radians ravel reciprocal remainder repeat
right_shift rint roll round searchsorted setdiff1d sign sin sinc sinh sort sqrt square stack subtract take
tan tanh tensordot testing.assert_allclose testing.assert_almost_equal testing.assert_array_almost_equal
testing.assert_array_equal testing.assert_array_less trace transpose true_divide trunc union1d unwrap vdot
vstack where
"""
_FIRST = """
angle gradient linalg.cond linalg.matrix_rank linalg.norm linalg.svd nan_to_num rot90 tile tril triu unique
"""
_LISTS = """
abs absolute all allclose amax amin angle any argmax argmin argsort argwhere around array asanyarray asarray
ascontiguousarray atleast_1d average ceil clip column_stack concatenate copy cos count_nonzero cumprod
cumsum dstack exp flip floor gradient histogram hstack isfinite isinf isnan linalg.norm log log10 log1p log2
max mean median min nan_to_num nanmax nanmean nanmedian nanmin nanstd nansum nanvar percentile prod ptp
quantile ravel real rint round sign sin sort sqrt square squeeze stack std sum tanh transpose unique var
vstack
"""
ANYWHERE = frozenset(_ANYWHERE.split())  # wherever the tensor stands among the arguments
FIRST = ANYWHERE | frozenset(_FIRST.split())  # as the first argument
LISTS = frozenset(_LISTS.split())  # of a list of tensors, as the first argument
# `numpy.save(file, x)`
SECOND = frozenset({"save", "savetxt"})


def converts(name: str, at: int, many: bool = False) -> bool:
    """Does a function of numpy surely make an array of its argument number `at`, of a list of tensors if `many`?"""
    name = name.removeprefix("numpy.")
    if at == 1 and name in SECOND:
        return True
    if many:
        return at == 0 and name in LISTS
    return name in (ANYWHERE if at else FIRST)
