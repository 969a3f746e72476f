--- Whole training runs in one file: networks, flows, optimisers, schedules, averages and generators as they are, beside
--- numbers, texts and tables. What is loaded goes on to the same bits.
---
---     assert(pn.checkpoint.save("run.safetensors", {net = net, optimiser = opt, generator = g, epoch = 3}))
---     local saved = assert(pn.checkpoint.load("run.safetensors", {net = net, optimiser = opt, generator = g}))
---     print(saved.epoch)
---
--- The file is a safetensors file (pn.load reads it too): other readers see the tensors under dotted names,
--- "net.1.weight", "optimiser.state.m.1.weight".
-- help: pn.checkpoint, part
local core = require "penumbra.core"
local form = require "penumbra.form"
local data = require "penumbra.data"
local kept = require "penumbra.optim.kept"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"

local checkpoint = {}

local KEY, VERSION = "penumbra.checkpoint", 1
local MOST_DEEP = 100

-- ---- what can be saved: its kind, its state, and the way back ----

local function join(path, key) return path == "" and tostring(key) or path .. "." .. tostring(key) end

-- The options of an optimiser that are numbers, by name.
local function options_of(opt)
  local out = {}
  for _, row in ipairs(core.optimiser_rows()) do
    for _, option in ipairs(row.name == opt:type() and row.options or {}) do
      out[option.name] = opt[option.name]
    end
  end
  return out
end

-- Of an optimiser; what a state or an option may be the optimiser looks at itself.
local optimiser_form = form.record { state = form.map(form.tensor {}), type = form.text(),
  options = form.map(form.any) }

-- Each kind: state(x), what is saved of it; load(x, saved); undo(x), a function that puts back what x is now, where
-- loading its state is not the way.
local objects = {}

local function set_options(opt, given)
  for name, value in pairs(given) do
    if opt[name] ~= value then
      opt[name] = value
    end
  end
end

objects.optimiser = {
  state = function(opt) return { state = opt:state(), options = options_of(opt), type = opt:type() } end,
  load = function(opt, saved)
    form.check("load_state", "it", saved, optimiser_form)
    if saved.type ~= opt:type() then
      core.error(("load_state: optimiser must be %s as in the file, got %s"):format(saved.type, opt:type()))
    end
    opt:load_state(saved.state)
    set_options(opt, saved.options)
  end,
  undo = function(opt)
    local back, numbers = kept.of(opt), options_of(opt)
    return function()
      back()
      set_options(opt, numbers)
    end
  end,
}

objects.generator = {
  state = function(g) return g:state() end,
  load = function(g, saved)
    form.check("set_state", "it", saved, form.generator)
    g:set_state(saved)
  end,
}

objects.state = { -- whatever has the two methods
  state = function(x) return x:state() end,
  load = function(x, saved) x:load_state(saved) end,
}

objects.parameter = {
  state = function(w) return w:detach() + 0 end,
  load = function(w, saved)
    form.check("set", "it", saved, form.tensor { like = w })
    w:set(saved)
  end,
}

local by_type = { ["penumbra.optimiser"] = "optimiser", ["penumbra.generator"] = "generator" }

local function has_methods(v)
  local ok, has = pcall(function() return type(v.state) == "function" and type(v.load_state) == "function" end)
  return ok and has
end

