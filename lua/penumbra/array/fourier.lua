--- What goes with discrete Fourier transforms (the operations fft, ifft, rfft, irfft): the frequencies of their
--- numbers, and convolutions by them.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local fourier = {}

local function length(where, n)
  if math.tointeger(n) == nil or n < 1 then
    core.error(("%s: n must be a whole number from 1, got %s"):format(where, tostring(n)))
  end
  return math.tointeger(n)
end

local function spacing_of(where, spacing)
  spacing = spacing == nil and 1 or options.argument(where, "spacing", spacing, "number")
  if not (spacing > 0 and spacing < math.huge) then
    core.error(("%s: spacing must be positive, got %s"):format(where, tostring(spacing)))
  end
  return spacing
end

--- fftfreq(n [, spacing = 1]): the frequencies of the n numbers that fft gives, in cycles per unit of the time between
--- neighbours, `spacing`: 0, 1, ... (n - 1) / 2, then the negative ones, each by n spacing; [n].
function fourier.fftfreq(n, spacing)
  n, spacing = length("fftfreq", n), spacing_of("fftfreq", spacing)
  local k = core.arange(n)
  return core.where(k:lt((n + 1) // 2), k, k - n):to(core.default_dtype()) / (n * spacing)
end

--- rfftfreq(n [, spacing = 1]): the frequencies of the n/2 + 1 numbers that rfft gives of n: [n/2 + 1].
function fourier.rfftfreq(n, spacing)
  n, spacing = length("rfftfreq", n), spacing_of("rfftfreq", spacing)
  return core.arange(n // 2 + 1):to(core.default_dtype()) / (n * spacing)
end

-- Products of complex numbers [..., 2].
local function product(a, b)
  local ar, ai, br, bi = a:select(-1, 1), a:select(-1, 2), b:select(-1, 1), b:select(-1, 2)
  return core.stack({ ar * br - ai * bi, ar * bi + ai * br }, -1)
end

--- fftconvolve(x, y [, axis = -1]): z_k = sum_j x_j y_(k - j) along axis, of n and m real numbers n + m - 1, by
--- transforms: n log n work instead of n m, with gradients in both. Other axes broadcast.
function fourier.fftconvolve(x, y, axis)
  options.argument("fftconvolve", "x", x, "tensor")
  options.argument("fftconvolve", "y", y, "tensor")
  axis = axis == nil and -1 or options.argument("fftconvolve", "axis", axis, "number")
  -- places from the end are the same in both, whatever the number of axes
  local back = axis > 0 and axis - math.max(x:ndim(), y:ndim()) - 1 or axis
  local n, m = x:size(back), y:size(back)
  local most = n + m - 1
  local full = most + most % 2
  local a = x:pad(back, 0, full - n):rfft(back)
  local b = y:pad(back, 0, full - m):rfft(back)
  return product(a, b):irfft(back - 1, full):slice(back, 1, most)
end

return fourier
