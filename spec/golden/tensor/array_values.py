"""Values of operations on arrays by NumPy, SciPy and PyTorch; slopes are of the sum of squares. Writes array_values.lua
beside itself."""
import numpy as np
import scipy.special as sp
import torch
from pathlib import Path

rng = np.random.default_rng(1)
x = np.round(rng.normal(size=(4, 5)), 3)
y = rng.integers(0, 5, 4)
u = np.array([1e-12, 0.1, 0.5, 0.9, 1 - 1e-9])
t = torch.tensor(x, requires_grad=True)
loss = torch.nn.functional.cross_entropy(t, torch.tensor(y))
loss.backward()
h = torch.tensor(x, requires_grad=True)
hub = torch.nn.functional.huber_loss(h, torch.zeros_like(h), reduction="none", delta=0.7)
hub.sum().backward()


def number(v):
    if isinstance(v, float) and not np.isfinite(v):
        return "0/0" if np.isnan(v) else "math.huge" if v > 0 else "-math.huge"
    return str(v).lower() if isinstance(v, bool) else repr(v)


def lua(v):
    v = np.asarray(v)
    return number(v.item()) if v.ndim == 0 else "{" + ", ".join(lua(w) for w in v) + "}"


values = dict(
    x=x, y=y, u=u, quantile=np.quantile(x, 0.3, axis=0), median=np.median(x, axis=0), median2=np.median(x, axis=1),
    searchsorted=np.searchsorted([-1, 0, 0, 0.5], [[-2, 0], [0.25, 3]]), roll=np.roll(x, 2, axis=1),
    roll2=np.roll(x, -5, axis=0), repeat_interleave=np.repeat(x, 3, axis=1), tile=np.tile(x, (2, 1)),
    meshgrid=np.stack(np.meshgrid([1., 2], [3., 4, 5], indexing="ij")), one_hot=np.eye(5)[y],
    kron=np.kron(x[:2, :3], x[2:, :2]), logit=sp.logit(u),
    log2=np.log2(u), log10=np.log10(u), cross_entropy=loss.item(), cross_entropy_slope=t.grad.numpy(),
    huber=hub.detach().numpy(), huber_slope=h.grad.numpy())

# ---- order and counting ----
inf, nan = np.inf, np.nan
z = np.array([[0.5, 0, -2, 3], [1.5, 2, 0, 0], [-1, 0.25, 4, 2]])  # with zeros
holes = np.array([[1, nan, 2.5], [nan, nan, nan], [-1, 4, nan], [9, 0, 3]])
many = np.array([[3, 1, 3], [nan, 2, 1], [nan, -0.0, 0.0]])
whole = np.array([[5, -2, 5, 7], [-2, 0, 7, 7]])
classes = np.array([3, 0, 5, 3, 3, 1])
weights = np.array([0.5, 1, -2, 4, 0.25, 8])
sorted_row, wanted = np.array([-1, 0, 0, 0.5, 2, nan]), np.array([[-2, 0, 0.25], [nan, 2, 7]])
places, heights, at = np.array([-1, 0, 0.5, 3]), np.array([2.0, -1, 4, 4]), np.array([-3, -1, -0.25, 0.5, 1, 3, 4])
spread = np.array([0.1, 0.2, 0.3, 0.7, 0.99, 1.0, 0.0, 0.5, -4, 7])


def of_torch(f, *inputs):
    """The value of f and the gradient of its sum of squares in each input."""
    given = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in inputs]
    y = f(*given)
    y.square().sum().backward()
    return [y.detach().numpy()] + [v.grad.numpy() for v in given]


cumprod, cumprod_slope = of_torch(lambda v: torch.cumprod(v, 1), z)
lower = np.array([[-inf, -inf, 0.5, 2], [1, -inf, 700, 701], [-inf, -inf, -inf, -inf]])
logcumsumexp = torch.logcumsumexp(torch.tensor(lower), 1).numpy()
finite = np.array([[0.5, -3, 2, 1], [700, -700, 701, 0]])
_, logcumsumexp_slope = of_torch(lambda v: torch.logcumsumexp(v, 1), finite / 100)
cummax, cummax_at = torch.cummax(torch.tensor(np.vstack([z, [[1, 1, nan, 2]]])), 1)
cummin, cummin_at = torch.cummin(torch.tensor(z), 0)
_, cummax_slope = of_torch(lambda v: torch.cummax(v, 1)[0], z)
unique = np.unique(many, return_inverse=True, return_counts=True)
unique_whole = np.unique(whole, return_inverse=True, return_counts=True)
values |= dict(
    z=z, holes=holes, many=many, whole=whole, classes=classes, weights=weights, sorted_row=sorted_row, wanted=wanted,
    places=places, heights=heights, at=at, spread=spread, lower=lower, finite=finite,
    quantile_all=np.quantile(x, 0.3), quantile_list=np.quantile(x, [0, 0.25, 0.9], axis=1), quantile_whole=np.quantile(whole, 0.4),
    quantile_nan=np.quantile(holes, 0.5, axis=1), median_all=np.median(x), cumprod=cumprod, cumprod_slope=cumprod_slope,
    cumprod_whole=np.cumprod(whole, 0), logcumsumexp=logcumsumexp, logcumsumexp_slope=logcumsumexp_slope, cummax=cummax.numpy(),
    cummax_at=cummax_at.numpy(), cummin=cummin.numpy(), cummin_at=cummin_at.numpy(), cummax_slope=cummax_slope,
    diff=np.diff(x, n=2, axis=0), trapezoid=np.trapezoid(x, np.array([0, 0.5, 2, 3]), axis=0), trapezoid_step=np.trapezoid(x, dx=0.5),
    place_left=np.searchsorted(sorted_row, wanted), place_right=np.searchsorted(sorted_row, wanted, side="right"),
    whole_right=np.searchsorted([0, 2, 2, 5], whole, side="right"),
    interp=np.interp(at, places, heights), isin=np.isin(whole, [7, 0, 9]).astype(int), unique=unique[0],
    unique_inverse=unique[1].reshape(many.shape), unique_counts=unique[2], unique_whole=unique_whole[0],
    unique_whole_inverse=unique_whole[1].reshape(whole.shape), unique_whole_counts=unique_whole[2],
    bincount=np.bincount(classes), bincount_long=np.bincount(classes, weights, 8),
    histogram=np.histogram(spread, 5, (0, 1))[0], histogram_edges=np.histogram(spread, 5, (0, 1))[1],
    histogram_own=np.histogram(x)[0], histogram_own_edges=np.histogram(x)[1],
    histogram_list=np.histogram(spread, [-1, 0, 0.3, 5], weights=np.arange(10.0))[0],
    nansum=np.nansum(holes, 0), nanmean=np.array([np.nanmean(r) if not np.isnan(r).all() else nan for r in holes]))

