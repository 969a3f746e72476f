--- Likelihoods of pn.nn.likelihood for outputs f [S, N, out] of S draws of a network at N data: what a datum's outputs
--- say of its targets, and the derivatives in f.
--
-- A kind is {label =, is_function =, noisy =, noise =, kernel =, probabilities =, moments =, check =, value =, slope =,
-- curvature =}: label: targets are int64 [N]; noisy: normal, whose scale comes from elsewhere (o.noise_scale; `noise`:
-- what the likelihood itself says of it); kernel: its name for pn_gaussian_sites, or nil; probabilities(f), or mean and
-- variance of targets by moments(f): what predictions average, or nil; units(out) the number of targets. check(where,
-- y, n, out, o) gives prepared targets; value(y, f, o) [S, N]; slope(y, f, o) [S, N, out]; curvature(y, f, o) [S, N,
-- out, out], the matrix of second derivatives. o: {dtype =, noise_scale =}.
-- help: none
local core = require "penumbra.core"
local rows = require "penumbra.nn.likelihood"
local options = require "penumbra.options"

local likelihood = {}

local shape_text = options.shape_text

-- y as [N, out].
local function targets(where, y, n, out, dtype)
  local shape = y:shape()
  local flat = out == 1 and #shape == 1
  if shape[1] ~= n or not flat and (#shape ~= 2 or shape[2] ~= out) then
    core.error(("%s: y must have shape [%d, %d], got %s"):format(where, n, out, shape_text(y)))
  end
  y = y:detach():to(dtype)
  return flat and y:unsqueeze(2) or y
end

local function labels(where, l, y, n, out, dtype)
  if y:dtype() ~= "int64" or y:ndim() ~= 1 or y:size(1) ~= n then
    core.error(('%s: y must be classes, int64 of shape [%d], for likelihood "%s", got %s of shape %s'):format(where, n,
      l.name, y:dtype(), shape_text(y)))
  elseif n > 0 and not (y:min():item() >= 0 and y:max():item() < out) then
    core.error(("%s: y must be classes from 0 to %d, got %d to %d"):format(where, out - 1, y:min():item(),
      y:max():item()))
  end
  return l:prepared(y, dtype)
end

local function check_values(where, l, y)
  local of = l.row.targets
  if of == "binary" and (y * (1 - y)):abs():max():item() ~= 0 then
    core.error(('%s: y must be 0 or 1 for likelihood "%s"'):format(where, l.name))
  elseif of == "count" and not (y:min():item() >= 0 and (y - y:floor()):abs():max():item() == 0) then
    core.error(('%s: y must be whole numbers from 0 on for likelihood "%s"'):format(where, l.name))
  end
end

-- The likelihood where all of it is known, and a number where it is normal with this noise. Of the names "normal" waits
-- for the noise, "categorical" for the number of outputs.
local function completed(where, given)
  if given == "normal" or given == "categorical" then
    return nil
  end
  local l = rows.read(where, given)
  local p = l.parameters
  local noise = l.name == "normal" and l.closed and (p.scale or p.precision and p.precision ^ -0.5)
  if type(noise) == "number" then
    return nil, noise
  end
  return l
end

-- The number of targets of a datum with these outputs.
local function units_of(where, l, out)
  if l.row.targets == "label" or out % l.width ~= 0 then
    if out ~= l.width then
      core.error(("%s: likelihood %s takes %d outputs, the network has %d"):format(where, l.name, l.width, out))
    end
    return 1
  end
  return out // l.width
end

local function of_row(where, given)
  local always, noise = completed(where, given)
  local noisy = noise ~= nil or given == "normal"
  local label = given == "categorical" or always ~= nil and always.row.targets == "label"
  local last, scale, classes
  local function at(o, out)
    if always then
      return always
    elseif not last or scale ~= o.noise_scale or classes ~= out then
      last, scale, classes = noisy and rows.normal { scale = o.noise_scale } or rows.categorical { classes = out },
        o.noise_scale, out
    end
    return last
  end
  -- Outputs of each target.
  local function arranged(l, f)
    local shape = f:shape()
    return (label or not l.vector) and f or f:reshape { shape[1], shape[2], -1, l.width }
  end
  local row = not noisy and (always or rows.categorical { classes = 1 })
  local probabilities = row and row.closed and row.row.probabilities
  return {
    label = label, noisy = noisy, noise = noise, kernel = (noisy and "normal") or (given == "categorical" and given)
      or always ~= nil and always.closed and always.row.kernel and always.name or nil,
    probabilities = probabilities and function(f) return probabilities(f, row.parameters) end or nil,
    moments = always and not label and function(f)
      local law = always:law(arranged(always, f))
      return law:mean(), law:variance()
    end or nil,
    units = function(out) return always and units_of(where, always, out) or out end,
    check = function(from, y, n, out, o)
      if noisy and not (o.noise_scale and o.noise_scale > 0 and o.noise_scale < math.huge) then
        core.error(('%s: noise_scale must be a positive number for likelihood "normal", got %s'):format(from,
          tostring(o.noise_scale)))
      end
      local l = at(o, out)
      local units = units_of(from, l, out)
      if label then
        return labels(from, l, y, n, out, o.dtype)
      end
      y = targets(from, y, n, units, o.dtype)
      if n > 0 then
        check_values(from, l, y)
      end
      return y
    end,
    value = function(y, f, o)
      local l = at(o, f:size(-1))
      local value = l:value(y, arranged(l, f))
      return label and value or value:sum(3)
    end,
    slope = function(y, f, o)
      local l = at(o, f:size(-1))
      local slope = l:slope(y, arranged(l, f))
      return l.vector and not label and slope:reshape(f:shape()) or slope
    end,
    curvature = function(y, f, o)
      local l = at(o, f:size(-1))
      local c, how = l:curvature(y, arranged(l, f)), { dtype = f:dtype() }
      if label then
        return c
      elseif not l.vector then
        return c:unsqueeze(4) * core.eye(f:size(3), how)
      end
      local S, N, units, w = table.unpack(c:shape())
      local of_same = core.eye(units, how):reshape { units, 1, units, 1 }
      return (c:unsqueeze(5) * of_same):reshape { S, N, units * w, units * w }
    end,
  }
end

-- log p [S, N] of outputs under a function's distribution.
local function by_law(law, y, outputs)
  local value = law:log_prob(#law.batch_shape == 3 and y:ndim() == 1 and y:unsqueeze(2) or y)
  return value:ndim() == 3 and outputs:ndim() == 3 and value:sum(3) or value
end

-- A function (f, y) that gives [S, N], or of f that gives a distribution: slopes by automatic differentiation.
local function own(where, f)
  local function value(y, outputs)
    local v = f(outputs, y)
    if type(v) == "userdata" and not core.is_tensor(v) or type(v) == "table" and v.log_prob then
      v = by_law(v, y, outputs)
    end
    if not core.is_tensor(v) or v:ndim() ~= 2 or v:size(1) ~= outputs:size(1) or v:size(2) ~= outputs:size(2) then
      core.error(("%s: likelihood must give [%d, %d] for outputs %s, got %s"):format(where, outputs:size(1),
        outputs:size(2), shape_text(outputs), core.is_tensor(v) and shape_text(v) or type(v)))
    end
    return v
  end
  return {
    is_function = true,
    check = function(_, y, n)
      if y:ndim() == 0 or y:size(1) ~= n then
        core.error(("%s: y must have %d data along its first axis, got %s"):format(where, n, shape_text(y)))
      end
      return y
    end,
    value = value,
    slope = function(y, outputs)
      outputs = outputs:detach()
      outputs:requires_grad(true)
      return core.grad(value(y, outputs):sum(), { outputs })[1]:detach()
    end,
  }
end

--- kind(where, given): the likelihood by its name, made by pn.nn.likelihood, as a row, or a function.
function likelihood.kind(where, given)
  return type(given) == "function" and own(where, given) or of_row(where, given)
end

return likelihood
