-- Fourier transforms of tensors: NumPy's values, Parseval's identity, adjoints, derivatives, batches, replays.
local pn = require "penumbra"
local case = require "spec.lua.array_case"
local refused = require("spec.helper").refuses

local g, float, same = dofile "spec/golden/tensor/fourier_values.lua", case.float, case.same

describe("Fourier transforms", function()
  it("have NumPy's values at any length, in both dtypes", function()
    for _, row in ipairs(g.lengths) do
      for dtype, tolerance in pairs { float64 = 1e-14, float32 = 3e-6 } do
        local z, x = float(row.z):to(dtype), float(row.x):to(dtype)
        same(z:fft(), row.fft, tolerance)
        same(z:ifft(), row.ifft, tolerance)
        same(x:rfft(), row.rfft, tolerance)
        same(z:slice(1, 1, row.n // 2 + 1):irfft(1, row.n), row.irfft, tolerance)
        same(float(row.rfft):to(dtype):irfft(-2, row.n), row.x, tolerance)
        assert.equal(dtype, x:rfft():irfft(-2, row.n):dtype())
      end
      same(pn.fftfreq(row.n, 0.25), row.fftfreq)
      same(pn.rfftfreq(row.n, 0.25), row.rfftfreq)
    end
  end)

  it("go along an axis, also of views and whole numbers", function()
    local x = float(g.x)
    local z = pn.stack({ x, x:zeros_like() }, -1)
    same(z:fft(2), g.fft)
    same(z:transpose(1, 3):fft(2):transpose(1, 3), g.fft)
    same(x:rfft(2), g.rfft)
    same(x:moveaxis(2, -1):rfft():moveaxis(-2, 2), g.rfft)
    same(x:rfft(2):irfft(2, 5), g.x)
    same(pn.tensor({ 1, 2, 3, 4 }, { dtype = "int64" }):rfft(), { { 10, 0 }, { -2, 2 }, { -2, 0 } })
    assert.same({ 0, 3, 2 }, pn.zeros { 0, 4 }:rfft():shape())
  end)

  it("keep the sum of squares (Parseval) and each other's inverse", function()
    for _, n in ipairs { 6, 35, 128, 1009 } do
      local z = pn.randn({ 3, n, 2 }, { generator = pn.generator(n) })
      same(z:fft():square():sum({ 2, 3 }) / n, z:square():sum { 2, 3 }, 1e-13)
      same(z:fft():ifft(), z, 1e-13)
      local x = z:select(3, 1)
      local half = x:rfft():square():sum(3)
      local twice = half:slice(2, 2, n // 2 + 1):sum(2) * 2 - (n % 2 == 0 and half:select(2, n // 2 + 1) or 0)
      same((half:select(2, 1) + twice) / n, x:square():sum(2), 1e-13)
      same(x:rfft():irfft(-2, n), x, 1e-13)
    end
  end)

  it("are differentiated twice, at even and odd lengths", function()
    local generator = pn.generator(3)
    for _, n in ipairs { 1, 2, 5, 6 } do
      local z = pn.randn({ 2, n, 2 }, { generator = generator })
      local x = pn.randn({ n, 2 }, { generator = generator })
      case.differentiates(function(v) return v:fft():tanh() end, z)
      case.differentiates(function(v) return v:ifft():tanh() end, z)
      case.differentiates(function(v) return v:rfft(1):tanh() end, x)
      case.differentiates(function(v) return v:irfft(-2, 2 * n - 1):tanh() end, z)
      if n > 1 then
        case.differentiates(function(v) return v:irfft():tanh() end, z)
      end
    end
  end)

  it("have adjoints: <F x, g> = <x, F' g>", function()
    local generator = pn.generator(4)
    for _, n in ipairs { 7, 8, 30 } do
      local x = pn.param(pn.randn({ n }, { generator = generator }))
      local h = pn.randn({ n // 2 + 1, 2 }, { generator = generator })
      local slope = pn.grad((x:rfft() * h):sum(), { x })[1]
      same((slope * x:detach()):sum(), (x:detach():rfft() * h):sum(), 1e-12)
    end
  end)

  it("are done for batches of examples and replayed", function()
    local z = pn.randn({ 4, 3, 6, 2 }, { generator = pn.generator(5) })
    same(pn.vmap(function(v) return v:fft(1) end)(z), z:fft(2))
    same(pn.vmap(function(v) return v:ifft() end)(z), z:ifft())
    same(pn.vmap(function(v) return v:rfft(2) end)(z), z:rfft(3))
    same(pn.vmap(function(v) return v:irfft(2, 11) end)(z), z:irfft(3, 11))
    case.replays(function(v) return v:fft() end, z)
    case.replays(function(v) return v:irfft() end, z)
  end)

  it("convolve", function()
    same(pn.fftconvolve(float(g.x), float(g.y):reshape { 1, 4, 1 }, 2), g.convolve, 1e-13)
    same(float { 1, 2 }:fftconvolve(float { 0, 1, 0.5 }), { 0, 1, 2.5, 1 }, 1e-14)
    local generator = pn.generator(6)
    case.differentiates(function(a, b) return pn.fftconvolve(a, b):tanh() end,
      pn.randn({ 2, 4 }, { generator = generator }), pn.randn({ 3 }, { generator = generator }))
  end)

  it("say what does not fit", function()
    local x, z = pn.ones { 3, 4 }, pn.ones { 3, 4, 2 }
    refused("fft: x must end in an axis of 2, real and imaginary part, got [3, 4]", pn.fft, x)
    refused("fft: axis must be before the last one", pn.fft, z, -1)
    refused("ifft: axis 2 must have at least one number", pn.ifft, pn.zeros { 3, 0, 2 })
    refused("rfft: axis 1 must have at least one number", pn.rfft, pn.zeros { 0 })
    refused("irfft: n must be 2 m - 2 or 2 m - 1 and above 0, m = 4 on axis 2, got 9", pn.irfft, z, 2, 9)
    refused("above 0, m = 1 on axis 1, got 0", pn.irfft, pn.ones { 1, 2 })
    refused("fftfreq: n must be a whole number from 1, got 0", pn.fftfreq, 0)
    for _, spacing in ipairs { -1, 0, math.huge } do
      refused("rfftfreq: spacing must be positive, got " .. tostring(spacing), pn.rfftfreq, 4, spacing)
    end
  end)
end)