# ---- shapes and elements ----
c = np.arange(24.0).reshape(2, 3, 4)
values |= dict(
    c=c, repeat_list=np.repeat(x, [2, 0, 1, 3], axis=0), tile_list=np.tile(c[0, 0], (2, 1, 3)), tile_last=np.tile(c, (2, 3)), moveaxis=np.moveaxis(c, 2, 0),
    chunk=[len(p) for p in np.array_split(np.arange(11), 4)], trunc=np.trunc(z), nan_to_num=np.nan_to_num(np.array([nan, inf, -inf, 2.5])),
    nan_to_num_own=np.nan_to_num(np.array([nan, inf, -inf, 2.5]), nan=-1, posinf=9, neginf=-9),
    isclose=np.isclose([1, 1, inf, inf, nan, 0], [1 + 1e-6, 1.1, inf, -inf, nan, 1e-9]).astype(int),
    isclose_nan=np.isclose([nan, inf], [nan, 1], equal_nan=True).astype(int),
    logaddexp_row=np.logaddexp.reduce(x, axis=1))

# ---- matrices ----
tall, wide = x[:, :3], x[:3]
low = np.outer(x[0], x[1]) + np.outer(x[2], x[3])  # [5, 5] of rank 2
batch = np.stack([tall, 2 * tall[::-1] + 0.1])
right = rng.normal(size=(4, 2))
L = np.linalg
pinv_slopes = [of_torch(torch.linalg.pinv, m)[1] for m in (tall, wide)]
_, lstsq_a, lstsq_b = of_torch(lambda a, b: torch.linalg.pinv(a) @ b, tall, right)
_, norm_slope = of_torch(lambda v: torch.linalg.vector_norm(v, 3, 1), z)
values |= dict(
    low=low, right=right, norm=L.norm(x), norm_rows=L.norm(x, axis=1), norm_1=L.norm(x, 1, axis=0), norm_3=L.norm(x[0], 3),
    norm_half=L.norm(x[0], 0.5), norm_inf=L.norm(x, inf, axis=1), norm_least=L.norm(x, -inf, axis=1), norm_0=L.norm(z, 0, axis=1),
    norm_minus=L.norm(x[0], -2), norm_slope=norm_slope, fro=L.norm(batch, "fro", axis=(1, 2)), nuc=L.norm(batch, "nuc", axis=(1, 2)),
    spectral=L.norm(batch, 2, axis=(1, 2)), least=L.norm(tall, -2), columns=L.norm(batch, 1, axis=(1, 2)),
    rows=L.norm(batch, inf, axis=(1, 2)), columns_least=L.norm(tall, -1), rows_least=L.norm(tall, -inf),
    diag_up=np.diag(x[0], 2), diag_down=np.diag(x, -1), trace=np.trace(batch, axis1=1, axis2=2), outer=np.outer(x[0], x[:, 0]),
    cross=np.cross(tall, tall[::-1]), cross_first=np.cross(x[:3], x[1:], axis=0), block_diag=[[1, 1, 0], [0, 0, 2]],
    matrix_power=L.matrix_power(x[:, :4], 5), matrix_power_minus=L.matrix_power(x[:, :4], -3), rank=[L.matrix_rank(tall), L.matrix_rank(low)],
    solve_right=right.T @ L.inv(x[:, :4]), pinv_tall=L.pinv(tall), pinv_wide=L.pinv(wide), pinv_low=L.pinv(low, rcond=1e-13),
    pinv_batch=L.pinv(batch), pinv_tall_slope=pinv_slopes[0], pinv_wide_slope=pinv_slopes[1],
    lstsq=L.lstsq(tall, right, rcond=None)[0], lstsq_one=L.lstsq(tall, right[:, 0], rcond=None)[0],
    lstsq_wide=L.lstsq(wide, right[:3], rcond=None)[0], lstsq_low=L.lstsq(low, x.T, rcond=1e-13)[0], lstsq_a=lstsq_a, lstsq_b=lstsq_b,
    cov=np.cov(x), cov_one=np.cov(x[0], ddof=0), corrcoef=np.corrcoef(x))
text = "-- By array_values.py.\nreturn {\n" + "".join(f"  {k} = {lua(v)},\n" for k, v in values.items()) + "}\n"
Path(__file__).with_suffix(".lua").write_text(text)
