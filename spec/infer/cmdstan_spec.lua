--- CmdStan's CSV files, written here by hand: comments, names, order of indices, warm-up, files that are cut off.
local pn = require "penumbra"
local helper = require "spec.helper"
local refuses = helper.refuses

local root = os.tmpname()
os.remove(root)
os.execute(("mkdir -p '%s'"):format(root))
teardown(function() os.execute(("rm -rf '%s'"):format(root)) end)

local function write(name, text)
  local path = ("%s/%s"):format(root, name)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local CONFIG = [[
# stan_version_major = 2
# stan_version_minor = 33
# model = eight_schools_model
# method = sample (Default)
#   sample
#     num_samples = 5
#     num_warmup = 3
#     save_warmup = 0 (Default)
#     thin = 1 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
# id = 1 (Default)
]]
local HEADER = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,mu,a.1.1,a.2.1,a.1.2,a.2.2,"
  .. "a.1.3,a.2.3\n"
local ADAPTED = [[
# Adaptation terminated
# Step size = 0.809818
# Diagonal elements of inverse mass matrix:
# 0.960989, 1.25
]]
local ENDED = [[
#
#  Elapsed Time: 0.005 seconds (Warm-up)
#                0.013 seconds (Sampling)
#                0.018 seconds (Total)
#
]]

