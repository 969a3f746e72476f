--- An example for each distribution, composite and bijector: lines that run where `pn` is penumbra. Arguments come from
--- the names and constraints of the row's parameters, so that a new row has one too.
-- help: nowhere
local pn = require "penumbra"
local describe = require "penumbra.distribution.describe"

local example = {}

local by_name = {
  df = "5", low = "-1", high = "2", total_count = "10", dimension = "3", num_steps = "4", temperature = "0.5",
  scale = "1", rate = "1", count = "3", values = "{1, 2, 4}", loc = "0", alpha = "3", scale_tril = "{{1, 0}, {0.5, 2}}",
  ["log_uniform.low"] = "0.1", ["log_uniform.high"] = "10", ["negative_binomial.total_count"] = "3",
  ["von_mises.concentration"] = "4", cov_factor = "{{1}, {0.5}}",
  ["matrix_normal.loc"] = "{{0, 1}}", ["matrix_normal.covariance_row"] = "{{2}}", cov_diag = "{1, 2}",
}

local by_constraint = {
  real = "0", positive = "2", unit_interval = "0.3", open_unit_interval = "0.3", nonnegative_integer = "3",
  simplex = "{0.2, 0.3, 0.5}", open_simplex = "{0.2, 0.3, 0.5}", positive_vector = "{2, 3, 1}", real_vector = "{0, 1}",
  positive_definite = "{{2, 0.5}, {0.5, 1}}", real_matrix = "{{0, 1}, {1, 0}}", lower_cholesky = "{{1, 0}, {0.5, 2}}",
  permutation = "{2, 0, 1}", nonzero = "2",
}

-- Values to ask the density at, by support; without one it is a draw.
local values = {
  real = "0.5", positive = "1.5", nonnegative = "1.5", unit_interval = "0.3", open_unit_interval = "0.3",
  nonnegative_integer = "2", boolean = "1", integer_interval = "1", trials = "3", angle = "0.5", interval = "0.5",
  half_line = "2", point = "0", atom = "2", simplex = "{0.2, 0.3, 0.5}", one_hot = "{0, 1, 0}",
  count_vector = "{2, 3, 5}",
  real_vector = "{0.5, 0.5}", mean_and_variance = "{0.5, 1.5}", gaussian_random_walk = "{0.1, 0.3, 0.2, 0.5}",
}

local function literal(row, p)
  local text = by_name[row.name .. "." .. p.name] or by_name[p.name]
  if text and (p.axes or "") ~= "" and not text:find "{" then text = nil end
  return text or by_constraint[p.constraint]
end

