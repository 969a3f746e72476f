--- penumbra.d.lua, what editors know of Penumbra: it is Lua, its words are lua-language-server's, and it says of the
--- live module what that is: its functions, the methods of its objects, the options that its functions take.
local annotations = require "penumbra.shell.annotations"
local core = require "penumbra.core"
local pn = require "penumbra"

local text = annotations.text()
local lines = {}
for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end

-- Classes by name: {parents, fields = {name = {optional, type}}, methods = {name = true}}.
local classes, overloads = {}, {}
do
  local class, variables = nil, {}
  for _, line in ipairs(lines) do
    local name, parents = line:match "^%-%-%-@class ([%w_.]+):? ?(.*)$"
    if name then
      assert(not classes[name], name)
      class = { parents = {}, fields = {}, methods = {} }
      for parent in parents:gmatch "[%w_.]+" do table.insert(class.parents, parent) end
      classes[name] = class
    end
    local field, optional, rest = line:match "^%-%-%-@field ([%a_][%w_]*)(%??) (.+)$"
    if field then
      assert(not class.fields[field], field)
      class.fields[field] = { optional = optional == "?", type = rest:match "^%S+" }
    end
    local variable = line:match "^local ([%w_]+) = {}$"
    if variable then variables[variable] = class end
    local owner, method = line:match "^function ([%a_][%w_]*):([%a_][%w_]*)%("
    if not owner then owner, method = line:match '^([%a_][%w_]*)%["(%w+)"%] = function' end
    if owner and variables[owner] then variables[owner].methods[method] = true end
    local made = line:match "^%-%-%-@overload fun%(parameters: ([%w_.]+)%)"
    if made then overloads[made] = true end
  end
end

-- A table of the names that a class and its parents have as `what`.
local function all_of(class, what, into)
  into = into or {}
  for name in pairs(classes[class][what]) do into[name] = true end
  for _, parent in ipairs(classes[class].parents) do all_of(parent, what, into) end
  return into
end

