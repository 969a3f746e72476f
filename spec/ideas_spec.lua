--- Help by idea: words that are names of nothing lead to places, options are found, what is not there is said, and
--- tasks have their calls. And calls as they are printed.
local pn = require "penumbra"
local help = require "penumbra.shell.help"
local ideas = require "penumbra.shell.ideas"
local other_names = require "spec.other_names"
local refused = require("spec.helper").refused

describe("help by idea", function()
  it("has an answer for the words that people try", function()
    for word in ([[vae; ode; transformer; attention; enumerate; flow; nan; mcmc; waic; rhat; early stopping; scheduler;
      dataloader; cuda; GPU; indexing; censoring; logistic regression; missing data; survival; hmm; kalman; elbo; vi;
      hdi; traceplot; ppc; loo; cross-validation; stacking; class weights; one-hot; normalizing flow; glm;
      regression; mnist;
      pandas; seed; threads; checkpoint; lstm; cnn; gan; pca; sbc; gp; zero inflated; ordinal;
      truncation; hierarchical model; random effects; state space; forecast; roc; f1 score; confusion matrix;
      calibration; uncertainty; weight
      decay; learning rate; gradient clipping; training loop; text; sparse; fft; mixed precision; jit; pytorch; plot]])
      :gmatch "[^;]+" do
      word = word:gsub("%s+", " "):match "^%s*(.-)%s*$"
      assert.not_matches("^nothing is called", help.text(word), 1, false)
      assert(ideas.of(word), word)
    end
    assert.matches("^gpu: not there", help.text "GPU")
    -- a phrase: a name with its underscores, else what is said of a part, the last one first
    assert.matches("^pn.nn.batch_norm", help.text "batch norm")
    assert.matches("^pn.dist.truncated_normal", help.text "Truncated normal")
    assert.matches("^regression: ", help.text "poisson regression")
    assert.matches("^pandas: ", help.text "my pandas table")
    assert.matches("^nothing is called 'no such thing'", help.text "no such thing")
    for word in ([[map estimate; lasso; copula; subplot; random forest; bootstrap; shuffle; hdf5; t-test; mle;
      divergences; thinning; non-centered; kl divergence; lognormal; broadcasting; matrix inverse; root finding;
      eigenvalues; masking; step size; topic model; cox; change point; residuals; seed everything; license;
      quantization; regex]])
      :gmatch "[^;]+" do
      word = word:gsub("%s+", " "):match "^%s*(.-)%s*$"
      assert(ideas.of(word), word)
    end
    assert.equal(ideas.of "Early-Stopping", ideas.of "early stopping")
    assert.equal(ideas.of "early_stopping", ideas.of "early stopping")
    assert.is_nil(ideas.of "no such idea")
  end)

  it("leads to places that there are, each word to one", function()
    local seen, lines = {}, 0
    for _, idea in ipairs(ideas.list()) do
      local text, place = assert(idea.text), assert(idea.place)
      lines = lines + 1
      for _, word in ipairs(idea.words) do
        assert(not seen[word], word)
        seen[word] = true
      end
      assert.not_matches("^nothing is called", help.text(place))
      for name in (" " .. text):gmatch "%f[%w_.]pn%.[%w_.]*[%w_]" do
        assert(other_names.find(name) ~= nil, name)
      end
      for file in text:gmatch "examples/[%w_/]+%.lua" do
        local found = io.open(file)
        assert(found, file)
        found:close()
      end
    end
    assert.is_true(lines > 80)
  end)

  it("stands beside what has the name", function()
    local text = help.text "vae"
    assert.matches("^pn.models.vae", text)
    assert.matches("vae: pn.models.vae{data =, latent =, hidden =}", text, 1, true)
    assert.matches("names with it:.*pn.smc.structural.regression", help.text "regress")
    assert.matches("^target_accept, of the options of many functions", help.text "target_accept")
    assert.matches("help\"tasks\" too$", help.text "xyzzy")
  end)

  it("tells forty tasks with calls that there are", function()
    local text, count = help.text "tasks", 0
    for line in text:gmatch "[^\n]+" do
      count = count + 1
      assert(#line <= 79, line)
      for name in line:gmatch "%f[%w_.]pn%.[%w_.]*[%w_]" do assert(other_names.find(name) ~= nil, name) end
      for part, name in line:gmatch "%f[%w_.](%l+)%.([%w_]+)" do
        if part == "dist" or part == "nn" or part == "metrics" or part == "plot" or part == "infer" then
          assert(other_names.find("pn." .. part .. "." .. name) ~= nil, line)
        end
      end
    end
    assert.equal(41, count)
  end)
end)

describe("calls as they are printed", function()
  local nn = pn.nn

  it("make layers by position", function()
    for text, layer in pairs { ["dropout(rate = 0.25)"] = nn.dropout(0.25),
      ["conv2d(1 -> 8, kernel = 5)"] = nn.conv2d(1, 8, 5),
      ["max_pool2d(kernel = 2)"] = nn.max_pool2d(2), ["conv2d(1 -> 8, kernel = 5, padding = 2, stride = 2)"] =
      nn.conv2d(1, 8, 5, 2, { padding = 2 }), ["elu(alpha = 2.0)"] = nn.elu(2), ["layer_norm(4)"] = nn.layer_norm(4),
      ["linear(2 -> 3, bias = false)"] = nn.linear(2, 3, { bias = false }) } do
      assert.equal(text, tostring(layer))
    end
    assert.same({ 1, 8, 4, 4 }, nn.conv2d(1, 8, 5)(pn.ones { 1, 1, 8, 8 }):shape())
    refused("dropout: rate is given by position and by name", nn.dropout, 0.1, { rate = 0.2 })
    refused("max_pool2d: takes at most 3 numbers and settings, got 4", nn.max_pool2d, 2, 1, 1, 1)
    refused("conv2d: settings by name stand last", nn.conv2d, 1, 8, { kernel = 5 }, 3)
    refused("dropout: rate must be a number, got string", nn.dropout, "x")
  end)

  it("take a distribution as the prior of a network", function()
    local net = nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) }
    local m = pn.model(function(r, x)
      r:observe("y", pn.dist.normal(r:network("net", net, pn.dist.laplace(0, 0.5))(x):squeeze(2), 1), pn.zeros { 4 })
    end)
    local t = m:trace(pn.ones { 4, 2 })
    local w = t.sites["net.1.weight"]
    local want = pn.dist.laplace(0, 0.5):log_prob(w.value):sum():item()
    assert(math.abs(w.log_prob:item() - want) < 1e-12)
    refused("prior must be a positive standard deviation, a distribution or a function", function()
      pn.model(function(r) r:network("net", net, "wide") end):trace()
    end)
  end)

  it("know pn on the command line", function()
    local command = (os.getenv "BUILD" or "build") .. "/penumbra "
    local function run(arguments)
      local pipe = io.popen(command .. arguments .. " 2>&1")
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    assert.equal("3.0\n", run [[-e 'print(pn.ones{3}:sum():item())']])
    assert.matches("^gpu: not there", run [[-e 'help "gpu"']])
    assert.equal("7\n", run [[-e 'pn = 7' -e 'print(pn)']])
    assert.matches("undefined", run [[-e 'print(undefined_name)']])
  end)
end)
