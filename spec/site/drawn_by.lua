--- Which script draws which picture that is committed, and how: rows of {script =, pictures = list, ...}. Scripts
--- without a line below draw the pictures beside them that begin with their name, chapters those that they save.
---   quick  more arguments of its quick run      kept  arguments that draw from kept runs, in place of --quick
---   full   arguments of the full run, DATA being a folder of data      time  how long that takes
---   out    does it take --out FOLDER and --pictures?
local shown = require "spec.shown"
local tool = require "spec.gates.tool"

local M = {}

local CURVES <const> = "--acquisitions random,entropy,bald,thinned,reinforced --network dense --seeds 1,2,3,4,5 "

-- What several scripts share draws nothing by itself, and run.lua of posteriordb nothing with --quick.
local HELPERS = {["experiment.lua"] = true, ["labelling.lua"] = true, ["forecasting.lua"] = true, ["run.lua"] = true}

-- Folder, script, its pictures on pages, the rest; of scripts with a row no picture goes without saying.
local ROWS = {
  {"examples/", "01_bayesian_regression.lua", "manual/regression.png", time = "half a minute"},
  {"examples/papers/bedl/", "decomposition.lua", "decomposition_moons.png decomposition_numbers.png",
   time = "half a minute"},
  {"examples/papers/bedl/", "ood.lua", "ood_bedl_pac_fashion.svg ood_bedl_pac_mean_fashion.svg",
   full = "--mnist DATA/mnist --fashion DATA/fashion-mnist --notmnist DATA/notmnist --results ood.runs",
   time = "an hour (--quick draws none)"},
  {"examples/papers/bnsde/", "lorenz.lua", "lorenz.png", full = "--results lorenz.runs", time = "10 minutes"},
  {"examples/papers/bnsde/", "lotka_volterra.lua", "lotka_volterra.png", full = "--results lotka_volterra.runs",
   time = "a minute"},
  {"examples/papers/conditioning_gap/", "gaussian.lua",
   "gap_sweeps.svg published_masks.svg two_posteriors.svg univariate_bound.svg", kept = "", time = "seconds"},
  {"examples/papers/conditioning_gap/", "mnist_rows.lua", "rows_digits_full.png rows_digits_partial.png "
   .. "rows_glyphs_full.png rows_glyphs_partial.png", quick = "--keep .",
   full = "--data DATA/mnist --keep . --results rows.runs", time = "5 hours"},
  {"examples/papers/conditioning_gap/", "traffic.lua", "traffic_futures.svg", quick = "--keep .",
   full = "--keep . --results traffic.runs", time = "7 hours, 6 of them of semi inference"},
  {"examples/papers/conditioning_gap/", "uav.lua", "uav_density.svg uav_predictions.svg", quick = "--keep .",
   full = "--keep . --results uav.runs", time = "2 hours"},
  {"examples/papers/conditioning_gap/", "where_do_the_nats_go.lua", "where_do_the_nats_go.svg", quick = "--out .",
   full = "--data DATA/mnist --out .", time = "an hour"},
  {"examples/papers/multisource/", "cameras.lua", "cameras.png cameras_seen.png", time = "2 minutes"},
  {"examples/papers/multisource/", "masks.lua", "masks.png", full = "--lr 1e-3", time = "an hour"},
  {"examples/papers/multisource/", "mixture.lua", "mixture.png", time = "half a minute"},
  {"examples/papers/multisource/", "mnist.lua", "mnist_qu_imputation.svg mnist_qu_subsets.png", quick = "--variant qu",
   full = "--variant qu --data DATA/mnist --lr 1e-3 --test 1000 --steps 2000", time = "40 minutes"},
  {"examples/papers/multisource/", "mnist.lua", "mnist_no_subsets.png", quick = "--variant no",
   full = "--variant no --data DATA/mnist --lr 1e-3 --test 1000 --steps 4000", time = "45 minutes"},
  {"examples/papers/multisource/", "mnist.lua", "mnist_tb_classes.png", quick = "--variant tb --label",
   full = "--variant tb --label --data DATA/mnist --lr 1e-3 --test 1000 --steps 2000", time = "8 minutes"},
  {"examples/papers/ral/", "ablations.lua", "convergence.svg guide.svg", full = "--data DATA --set fashion --study "
   .. "guide --network dense --labels 200 --candidates 5000 --tested 5000 --seeds 1,2,3", time = "20 minutes"},
  {"examples/papers/ral/", "curves.lua", "curves_mnist.svg",
   kept = CURVES .. "--set mnist --data DATA --results results/mnist.runs --name curves_mnist",
   full = CURVES .. "--set mnist --data DATA --results mnist.runs --name curves_mnist", time = "15 minutes"},
  {"examples/papers/ral/", "curves.lua", "curves_fashion.svg",
   kept = CURVES .. "--set fashion --data DATA --results results/fashion.runs --name curves_fashion",
   full = CURVES .. "--set fashion --data DATA --results fashion.runs --name curves_fashion", time = "15 minutes"},
  {"examples/papers/ral/", "curves.lua", "curves_lenet.svg", kept = "--acquisitions random,reinforced --seeds 1,2 "
   .. "--set mnist --data DATA --results results/mnist_lenet.runs --name curves_lenet",
   full = "--acquisitions random,reinforced --seeds 1,2 --set mnist --data DATA --results lenet.runs "
   .. "--name curves_lenet", time = "40 minutes"},
  {"examples/papers/ral/", "two_dimensions.lua", "two_dimensions.png", time = "minutes"},
  {"examples/papers/deep_filters/", "balls.lua", "", quick = "--out .", full = "--model all --out .", time = "hours"},
  {"examples/papers/vae/", "mnist.lua", "", quick = "--out .", full = "--data DATA/mnist --out .", time = "12 minutes"},
  {"examples/papers/vbp/", "gates.lua", "gates.png", time = "a minute"},
}