local function sorted(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Public functions of the live module by qualified name: of pn, its parts and theirs.
local function live()
  local functions, spaces = {}, {}
  local function look(t, path, depth)
    spaces[path] = t
    local meta = getmetatable(t)
    for _, name in ipairs(meta and meta.lazy or {}) do local _ = t[name] end
    for name, value in pairs(t) do
      if type(name) == "string" and type(value) == "function" then functions[path .. "." .. name] = value end
      if type(name) == "string" and type(value) == "table" and depth < 3 and not spaces[path .. "." .. name] then
        look(value, path .. "." .. name, depth + 1)
      end
    end
  end
  look(pn, "pn", 1)
  return functions, spaces
end

local functions, spaces = live()

describe("penumbra.d.lua", function()
  it("is Lua that defines the public functions, all and no others", function()
    local made = assert(load(text, "=penumbra.d.lua", "t", {}))()
    local said = {}
    local function look(t, path)
      for name, value in pairs(t) do
        local qualified = path .. "." .. name
        if type(value) == "function" then
          said[qualified] = true
          assert.is_function(functions[qualified], qualified .. " is not live")
        else
          assert.is_table(spaces[qualified], qualified .. " is no namespace")
          look(value, qualified)
        end
      end
    end
    look(made, "pn")
    local missing = {}
    for name in pairs(functions) do
      local part = pn[name:match "^pn%.([%w_]+)%."] -- what a part holds by its rows counts, a table of data does not
      if not said[name] and (part == nil or getmetatable(part)) then missing[#missing + 1] = name end
    end
    table.sort(missing)
    assert.same({}, missing)
    assert.is_true(#sorted(said) > 700)
  end)

  -- glyph_rows and traffic_days take the options of others by a table of their own, is_network is written as a word,
  -- the second table of a filter is its own options'
  it("has as many parameters of a function as it takes", function()
    local told, wrong = {}, {}
    for name, list in text:gmatch "\nfunction (pn%.[%w_.]+)%((.-)%) end" do told[name] = list end
    local others = { ["pn.gap.glyph_rows"] = 0, ["pn.gap.traffic_days"] = 0, ["pn.nn.is_network"] = 0,
      ["pn.smc.filter"] = 1 }
    local count = 0
    for name, f in pairs(functions) do
      local _, within = debug.getupvalue(f, 1)
      local info = debug.getinfo(debug.getinfo(f, "S").what == "C" and type(within) == "function" and within or f, "Su")
      if info.what ~= "C" and not info.isvararg and told[name] then
        local said = select(2, told[name]:gsub("[%w_]+", ""))
        count = count + 1
        if said ~= (others[name] or info.nparams) then
          wrong[#wrong + 1] = ("%s: said (%s), takes %d"):format(name, told[name], info.nparams)
        end
      end
    end
    assert.same({}, wrong)
    assert.is_true(count > 450, tostring(count))
  end)

  it("has words of lua-language-server alone, and every class that it names", function()
    local given, count = {}, 0
    for k, line in ipairs(lines) do
      if line:find "^%-%-%-@" then
        local kind = line:match "^%-%-%-@(%l+)"
        count = count + 1
        local fine = line:find "^%-%-%-@class [%w_.]+$" or line:find "^%-%-%-@class [%w_.]+: [%w_., ]+$"
          or kind == "field" and (line:find "^%-%-%-@field [%a_][%w_]*%?? %S" or line:find "^%-%-%-@field %[%S+%] %S")
          or kind == "param" and line:find "^%-%-%-@param [%a_][%w_]*%?? %S+$" or line:find "^%-%-%-@param %.%.%. %S+$"
          or kind == "return" and line:find "^%-%-%-@return [%w_.]+$"
          or kind == "operator" and line:find "^%-%-%-@operator %l+" or line == "---@meta penumbra"
          or kind == "overload" and line:find "^%-%-%-@overload fun%b(): [%w_.]+$"
        assert(fine, line)
        local param = line:match "^%-%-%-@param ([%w_]+)"
        given[#given + 1] = param
        local types = line:gsub('"[^"]*"', ""):gsub("^(%-%-%-@field %S+ %S+).*$", "%1")
        for class in types:gmatch "%f[%w_.]pe?n[%w_]*%.[%w_.]+" do
          assert(classes[class], class .. " in " .. line)
        end
      elseif line:find "^function" or line:find "^[%w_.]+%[%S+ = function%(" then
        local names = ("," .. line:match "%((.-)%) end$":gsub("%s", "") .. ",")
        for _, name in ipairs(given) do assert(names:find("," .. name .. ",", 1, true), lines[k]) end
        given = {}
      end
    end
    assert.is_true(count > 3000)
    assert.not_matches("0x%x%x%x%x%x%x", text) -- no addresses: the file is the same whenever it is made
    assert.is_true(#text < 500000, "editors skip files above that") -- workspace.preloadFileSize
  end)

  it("knows the methods of tensors, distributions and bijectors", function()
    for class, methods in pairs { ["penumbra.tensor"] = core.methods,
      ["penumbra.distribution"] = core.distribution_methods, ["penumbra.bijector"] = core.bijector_methods } do
      local have = {}
      for name, value in pairs(methods) do have[name] = type(value) == "function" or nil end
      local said = all_of(class, "methods")
      for name in pairs(said) do assert(have[name], class .. ":" .. name .. " is not live") end
      for name in pairs(have) do
        assert(said[name] or name:find "^_" or class == "penumbra.bijector" and name == "close", class .. ":" .. name)
      end
    end
  end)

  it("knows the methods of what models make", function()
    local model = pn.model(function(m) m:sample("a", pn.dist.normal(0, 1)) end)
    local deep = { latent = 1, hidden = { 3 } }
    local objects = {
      ["penumbra.infer.model.model"] = model,
      ["penumbra.infer.posterior.p"] = pn.nuts(model, { warmup = 20, draws = 10, chains = 1 }),
      ["penumbra.infer.svi.fit"] = pn.svi(model, "mean_field", { steps = 2 }),
      ["penumbra.smc.hmm.hmm"] = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
        emission = pn.dist.normal(pn.tensor { -1, 1 }, 0.5) },
      ["penumbra.smc.system.linear_system"] = pn.smc.linear_system { transition = { { 1 } }, transition_cov = { { 1 } },
        emission = { { 1 } }, emission_cov = { { 1 } }, initial_mean = { 0 }, initial_cov = { { 1 } } },
      ["penumbra.smc.filter.filter"] = pn.smc.filter { num_particles = 5, init = function(n) return pn.randn { n } end,
        step = function(x) return x end, log_weight = function(x) return x * 0 end },
      ["penumbra.smc.structural.structural"] = pn.smc.structural.level {} + pn.smc.structural.irregular {},
      ["penumbra.models.vae.vae"] = pn.models.vae { data = 2, latent = deep.latent, hidden = deep.hidden },
      ["penumbra.models.forecaster.m"] = pn.models.deepar { output = "normal" },
      ["penumbra.layer"] = pn.nn.linear(2, 2),
    }
    for class, object in pairs(objects) do
      assert(classes[class], class)
      local count = 0
      for name in pairs(all_of(class, "methods")) do
        local ok, member = pcall(function() return object[name] end)
        assert(ok and type(member) == "function", class .. ":" .. name)
        count = count + 1
      end
      assert.is_true(count >= 4, class)
    end
    for name, class in pairs { ["pn.nuts"] = "penumbra.infer.posterior.p", ["pn.svi"] = "penumbra.infer.svi.fit",
      ["pn.smc.linear_system"] = "penumbra.smc.system.linear_system", ["pn.models.vae"] = "penumbra.models.vae.vae",
      ["pn.models.deepar"] = "penumbra.models.forecaster.m", ["pn.exp"] = "penumbra.tensor",
      ["pn.dist.gamma"] = "penumbra.distribution", ["pn.nn.linear"] = "penumbra.layer",
      ["pn.optim.adam"] = "penumbra.optimiser" } do
      local at = text:find("\nfunction " .. name .. "(", 1, true)
      local result
      for one in text:sub(1, at):gmatch "\n%-%-%-@return (%S+)" do result = one end
      assert.equal(class, result, name)
    end
  end)
end)

-- Functions whose first table is no table of options but a system, and those whose options are put together from
-- others': what is said of them is a part.
local OTHER = {}
for name in ([[smc.kalman.filter smc.kalman.log_likelihood smc.kalman.smooth smc.kalman.sample_posterior smc.kalman.elbo
  smc.kalman.em smc.extended smc.unscented vbp.compare evidential.learner invariance.node_posterior]]):gmatch "%S+" do
  OTHER["pn." .. name] = true
end

-- The options that a function names when it is given one that is none of them; nil where it complains of another thing.
local function refused(f)
  for _, filler in ipairs { false, pn.ones { 2, 2 } } do
    for place = 1, 6 do
      local given = {}
      for k = 1, place - 1 do given[k] = filler or nil end
      given[place] = { zzqqzzqq = 1 }
      local ok, message = pcall(f, table.unpack(given, 1, place))
      local list = not ok and tostring(message):match "unknown option 'zzqqzzqq'; known: ([%w_, ]+)$"
      if list then
        local names = {}
        for name in list:gmatch "[%w_]+" do names[name] = true end
        return names
      end
    end
  end
end

describe("options in penumbra.d.lua", function()
  it("are those that the functions themselves name", function()
    local same, wrong = 0, {}
    for name, f in pairs(functions) do
      local class = classes[name .. ".options"]
      local known = class and not OTHER[name] and refused(f)
      if known and table.concat(sorted(known), ",") ~= "dtype,generator" then -- of a tensor made of the table
        local said, told = table.concat(sorted(class.fields), ", "), table.concat(sorted(known), ", ")
        if said == told then
          same = same + 1
        else
          wrong[#wrong + 1] = ("%s: said %s; told %s"):format(name, said, told)
        end
      end
    end
    table.sort(wrong)
    assert.same({}, wrong)
    assert.is_true(same > 230, tostring(same))
  end)

  it("have their kinds, choices and what must be given", function()
    local nuts = classes["pn.nuts.options"].fields
    assert.equal('"low_rank"|"diagonal"|"dense"', nuts.metric.type)
    assert.equal("number", nuts.target_accept.type)
    assert.equal("table", nuts.data.type)
    assert.is_true(nuts.data.optional)
    assert.is_false(classes["pn.hmc.options"].fields.steps.optional)
    assert.is_true(classes["pn.dist.gamma.options"].fields.rate.optional)
    assert.is_false(classes["pn.dist.gamma.options"].fields.concentration.optional)
    assert.equal('"float64"|"float32"', classes["pn.nn.linear.options"].fields.dtype.type)
    assert.is_true(overloads["pn.dist.gamma.options"])
    -- of rows of C: a choice is of words alone, what else there is may be anything
    assert.equal('"geometric"|"arithmetic"', classes["pn.infer.vimco.options"].fields.mean.type)
    assert.equal("any", classes["pn.optim.adamw.options"].fields.weight_decay.type)
    local field = "---@field target_accept? number 0.8; nearer to 1 takes shorter steps (default 0.8)\n"
    assert.truthy(text:find(field, 1, true))
  end)
end)