-- "optimiser", "state" and so on for what is saved by its state; nil for plain values.
local function kind_of(v)
  local meta = getmetatable(v)
  if core.is_tensor(v) then
    return v:is_param() and "parameter" or nil
  elseif type(v) == "userdata" then
    local known = by_type[meta]
    return known or has_methods(v) and (meta == "penumbra.layer" or #parameters.named(v) > 0) and "state" or nil
  elseif type(v) == "table" and meta ~= nil then
    return has_methods(v) and "state" or nil
  end
end

-- ---- saving ----

-- The plain tree of a value, and a tree of the kinds of what stands in it, nil where all is plain.
local function plain(v, path, open)
  local kind = kind_of(v)
  if kind then
    return objects[kind].state(v), kind
  elseif type(v) ~= "table" or getmetatable(v) then
    return v -- pn.save refuses by name what cannot be saved
  end
  open.depth = open.depth + 1
  if open[v] or open.depth > MOST_DEEP then
    core.error(("checkpoint.save: table '%s' contains itself, or is nested more than %d deep"):format(path, MOST_DEEP))
  end
  open[v] = true
  local out, kinds = {}, nil
  for key, part in next, v do
    local inner
    out[key], inner = plain(part, join(path, key), open)
    if inner then
      kinds = kinds or {}
      kinds[key] = inner
    end
  end
  open[v], open.depth = nil, open.depth - 1
  return out, kinds
end

--- save(path, contents): writes a table of what is to be kept: networks, layers, flows, distributions and whatever has
--- state() and load_state(); optimisers, with their options; generators; parameters; tensors, numbers, strings,
--- booleans; tables of these. The default generator is kept too. The file appears under its name when it is whole,
--- in the place of an older one. Returns true, or nil, message, code.
function checkpoint.save(path, contents)
  options.argument("checkpoint.save", "path", path, "string")
  options.argument("checkpoint.save", "contents", contents, "table")
  if getmetatable(contents) then
    core.error "checkpoint.save: contents must be a plain table, {net = net, optimiser = opt}"
  elseif rawget(contents, KEY) ~= nil then
    core.error(("checkpoint.save: the name '%s' is taken"):format(KEY))
  end
  local tree, kinds = plain(contents, "", { depth = 0 })
  tree[KEY] = { version = VERSION, kinds = kinds or {}, generator = core.rng_state() }
  return data.save_safetensors(path, tree)
end

-- ---- loading ----

-- A tree of the names of kinds, under names and places as the tree of what was saved has them.
local function kinds_form(v, name, wrong)
  if type(v) ~= "table" then
    form.text("optimiser", "generator", "state", "parameter")(v, name, wrong)
    return
  end
  for _, inner in next, v do kinds_form(inner, name, wrong) end
end

-- Calls visit(live object, its kind, what was saved, path) for everything live in `into`.
local function each_live(into, saved, kinds, path, visit)
  local kind = kind_of(into)
  if kind then
    if kinds ~= kind then
      core.error(("checkpoint.load: '%s' must be %s as in the file, got %s"):format(path,
        type(kinds) == "string" and "a thing with " .. kinds or "plain", kind))
    end
    visit(into, kind, saved, path)
    return
  elseif type(into) ~= "table" or getmetatable(into) then
    core.error(("checkpoint.load: '%s' must be something that can be loaded into, got %s"):format(path, type(into)))
  elseif type(saved) ~= "table" or type(kinds) == "string" then
    core.error(("checkpoint.load: '%s' must be no table, as in the file"):format(path))
  end
  for _, entry in ipairs(parameters.entries(into)) do
    local key = entry[1]
    if saved[key] == nil then
      core.error(("checkpoint.load: '%s' is not in the file"):format(join(path, key)))
    end
    each_live(entry[2], saved[key], type(kinds) == "table" and kinds[key] or nil, join(path, key), visit)
  end
end

-- The saved tree with the live objects in their places.
local function with_live(into, saved)
  if type(into) == "table" and not getmetatable(into) and not kind_of(into) then
    for key, part in next, into do
      saved[key] = with_live(part, saved[key])
    end
    return saved
  end
  return into
end

local function load_all(list)
  local steps = {}
  for k, item in ipairs(list) do
    local object = objects[item.kind]
    local before = not object.undo and object.state(item.live)
    steps[k] = { path = item.path, load = function() object.load(item.live, item.saved) end,
      undo = object.undo and object.undo(item.live) or function() object.load(item.live, before) end }
  end
  local ok, message, step = form.all_or_nothing(steps)
  if ok then
    return
  elseif form.passes_on(message) then
    error(message, 0)
  end
  local reason = tostring(message):gsub("^[^\n]-:%d+: ", ""):gsub("^load: ", "")
  core.error(("checkpoint.load: '%s': %s"):format(step.path, reason))
end

local about_form = form.record { version = form.whole(1), kinds = kinds_form, generator = form.generator }

local function read(path)
  local tree, message, code = data.safetensors(path)
  if not tree then
    return nil, message, code
  end
  local about = tree[KEY]
  if #form.misfits(about, about_form) > 0 then
    return nil, ("load: %s is no checkpoint (pn.load reads other files)"):format(path), "format"
  elseif about.version > VERSION then
    return nil, ("load: %s was written by a later version (%d)"):format(path, about.version), "format"
  end
  tree[KEY] = nil
  return tree, about
end

--- load(path [, into [, {default_generator = true}]]): what was saved, a table. Without `into`, states stand in the
--- place of networks, optimisers and generators. With it, {net = net, optimiser = opt}, they are loaded into these:
--- parameters stay the same objects, options as the learning rate are as they were, and so is the default generator,
--- unless that is switched off. What else the file has is in the table that is returned. Returns nil, message, code
--- for a file that is missing, damaged or no checkpoint; what does not fit raises by name, and nothing has changed.
function checkpoint.load(path, into, given)
  options.argument("checkpoint.load", "path", path, "string")
  local o = options.check("checkpoint.load", given or {}, { default_generator = true })
  local tree, about, code = read(path)
  if not tree or into == nil then
    return tree, not tree and about or nil, code
  end
  options.argument("checkpoint.load", "into", into, "table")
  local list = {}
  each_live(into, tree, about.kinds, "", function(live, kind, saved, at)
    list[#list + 1] = { live = live, kind = kind, saved = saved, path = at }
  end)
  if o.default_generator then
    table.insert(list, 1, { live = {}, kind = "default", saved = about.generator, path = KEY })
  end
  load_all(list)
  return with_live(into, tree)
end

objects.default = {
  state = function() return core.rng_state() end,
  load = function(_, saved)
    form.check("set_rng_state", "it", saved, form.generator)
    core.set_rng_state(saved)
  end,
}

return checkpoint