-- The parameters to show: those that must be given, or all; of alternatives the first. And whether they come first.
local function chosen(row)
  local needed, all, previous = {}, {}, nil
  for _, p in ipairs(row.parameters) do
    if not (p.choice and p.choice == previous) then
      all[#all + 1] = p
      if p.default == nil then needed[#needed + 1] = p end
    end
    previous = p.choice
  end
  local list = #needed > 0 and needed or all
  for i, p in ipairs(list) do
    if all[i] ~= p then return list, false end
  end
  return list, true
end

--- call(row): "pn.dist.gamma(2)" for the row of a distribution, or nil.
function example.call(row)
  local list, first = chosen(row)
  local texts, positional = {}, first and #list <= 3
  for _, p in ipairs(list) do positional = positional and p.axes ~= "nn" end
  for i, p in ipairs(list) do
    local text = literal(row, p)
    if not text then return nil end
    texts[i] = positional and text or p.name .. " = " .. text
  end
  local args = table.concat(texts, ", ")
  if positional and #texts == 1 and args:find "^{" then return ("pn.dist.%s%s"):format(row.name, args) end
  return (positional and "pn.dist.%s(%s)" or "pn.dist.%s{%s}"):format(row.name, args)
end

local composites = {
  mixture = { "pn.dist.mixture({0.3, 0.7}, {pn.dist.normal(-1, 0.4), pn.dist.gamma(4, 2)})", "0.5" },
  transformed = { "pn.dist.transformed(pn.dist.normal(0, 1), pn.dist.bijector.exp())", "1.5" },
  masked = { "pn.dist.masked(pn.dist.normal(0, {1, 1, 2}), pn.tensor{true, false, true})", "{0, 1, 2}" },
}

local bijectors = {
  chain = "{pn.dist.bijector.affine(0, 2), pn.dist.bijector.exp()}", inverse = "(pn.dist.bijector.exp())",
  affine = "(1, 2)", affine_tril = "({0, 1}, {{1, 0}, {0.5, 2}})", power = "(2)", permutation = "{2, 0, 1}",
  planar = "({1, 0.5}, {0.3, -0.2})",
}

local function value_of(expression)
  return assert(load("return " .. expression, "=example", "t", { pn = pn }))()
end

-- "-->  -1.1" for the value of an expression; "" if it is not short.
local function result(expression)
  local ok, value = pcall(value_of, expression)
  local text = ok and describe.value(value)
  return text and not text:find "float" and not text:find "nan" and #text < 40 and "  --> " .. text or ""
end

local function of_distribution(call, x, functions)
  local lines = { "d = " .. call }
  if x then
    local ask = ":log_prob" .. (x:find "^{" and x or "(" .. x .. ")")
    lines[2] = "d" .. ask .. result(call .. ask)
  else
    lines[2] = "d:log_prob(d:sample())"
  end
  local mean = functions.mean and result(call .. ":mean()") or ""
  if mean ~= "" then lines[#lines + 1] = "d:mean()" .. mean end
  lines[#lines + 1] = "d:sample{3}"
  return lines
end

local arguments = { affine_tril = "{0.5, -1}", planar = "{0.5, 1}", mean_and_variance = "{0.5, -1}", inverse = "(2)",
  mean_and_covariance = "{0.5, -1, 0, 0.5, 0.2}" }
local lengths = { "{0.5, -1, 2}", "{0.5, -1}", "{0.5, -1, 2, 1, 0.3}", "{0.5, -1, 2, 1}" } -- not all take any
local domains = { real = "(0.5)", positive = "(0.5)", real_vector = "{0.5, -1, 2}",
  lower_cholesky = "{{1, 0}, {0.5, 2}}" }

local function of_bijector(row)
  local random = #row.parameters > 4
  local call = random and ('pn.dist.bijector.random("%s", 3)'):format(row.name)
    or ("pn.dist.bijector.%s%s"):format(row.name, bijectors[row.name] or "()")
  local at = arguments[row.name] or domains[row.domain]
  local open = row.domain == "real_vector" and not arguments[row.name] and not random -- which would draw
  for i = 1, open and #lengths or 0 do
    at = lengths[i]
    if pcall(value_of, call .. at) then break end
  end
  local lines = { "b = " .. call, "b" .. at, "b:log_abs_det" .. at }
  for i = 2, random and 1 or 3 do lines[i] = lines[i] .. result((lines[i]:gsub("^b", call, 1))) end
  return lines
end

-- Idioms of operations.
local in_lua = "({3, 9, 4})[i:item() + 1]  -- Lua counts from 1"
local ops = {
  argmax = { "i = pn.tensor{3, 9, 4}:argmax()  --> 1, data counted from 0", in_lua },
  argmin = { "i = pn.tensor{3, 9, 4}:argmin()  --> 0, data counted from 0", in_lua },
  argsort = { "x = pn.tensor{3, 9, 4}", "x:take(1, x:argsort())  --> {3, 4, 9}: take counts from 0, too" },
}

local LONGEST = 73 -- of a line that stands in help

-- The example in one line, if there is one that tells a result and is short.
local function short(lines)
  local what = (lines or {})[1]
  local letter = what and what:match "^([db]) = "
  if not letter then return nil end
  local ask = lines[2] and lines[2]:find("-->", 1, true) and lines[2]:match("^" .. letter .. "(.*)$")
  local line = ask and what:sub(5) .. ask or what
  return #line <= LONGEST and line or #what <= LONGEST and what or nil
end

-- With `dist` for pn.dist where that makes lines short enough.
local function shortened(lines)
  local longest = 0
  for _, line in ipairs(lines) do longest = math.max(longest, #line) end
  if longest <= LONGEST then return lines end
  local out = { "dist = pn.dist" }
  for _, line in ipairs(lines) do
    line = line:gsub("pn%.dist%.", "dist.")
    local name, call, given = line:match "^(%l) = ([%w_.]+)(%b{})$"
    if #line > LONGEST and given and given:find "^{[%w_]+ = " then -- its arguments one by one
      out[#out + 1] = "p = {}"
      for key, at in given:gmatch "([%w_]+) = ()" do
        out[#out + 1] = ("p.%s = %s"):format(key, given:match("^%b{}", at) or given:match("^[^,}]+", at))
      end
      line = ("%s = %s(p)"):format(name, call)
    end
    out[#out + 1] = line
  end
  return out
end

local lines_of

--- lines(row): statements to type one after another, with what they give as comments; or nil. And one line that says
--- most.
function example.lines(row)
  if row.kind == "op" and ops[row.name] then return nil, table.concat(ops[row.name], "\n    ") end
  local lines = lines_of(row)
  return lines and shortened(lines), short(lines)
end

function lines_of(row)
  if row.kind == "distribution" then
    local call = example.call(row)
    return call and of_distribution(call, values[row.name] or values[row.support], row.functions)
  elseif row.kind == "composite" then
    local e = composites[row.name]
    return e and of_distribution(e[1], e[2], row.functions)
  elseif row.kind == "bijector" then
    return of_bijector(row)
  end
end

return example