--- The names of the pictures that a program of a chapter saves.
function M.saved(chunk)
  local list = {}
  for name in ("\n" .. chunk):gmatch '\n%s*pn%.plot%.save%("([%w_]+%.%l+)"' do list[#list + 1] = name end
  return list
end

--- All rows: those above, chapters that draw pictures of their own, scripts whose pictures stand nowhere.
function M.rows(root)
  local list, known = {}, {}
  local committed = tool.files(root, "examples", "*.png", "*.svg")
  for _, r in ipairs(ROWS) do
    local row = {script = r[1] .. r[2], pictures = {}}
    for name in r[3]:gmatch "%S+" do row.pictures[#row.pictures + 1] = r[1] .. name end
    for _, name in ipairs {"quick", "kept", "full", "time"} do row[name] = r[name] end
    list[#list + 1], known[row.script] = row, true
  end
  for _, path in ipairs(tool.files(root, "examples", "*.lua", "*.md")) do
    local text, pictures = tool.read(root .. "/" .. path), {}
    local chapter = path:find "%.md$"
    for _, program in ipairs(chapter and shown.programs(text) or {}) do
      for _, name in ipairs(M.saved(program.chunk)) do pictures[#pictures + 1] = path:match "^.*/" .. name end
    end
    local stem = path:match "([%w_]+)%.lua$"
    for _, picture in ipairs(stem and not known[path] and committed or {}) do -- two_moons_one.png by two_moons.lua
      local name = picture:match "([%w_]+)%.%l+$"
      if picture:match "^.*/" == path:match "^.*/" and (name == stem or name:find("^" .. stem .. "_")) then
        pictures[#pictures + 1] = picture
      end
    end
    local draws = not chapter and (text:find "plot%.save%(" or text:find "experiment%.picture%(") or #pictures > 0
    if draws and not known[path] and not HELPERS[path:match "[^/]+$"] then
      local kept = chapter and "" or nil
      list[#list + 1] = {script = path, pictures = pictures, time = "its head says how long", kept = kept}
    end
  end
  for _, row in ipairs(list) do
    row.out = (tool.read(root .. "/" .. row.script) or ""):find("experiment.options(", 1, true) ~= nil
  end
  return list
end

--- Committed pictures without a row, rows whose script or picture is not there or whose script does not name the
--- picture: complaints.
function M.complaints(root)
  local found, drawn = {}, {}
  for _, row in ipairs(M.rows(root)) do
    local text = tool.read(root .. "/" .. row.script)
    if not text then found[#found + 1] = row.script .. ", which draws pictures, is not there" end
    for _, path in ipairs(row.pictures) do
      drawn[path] = true
      local stem = path:match "([%w_]+)%.%w+$"
      local known = text and (text .. (row.full or "") .. (row.kept or "")):find(stem:match "^%a+", 1, true)
      if text and not known then found[#found + 1] = ("%s does not draw %s"):format(row.script, path) end
      if not tool.read(root .. "/" .. path) then found[#found + 1] = path .. " is not there" end
    end
  end
  for _, path in ipairs(tool.files(root, "examples", "*.png", "*.svg")) do
    if not drawn[path] then found[#found + 1] = path .. ": no script draws it (spec/site/drawn_by.lua)" end
  end
  return found
end

return M