-- Draw k of chain c: a[i,j] is 100 i + 10 j + k + c / 2.
local function row(k, c, mu)
  local list = { -7.5 - k, 0.875, 0.809818, 2, 3, k == 2 and 1 or 0, 8 + k, mu or k / 4 }
  for j = 1, 3 do
    for i = 1, 2 do list[#list + 1] = 100 * i + 10 * j + k + c / 2 end
  end
  return table.concat(list, ",") .. "\n"
end

local function rows(first, last, c)
  local list = {}
  for k = first, last do list[#list + 1] = row(k, c) end
  return table.concat(list)
end

local function chain(c) return CONFIG .. HEADER .. ADAPTED .. rows(1, 5, c) .. ENDED end

describe("CmdStan's files", function()
  it("are a posterior: draws, statistics, adaptation, configuration", function()
    local p = assert(pn.infer.cmdstan { write("1.csv", chain(1)), write("2.csv", chain(2)) })
    assert.same({ "mu", "a" }, p.names)
    assert.same({ 2, 5, 2, 3 }, p.draws.a:shape())
    for c = 1, 2 do
      for k = 1, 5 do
        assert.equal(k / 4, p.draws.mu[c][k]:item())
        for i = 1, 2 do
          for j = 1, 3 do assert.equal(100 * i + 10 * j + k + c / 2, p.draws.a[c][k][i][j]:item()) end
        end
      end
    end
    local s = p.statistics
    assert.same({ -8.5, -9.5, -10.5, -11.5, -12.5 }, s.log_density[1]:totable())
    assert.same({ 0, 1, 0, 0, 0 }, s.divergent[2]:totable())
    assert.same({ 9, 10, 11, 12, 13 }, s.energy[1]:totable())
    assert.same({ 0.875, 0.809818, 2, 3 }, { s.accept[1][1]:item(), s.step_size[1][1]:item(), s.depth[1][1]:item(),
      s.leapfrogs[1][1]:item() })
    assert.same({ 2, 3, 10, 0.018, 2 }, { p.chains, p.warmup, p.max_depth, p.seconds, p.divergences })
    assert.equal(0.809818, p.adaptation[2].step_size)
    assert.same({ 0.960989, 1.25 }, p.adaptation[1].inverse_metric:totable())
    assert.equal("eight_schools_model", p.config[1].model)
    assert.equal(2.75, p:summary().mu.mean * 2 + 1.25)
    assert.matches("10 draws of 2 chains after 3 of warm%-up", tostring(p))
    refuses("predict: these draws were read from a file", p.predict, p)
    assert(p:save_arviz(root .. "/s.zarr"))
    assert.is_true(pn.infer.arviz(root .. "/s.zarr").draws.a:eq(p.draws.a):all():item())
  end)

  it("have names in brackets, too, in any order, and parts of complex numbers", function()
    local text = 'lp__,"b[1,2]","b[2,1]","b[1,1]","b[2,2]",z.1.real,z.2.real,z.1.imag,z.2.imag,c.3,c.1,c.2\n'
    for k = 1, 4 do text = text .. ("%d,12,21,11,22,1,2,10,20,3,1,%d\n"):format(-k, k) end
    local p = assert(pn.infer.cmdstan(write("names.csv", text)))
    assert.same({ { 11, 12 }, { 21, 22 } }, p.draws.b[1][1]:totable())
    assert.same({ 1, 3, 3 }, p.draws.c[1][3]:totable())
    assert.same({ 10, 20 }, p.draws["z.imag"][1][1]:totable())
    assert.same({ "b", "z.real", "z.imag", "c" }, p.names)
  end)

  it("have missing and infinite numbers", function()
    local p = assert(pn.infer.cmdstan(write("nan.csv",
      "lp__,x.1,x.2\n-1,nan,inf\n-inf,-inf,NaN\n-1,1,2\n-1,1e-320,+3\n")))
    local x = p.draws.x[1]:totable()
    assert.is_true(x[1][1] ~= x[1][1] and x[2][2] ~= x[2][2])
    assert.same({ math.huge, -math.huge, 1e-320, 3 }, { x[1][2], x[2][1], x[4][1], x[4][2] })
    assert.equal(-math.huge, p.statistics.log_density[1][2]:item())
  end)

  it("have warm-up before the draws where it was saved, and a dense metric", function()
    local dense = ADAPTED:gsub("Diagonal elements", "Elements"):gsub("# 0.960989, 1.25", "# 2, 0.5\n# 0.5, 3")
    local text = CONFIG:gsub("save_warmup = 0 %(Default%)", "save_warmup = true"):gsub("warmup = 3", "warmup = 4")
      :gsub("thin = 1 %(Default%)", "thin = 2"):gsub("samples = 5", "samples = 9")
    local p = assert(pn.infer.cmdstan(write("w.csv", text .. HEADER .. rows(1, 2, 1) .. dense .. rows(3, 7, 1)
      .. ENDED)))
    assert.same({ 0.75, 1, 1.25, 1.5, 1.75 }, p.draws.mu[1]:totable())
    assert.same({ 0.25, 0.5 }, p.warmup_draws.draws.mu[1]:totable())
    assert.same({ 0, 1 }, p.warmup_draws.statistics.divergent[1]:totable())
    assert.equal(0, p.divergences)
    assert.same({ { 2, 0.5 }, { 0.5, 3 } }, p.adaptation[1].inverse_metric:totable())
  end)

  it("of unlike lengths are told by their draws alone, and taken in part", function()
    local text = CONFIG:gsub("save_warmup = 0 %(Default%)", "save_warmup = true"):gsub("warmup = 3", "warmup = 2")
    local paths = {}
    for k, n in ipairs { 5, 4 } do
      paths[k] = write(k .. "w.csv", text:gsub("samples = 5", "samples = " .. n) .. HEADER .. rows(1, 2, 1) .. ADAPTED
        .. rows(3, 2 + n, 1) .. ENDED)
    end
    local p, message, code = pn.infer.cmdstan(paths)
    assert.same({ nil, "format" }, { p, code })
    assert(message:find(("'%s' has 4 draws, '%s' 5 (partial = true takes the least)"):format(paths[2], paths[1]), 1,
      true), message)
    p = assert(pn.infer.cmdstan(paths, { partial = true }))
    assert.same({ 2, 4 }, p.draws.mu:shape())
    assert.same({ 0.75, 1, 1.25, 1.5 }, p.draws.mu[1]:totable())
    assert.matches("1 draws of '" .. paths[1]:gsub("%p", "%%%0") .. "' are left out", tostring(p))
  end)

  it("take log_lik for the densities of observations", function()
    local text = "lp__,mu,log_lik.1,log_lik.2\n"
    local ll = {}
    for k = 1, 8 do
      ll[k] = { -1 - k / 16, -2 + k / 32 }
      text = text .. ("%d,%d,%g,%g\n"):format(-k, k, ll[k][1], ll[k][2])
    end
    local p = assert(pn.infer.cmdstan(write("ll.csv", text)))
    assert.same({ "mu" }, p.names)
    local t = pn.tensor(ll)
    local waic = (t:logsumexp(1) - math.log(8) - t:var(1)):sum():item() -- divisor 7
    helper.near(p:waic().elpd, waic, 1e-12)
  end)

  it("that are cut off are refused, or taken in part", function()
    local whole = chain(1)
    local lines = #(CONFIG .. HEADER .. ADAPTED)
    local function after(n, more) return write("cut.csv", whole:sub(1, lines + #rows(1, n, 1) + (more or 0))) end
    local function fails(want, path)
      local p, message, code = pn.infer.cmdstan(path)
      assert.is_nil(p)
      assert.equal("format", code)
      assert.matches(want, message)
    end
    fails("it has 4 of 5 draws", after(4))
    fails("last line does not end", after(4, 20))
    fails("last line does not end", after(5, -1)) -- the last digit may be missing
    fails("does not say how long the run took", after(5))
    fails("cut off", write("header.csv", whole:sub(1, lines)))
    local p = assert(pn.infer.cmdstan({ after(4, 20), write("1.csv", whole) }, { partial = true }))
    assert.same({ 2, 4 }, p.draws.mu:shape())
    assert.matches("has not ended.*1 draws of '.-1.csv' are left out", table.concat(p.warnings, "; "))
    assert.equal(4, pn.infer.cmdstan(after(5, -1), { partial = true }).length)
    fails("has 4 draws.*5", { write("1.csv", whole), write("short.csv", (whole:gsub(row(5, 1):gsub("%p", "%%%0"), "")
      :gsub("samples = 5", "samples = 4"))) })
  end)

  it("have what comments say, each under its name, and metrics only where their lines make one", function()
    local text = CONFIG:gsub("engine = nuts", "delta = 0.85"):gsub("id = 1 %(Default%)", "id = 1e3")
    local paths = {}
    for c, metric in ipairs { "Elements of inverse mass matrix:\n# 2, 0.5\n",
      "Elements of inverse mass matrix:\n# 2, 0.5\n# 1\n", "Diagonal elements of inverse mass matrix:\n# none\n",
      "Diagonal elements of inverse mass matrix:\n# 3, 4\n# 5, 6\n" } do
      paths[c] = write(c .. "c.csv", text .. HEADER .. "# Step size = 0." .. c .. "\n# " .. metric .. rows(1, 5, c)
        .. ENDED:gsub("0.018", "0.0" .. (c == 2 and 9 or c)))
    end
    local p = assert(pn.infer.cmdstan(paths))
    for c = 1, 4 do
      assert.equal(c / 10, p.adaptation[c].step_size)
      assert.same({ 0.85, "sample", 5, 1, "eight_schools_model", 0 }, { p.config[c].delta, p.config[c].method,
        p.config[c].num_samples, p.config[c].thin, p.config[c].model, p.config[c].save_warmup })
      assert.same({ "integer", "1000" }, { math.type(p.config[c].id), tostring(p.config[c].id) })
    end
    for c = 1, 3 do assert.is_nil(p.adaptation[c].inverse_metric, c) end
    assert.same({ 3, 4 }, p.adaptation[4].inverse_metric:totable())
    assert.equal(0.09, p.seconds) -- of the slowest chain
    assert.same({}, p.warnings[1] and p.warnings[1]:find "left out" and p.warnings or {})
    local bare = assert(pn.infer.cmdstan(write("bare.csv", "lp__,a\n1,2\n2,3\n3,5\n4,7\n")))
    assert.same({}, bare.config[1])
    assert.is_nil(bare.adaptation[1].step_size)
    assert.is_nil(bare.warmup)
    assert.is_nil(bare.max_depth)
    assert.is_nil(bare.warmup_draws)
  end)

  it("have columns of other samplers, names that are no indices, and warm-up of no draws", function()
    local head = CONFIG:gsub("save_warmup = 0 %(Default%)", "save_warmup = 1")
    local p = assert(pn.infer.cmdstan(write("odd.csv", head:gsub("warmup = 3", "warmup = 0")
      .. 'lp__,treedepth__,divergent__,own__,a.0,"b[1, 2]","b[1, 1]",log_lik\n'
      .. ("-1,64,1,7,1,2,3,4\n-1,0,0,8,1,2,3,4\n"):rep(2) .. "-1,0,0,8,1,2,3,4\n" .. ENDED)))
    assert.same({ "a.0", "b" }, p.names)
    assert.same({ 3, 2 }, p.draws.b[1][1][1]:totable())
    assert.same({ 7, 8, 7, 8, 8 }, p.statistics.own__[1]:totable())
    assert.same({ 5, 0 }, { p.length, p.warmup })
    assert.is_nil(p.warmup_draws)
    local only = assert(pn.infer.cmdstan(write("only.csv", "lp__,log_lik\n1,2\n2,3\n3,5\n4,7\n")))
    assert.same({ "log_lik" }, only.names)
    p = assert(pn.infer.cmdstan(write("one.csv", head:gsub("warmup = 3", "warmup = 1") .. HEADER .. rows(1, 6, 1)
      .. ENDED)))
    assert.same({ 0.5, 0.75, 1, 1.25, 1.5 }, p.draws.mu[1]:totable())
    assert.same({ 0.25 }, p.warmup_draws.draws.mu[1]:totable())
  end)

  it("that do not fit are refused", function()
    local function fails(want, ...)
      local paths = {}
      for k, text in ipairs { ... } do paths[k] = write(("bad%d.csv"):format(k), text) end
      local p, message = pn.infer.cmdstan(paths)
      assert.is_nil(p, want)
      assert.matches(want, message)
    end
    fails("other columns", "lp__,a\n1,2\n", "lp__,b\n1,2\n")
    fails("of method variational", "# method = variational\nlp__,a\n1,2\n")
    fails("of shape %[3%] has 2 columns", "lp__,a.1,a.3\n1,2,3\n")
    fails("element twice", "lp__,a.1,a.2,a[2],a.4\n1,2,3,4,5\n")
    fails("2 indices, another of 'a' 1", "lp__,a.1,a.1.2\n1,2,3\n")
    fails("0 indices", "lp__,a.1,a\n1,2,3\n")
    fails("at most 6", "lp__,a.1.1.1.1.1.1.1\n1,2\n")
    fails("999999999", "lp__,a.999999999.999999999\n1,2\n")
    fails("no columns but", "lp__\n1\n")
    fails("no draws", "lp__,a\n")
    fails("must be a number", "lp__,a\n1,x\n")
    fails("has 3 columns", "lp__,a\n1,2\n1,2,3\n")
    fails("numbers from 0 to 1", "lp__,divergent__,a\n1,2,3\n")
    fails("numbers from 0 to 64", "lp__,treedepth__,a\n1,nan,3\n")
    fails("has 2 draws where its comments say 1", "# num_samples = 1\nlp__,a\n1,2\n3,4\n#  1 seconds (Total)\n")
    fails("numbers from 0 to 64", "lp__,treedepth__,a\n1,65,3\n")
    fails("numbers from 0 to 1", "lp__,divergent__,a\n1,-1,3\n")
    fails("its last line does not end", "lp__,a\n1,2\n3,4")
    local head = CONFIG:gsub("save_warmup = 0 %(Default%)", "save_warmup = 1"):gsub("samples = 5", "samples = 0")
    fails("has no draws after 3 of warm%-up", head .. HEADER .. rows(1, 3, 1) .. ENDED)
    fails("has 4 draws where its comments say 3", head .. HEADER .. rows(1, 4, 1) .. ENDED)
    head = head:gsub("samples = 0", "samples = 2")
    fails("has 4 draws of warm%-up, '.-' 3", head .. HEADER .. rows(1, 5, 1) .. ENDED,
      head:gsub("warmup = 3", "warmup = 4") .. HEADER .. rows(1, 6, 1) .. ENDED)
    local p, _, code = pn.infer.cmdstan(root .. "/none.csv")
    assert.is_nil(p)
    assert.equal("io", code)
    refuses("must have the path of a file", pn.infer.cmdstan, {})
    refuses("paths[2] must be a string", pn.infer.cmdstan, { "a", 3 })
    refuses("did you mean 'partial'", pn.infer.cmdstan, "a", { partail = true })
  end)
end)
