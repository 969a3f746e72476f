--- Distributions, bijectors and Gaussian factors in files of tensors. pn.save takes them wherever it takes a tensor and
--- pn.load makes them again:
---
---     assert(pn.save("model.safetensors", { prior = d, flow = b, weights = w }))
---     local t = assert(pn.load("model.safetensors"))     -- t.prior, t.flow, t.weights
---
--- Their parameters are tensors under dotted names ("prior.loc", "flow.2.scale"); what they are stands in the file's
--- metadata, a line of text for each: "distribution normal; batch 3 2; independent 1; parts 0". Parameters come back as
--- plain tensors.
local core = require "penumbra.core"
local form = require "penumbra.form"

local pack = {}

local PREFIX = "penumbra.kind:"

local function type_of(x)
  local name = type(x) == "userdata" and getmetatable(x)
  return type(name) == "string" and name:match "^penumbra%.(%a+)$" or nil
end

-- ---- writing: for each type a list of parts, a table of tensors, and a text ----

local function write_distribution(d)
  local text = ("distribution %s; batch %s; independent %d"):format(d.name,
    table.concat(d.own_batch_shape, " "), d.independent_rank)
  return d.parts, d:arguments(), text
end

local function write_bijector(b)
  local tensors = {}
  for name, t in pairs(b:arguments()) do
    if type(name) == "string" then
      tensors[name] = t
    end
  end
  return b.parts, tensors, "bijector " .. b.name
end

local function write_natural(s)
  return {}, { precision_mean = s.precision_mean, precision = s.precision }, "natural " .. s.form
end

local writers = { distribution = write_distribution, bijector = write_bijector, natural = write_natural }

--- is(x): can x, which is no tensor, be saved where a tensor can?
function pack.is(x)
  return writers[type_of(x)] ~= nil
end

--- write(x, name, flat, texts): puts the tensors of x into `flat` under names that begin with `name` and a dot, and
--- into `texts` what x and its parts are.
function pack.write(x, name, flat, texts)
  local parts, tensors, text = writers[type_of(x)](x)
  for key, value in pairs(tensors) do
    flat[name .. "." .. key] = value
  end
  for i, part in ipairs(parts) do
    local own = ("%s.%d"):format(name, i)
    if core.is_tensor(part) then
      flat[own] = part
    else
      pack.write(part, own, flat, texts)
    end
  end
  texts[PREFIX .. name] = ("%s; parts %d"):format(text, #parts)
end

-- ---- reading ----

-- Constructors out of parts.
local composites = {
  transformed = function(parts) return core.new_transformed(parts[1], parts[2]) end,
  mixture = function(parts) return core.new_mixture(parts[1], table.move(parts, 2, #parts, 1, {})) end,
  masked = function(parts) return core.new_masked(parts[1], parts[2]) end,
}

local MOST_DEEP <const> = 1000 -- as in penumbra.parameters

local function whole(digits)
  return math.tointeger(tonumber(digits)) or error(("'%s' is no size"):format(digits), 0)
end

local function sizes(text)
  local list = {}
  for n in text:gmatch "%d+" do
    list[#list + 1] = whole(n)
  end
  return list
end

local function read_distribution(name, tensors, parts, text)
  local make = composites[name]
  local d = make and make(parts) or core.new_distribution(name, tensors)
  local batch, independent = text:match "; batch ([%d ]*); independent (%d+);"
  if not batch then
    error(("'%s' says nothing of its batch"):format(text), 0)
  end
  return d:expand(sizes(batch)):independent(whole(independent))
end

local function read_bijector(name, tensors, parts)
  return #parts > 0 and core.new_composed_bijector(name, parts) or core.new_bijector(name, tensors)
end

local function read_natural(kind, tensors)
  return core.new_natural(kind, tensors.precision_mean, tensors.precision)
end

local readers = { distribution = read_distribution, bijector = read_bijector, natural = read_natural }

--- cast(x, dtype): the distribution, bijector or factor x with parameters of that dtype; whole numbers stay so.
function pack.cast(x, dtype)
  local parts, tensors, text = writers[type_of(x)](x)
  local new_parts, new_tensors = {}, {}
  local function to(t)
    return t:dtype():find "^float" and t:to(dtype) or t
  end
  for i, part in ipairs(parts) do
    new_parts[i] = core.is_tensor(part) and to(part) or pack.cast(part, dtype)
  end
  for name, t in pairs(tensors) do
    new_tensors[name] = to(t)
  end
  local type_name, kind = text:match "^(%a+) ([%w_]+)"
  return readers[type_name](kind, new_tensors, new_parts, text .. ";")
end

-- The thing called `name`; its tensors leave `flat`.
local function read(name, flat, kinds, depth)
  local text = kinds[name]
  if depth > MOST_DEEP then
    error(("'%s' is nested more than %d deep"):format(name, MOST_DEEP), 0)
  elseif not text then
    error(("'%s' is described as having parts but is not there"):format(name), 0)
  end
  local type_name, kind, count = text:match "^(%a+) ([%w_]+).*; parts (%d+)$"
  if not readers[type_name] then
    error(("'%s' is described as '%s'"):format(name, text), 0)
  end
  local parts, tensors = {}, {}
  for i = 1, whole(count) do
    local own = ("%s.%d"):format(name, i)
    parts[i] = flat[own] or read(own, flat, kinds, depth + 1)
    flat[own] = nil
  end
  for key, t in pairs(flat) do
    local last = key:sub(1, #name + 1) == name .. "." and key:sub(#name + 2)
    if last and not last:find(".", 1, true) then
      tensors[last] = t
    end
  end
  for key in pairs(tensors) do
    flat[name .. "." .. key] = nil
  end
  return readers[type_name](kind, tensors, parts, text)
end

--- unfold(flat, texts): puts what `texts` describe into the table of tensors `flat` in place of their parameters and
--- takes the descriptions out of `texts`. Returns flat, or nil, message, code where a description does not fit.
function pack.unfold(flat, texts)
  local kinds, tops = {}, {}
  for key, text in pairs(texts) do
    if key:sub(1, #PREFIX) == PREFIX then
      kinds[key:sub(#PREFIX + 1)] = text
    end
  end
  for name in pairs(kinds) do
    texts[PREFIX .. name] = nil
    if not kinds[name:match "^(.*)%.%d+$"] then
      tops[#tops + 1] = name
    end
  end
  table.sort(tops)
  for _, name in ipairs(tops) do
    local made, message, code = form.guarded(("load: '%s' cannot be made"):format(name), read, name, flat, kinds, 1)
    if not made then
      return nil, message, code
    end
    flat[name] = made
  end
  return flat
end

return pack
