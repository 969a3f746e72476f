--- Prints, from penumbra.h, what spec/c/calls_test.c calls: each public function with its parameters, the fields of the
--- structs that it reads, a valid value for each (of spec/c/call_values.h), and whether the header says that the
--- parameter may be NULL. A type or a parameter that no rule below knows is an error, so that every new function is
--- called or named here.
---   lua spec/calls.lua src/penumbra.h > calls.def
local tool = require "spec.gates.tool"

local text = assert(tool.read(arg[1] or "src/penumbra.h"))

-- ---- which value a parameter takes: by type, then by name ("*": any other name) ----

local VALUES = {
  ["pn_context *"] = {["*"] = "c"}, ["pn_rng *"] = {["*"] = "rng"}, ["char *"] = {["*"] = "space"},
  ["pn_tensor *"] = {["*"] = "x", index = "index", log_w = "log_w", loss = "loss", which = "place",
    times = "times", draws = "draws", mask = "mask", observed = "seen", mean = "vector", cov = "spd2", l = "spd2",
      q = "spd2",
    emission = "emission", r = "spd1", d = "one", b = "vector", concentration = "x", initial = "starts",
    transition = "moves", filtered = "signals", lengths = "positions", ancestors = "positions",
      log_increment = "weights",
    log_factor = "weights", rows = "square", ys = "tall", y0 = "vector", start = "log_w", buffer = "buffer"},
  ["pn_tensor *const *"] = {["*"] = "list", params = "parameters", part = "particles", state = "state"},
  ["pn_tensor **"] = {["*"] = "out"}, ["pn_names **"] = {["*"] = "out"}, ["pn_runtime **"] = {["*"] = "out"},
  ["pn_target **"] = {["*"] = "out"}, ["pn_filter **"] = {["*"] = "out"}, ["pn_kalman *"] = {["*"] = "out"},
  ["pn_hmm *"] = {["*"] = "out"}, ["pn_sites *"] = {["*"] = "out"}, ["pn_array *"] = {["*"] = "array_out"},
  ["int64_t *"] = {["*"] = "shape", kernel = "pair", stride = "ones", padding = "none", sizes = "layer_sizes"},
  ["int *"] = {order = "order", mapped = "order", ndim = "whole"},
  ["size_t *"] = {["*"] = "whole"}, ["uint64_t *"] = {["*"] = "whole"}, ["void *"] = {["*"] = "numbers"},
  ["double *"] = {["*"] = "numbers", log_density = "numbers_2", gradient = "numbers_4", values = "numbers_4"},
  ["char *const *"] = {["*"] = "names"},
  ["const char *"] = {["*"] = "text", script = "script", scheme = "systematic", set = "angle", option = "lr",
    form = "scalar_form",
    estimator = "renyi", spec = "spec"},
  ["pn_names *"] = {["*"] = "texts"}, ["pn_archive *"] = {["*"] = "archive"},
    ["pn_array_file *"] = {["*"] = "array_file"},
  ["pn_bijector *"] = {["*"] = "bijector"}, ["pn_bijector *const *"] = {["*"] = "bijectors"},
    ["pn_dist *"] = {["*"] = "dist"},
  ["pn_dist *const *"] = {["*"] = "dists"}, ["pn_natural *"] = {["*"] = "natural"}, ["pn_layer *"] = {["*"] = "layer"},
  ["pn_optim *"] = {["*"] = "optim"}, ["pn_weight_stream *"] = {["*"] = "stream"}, ["pn_plan *"] = {["*"] = "plan"},
  ["pn_sampler *"] = {["*"] = "sampler"}, ["pn_target *"] = {["*"] = "target"},
    ["pn_population *"] = {["*"] = "population"},
  ["pn_smc *"] = {["*"] = "smc"}, ["pn_filter *"] = {["*"] = "kalman"}, ["pn_runtime *"] = {["*"] = "runtime"},
  ["pn_context_config *"] = {["*"] = "context_config"}, ["pn_runtime_config *"] = {["*"] = "runtime_config"},
  ["pn_csv_options *"] = {["*"] = "csv_options"}, ["pn_conv2d_options *"] = {["*"] = "conv2d_options"},
  ["pn_option *"] = {["*"] = "bias_option"}, ["pn_kalman_system *"] = {["*"] = "system"},
  ["pn_site_options *"] = {["*"] = "site_options"}, ["pn_ode_config *"] = {["*"] = "ode_config"},
  ["pn_sampler_config *"] = {["*"] = "sampler_config"}, ["pn_variable *"] = {["*"] = "variable"},
  ["pn_smc_config *"] = {["*"] = "smc_config"}, ["pn_filter_model *"] = {["*"] = "filter_model"},
  ["pn_limits *"] = {["*"] = "limits"}, ["const pn_array *"] = {["*"] = "array"},
  ["struct ArrowSchema *"] = {["*"] = "arrow_schema"}, ["struct ArrowArray *"] = {["*"] = "arrow_array"},
  ["pn_beliefs *"] = {["*"] = "beliefs"}, ["pn_fused *"] = {["*"] = "fused"},
}

-- Whole and other numbers; the rest are 1.
local NUMBERS = {axis = 0, axis1 = 0, axis2 = 1, index = 0, first = 0, i = 0, ndim = 2, n = 2, nsizes = 2, nin = 1,
  nout = 1, seed = 3,
  dtype = 0, start = 0, stop = 5, mode = 1, low = 0, part = 0, m = 2, rate = 0.5, order = 0.5, delimiter = 44, k = 1,
  size = 8, rows = 2, columns = 2, steps = 3, keepdim = 0, length = 8, mark = 0, high = 9}

-- Values of single functions.
local OF = {
  pn_tensor_ref = {t = "owned"}, pn_tensor_unref = {t = "owned"}, pn_tensor_copy_out = {n = 6},
    pn_tensor_item = {t = "scalar"},
  pn_tensor_clear_grad = {t = "parameter"}, pn_with_update = {y = "loss"}, pn_update_buffers = {y = "carrier"},
  pn_param_set = {param = "parameter"}, pn_backward = {y = "loss"}, pn_grad = {y = "loss", x = "parameters"},
  pn_polygamma = {n = 1}, pn_ive = {n = 1}, pn_where = {condition = "mask"}, pn_reshape = {shape = "turned"},
  pn_slice = {count = 2}, pn_squeeze = {x = "row"}, pn_take = {index = "positions"}, pn_bucketize = {edges = "vector"},
  pn_take_add = {g = "x", index = "positions", size = 4}, pn_matmul = {y = "m"},
  pn_linear = {weight = "m", bias = "vector"}, pn_cholesky = {x = "spd"}, pn_solve_triangular = {a = "spd", b = "spd"},
  pn_cholesky_solve = {l = "spd", b = "spd"}, pn_solve = {a = "spd", b = "spd"}, pn_inverse = {x = "spd"},
  pn_logdet = {x = "spd"}, pn_det = {x = "spd"}, pn_det_sign = {x = "spd"}, pn_eigh = {x = "spd"},
  pn_cholesky_update = {l = "spd", x = "spd"}, pn_gammainc = {a = "x"}, pn_gammainccinv = {q = "x"},
    pn_betainc = {b = "x"}, pn_betaincc = {b = "x"},
  pn_betaincinv = {b = "x"}, pn_bernoulli_kl = {q = "x"}, pn_kalman_predict = {a = "spd2"},
    pn_kalman_update = {y = "one"},
  pn_kalman_step = {a = "spd2", y = "one"}, pn_kalman_root_predict = {a = "spd2"}, pn_kalman_root_update = {y = "one"},
  pn_kalman_filter = {y = "tall", observed = "all_seen"}, pn_kalman_log_prob = {y = "tall", observed = "all_seen"},
  pn_kalman_root_filter = {y = "tall", observed = "all_seen"}, pn_kalman_propagate = {a = "spd2"},
  pn_kalman_path = {a = "turns", offset = "steps"}, pn_hmm_filter = {emission = "signals"},
  pn_hmm_viterbi = {emission = "signals"}, pn_load_csv = {path = "csv"}, pn_load_csv_text = {path = "csv"},
  pn_load_npy = {path = "npy"}, pn_load_npz = {path = "npz"}, pn_load_idx = {path = "idx"},
    pn_load_idx_as = {path = "idx"}, pn_load_raw = {path = "raw", element = "element_name"},
    pn_load_image = {path = "picture"}, pn_load_chunk = {path = "raw", type = "chunk_type"},
    pn_arrow_export = {schema = "arrow_schema_out", array = "arrow_array_out"},
    pn_load_lines = {path = "csv"}, pn_save_store = {path = "store"}, pn_save_bytes = {path = "target_file"},
  pn_load_safetensors = {path = "safetensors"}, pn_array_open = {path = "safetensors", name = "array_name"},
  pn_array_take = {index = "positions"}, pn_conv2d = {x = "image", weight = "kernel"},
  pn_conv_transpose2d = {x = "image", weight = "kernel"}, pn_conv2d_weight = {x = "image", g = "corners"},
  pn_fft = {x = "square"}, pn_ifft = {x = "square"}, pn_irfft = {x = "square"},
  pn_max_pool2d = {x = "image"}, pn_avg_pool2d = {x = "image"}, pn_bijector_new = {kind = "affine_name"},
  pn_bijector_compose = {kind = "chain"}, pn_biject_to = {low = "scalar", high = "large"},
    pn_bijector_param = {name = "loc"},
  pn_dist_new = {kind = "normal_name"}, pn_dist_param = {name = "loc"}, pn_dist_mixture = {labels = "labels"},
  pn_dist_renyi = {order = 0.5}, pn_initialise = {name = "normal_name", options = "scale_option"},
    pn_layer_new = {type = "linear"},
  pn_natural_expected_log = {q = "dist"}, pn_natural_new = {form = "scalar_form"},
  pn_layer_call = {n = 1}, pn_layer_moments = {mean = "x", variance = "x"},
    pn_layer_unroll = {l = "recurrent", x = "deep"},
  pn_layer_step = {l = "recurrent"}, pn_layer_buffer = {l = "normaliser"}, pn_layer_buffer_name = {l = "normaliser"},
  pn_optim_new = {type = "sgd", options = "lr_option"}, pn_optim_step = {loss = "optim_loss"},
    pn_optim_apply = {o = "ready"}, pn_optim_set_state = {value = "optim_state"},
  pn_optim_state_name = {size = 64}, pn_estimate = {n = 1, names = "log_w_names", values = "scores",
    options = "order_option"},
  pn_gaussian_sites = {y = "square"}, pn_transport = {cost = "cost", a = "from", b = "to"},
  pn_image_transport = {a = "pictures", b = "pictures"}, pn_weight_stream_new = {draws = 10},
  pn_weight_stream_get = {what = "log_mean"}, pn_capture_end = {out = "captured"}, pn_plan_run = {nin = 2},
  pn_plan_map = {p = "vector_plan"}, pn_vmap_end = {result = "mapped"},
    pn_odeint = {f = "slope", pullback = "pullback", n = 1, params = "params"},
  pn_sampler_new = {plan = "density"}, pn_target_new = {density = "density", values = "vector_plan"},
  pn_population_new = {plan = "vector_plan"}, pn_smc_assign = {s = "conditional", ancestor = "place"},
  pn_smc_get = {what = "log_weights"}, pn_smc_restore = {weighed = "weighed_state"}, pn_smc_keep = {s = "weighed"},
  pn_resample = {log_w = "weights"}, pn_filter_new = {first = "first", step = "step", first_missing = "first_missing",
    step_missing = "step_missing"},
  pn_filter_observe = {n = 1, increment = "numbers_2"}, pn_filter_save = {path = "target_file"},
    pn_filter_load = {path = "filter_file"},
  pn_save_csv = {path = "target_file"}, pn_save_npy = {path = "target_file"}, pn_save_npz = {path = "target_file"},
  pn_save_idx = {path = "target_file"}, pn_save_safetensors = {path = "target_file"}, pn_permute = {order = "order"},
  pn_runtime_run_file = {path = "script_file"}, pn_runtime_call = {name = "function_name"},
  pn_runtime_set_number = {name = "number_name"}, pn_runtime_get_number = {name = "number_name"},
  pn_runtime_set_array = {name = "array_name"}, pn_runtime_get_array = {name = "array_name"},
  pn_runtime_target = {rt = "full_runtime", name = "target_name"},
    pn_runtime_filter = {rt = "full_runtime", name = "filter_name"},
  pn_target_of_function = {n = 1}, pn_hmm_sample = {n = 2}, pn_linear_recurrence = {a = "x"},
}

-- Numbers that say how long a list of the caller's is: beyond that it cannot be checked.
local COUNTS = {n = "list", nsizes = "list", nin = "list", nout = "list", n_variables = "list", parts = "list",
  rows = "numbers",
  length = "list", size = "space", sources = "numbers", num_layers = "list"}

-- ---- reading the header ----

local KINDS = {int = "i", int64_t = "l", size_t = "u", uint64_t = "u", double = "d", char = "b", unsigned = "i",
  pn_dtype = "i",
  pn_mode = "i", pn_status = "i", pn_ode_method = "i"}

local function squeeze(s) return (s:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")) end

--- Type and name of a parameter such as `const int64_t kernel[2]`.
local function declared(s)
  local before, name, array = squeeze(s):match "^(.-)([%w_]+)(%[?[%w_]*%]?)$"
  if array:find "%w" and not array:find "%[" then error(s) end
  return squeeze(before) .. (array ~= "" and " *" or ""), name
end

local structs = {}
for body, name in tool.code(text):gmatch "typedef struct [%w_]* ?(%b{}) ([%w_]+);" do
  local fields = {}
  for line in body:sub(2, -2):gmatch "[^;]+" do
    local type, rest = squeeze(line):gsub("^const ", ""):match "^([%w_]+)(.*)$"
    for item in (rest or ""):gmatch "[^,]+" do
      fields[#fields + 1] = {type = type, pointer = item:find "%*", array = item:find "%[",
        name = item:match "([%w_]+)%s*%[" or item:match "([%w_]+)%s*$"}
    end
  end
  structs[name] = fields
end

--- Fields of a struct as rows, those of structs within it among them.
local function rows(name, prefix, of, list)
  for _, f in ipairs(structs[name]) do
    local path = prefix .. f.name
    local kind = f.pointer and "p" or KINDS[f.type] or (f.type == "pn_allocator" or f.type == "pn_output") and "p"
    if kind then
      local at = f.array and "[0]" or ""
      list[#list + 1] = ('    {\'%s\', %d, "%s", offsetof(%s, %s), sizeof(((%s *)0)->%s%s)},'):format(kind,
        (name == "pn_array" and f.name == "shape" or COUNTS[f.name] and name ~= "pn_axes") and 1 or 0, path, of,
          path .. at, of, path, at)
    else
      assert(structs[f.type], "spec/calls.lua: type " .. f.type .. " of " .. name .. "." .. f.name)
      rows(f.type, path .. ".", of, list)
    end
  end
  return list
end

-- ---- what the header says about NULL ----

local comments, section, last = {}, "", ""
do
  local at = 1
  while true do
    local from, to = text:find("/%*.-%*/", at)
    local api = text:find("\nPN_API", at, true)
    local define = text:find("\ntypedef struct", at, true)
    if not api then break end
    if from and from < api and not (define and define < from and define < api) then
      local comment = text:sub(from, to)
      if comment:find "^/%* %-%-%-%-" then section = comment last = "" else last = comment end
      at = to + 1
    elseif define and define < api then
      local name = text:match("^\ntypedef struct ([%w_]+)", define)
      local stop = text:find(";", text:find("^\ntypedef struct [%w_]+ %b{}", define) and
                   select(2, text:find("^\ntypedef struct [%w_]+ %b{}", define)) or define, true)
      comments[name] = (comments[name] or "") .. last .. text:sub(define, stop)
      if not text:sub(define, stop):find "{" then section = section .. last end
      at = stop
    else
      local stop = text:find(";", api, true)
      local name = text:sub(api, stop):match "([%w_]+)%s*%("
      local beside = text:match("^; (/%*[^\n]*%*/)", stop) or ""
      comments[name] = {own = last .. " " .. beside, section = section}
      at = stop + 1
    end
  end
end

--- The names that a comment says may be NULL: "x NULL: ...", "x (NULL: ...)", "x and y may be NULL".
local function named(comment)
  local names = {}
  local plain = squeeze(comment:gsub("\n %*", "\n"):gsub("[`%*]", ""))
  for name in plain:gmatch "([%w_]+) %(?NULL:" do names[name] = true end
  for name in plain:gmatch "([%w_]+) %(may be NULL" do names[name] = true end
  for list in plain:gmatch "([%w_, ]+) may be NULL" do
    local last_one = list:match "[%w_]+$"
    local all = (list:match "[%w_, ]+ and [%w_]+$" or last_one):gsub(" and ", ", ")
    for name in all:gmatch "([%w_]+)%f[,%z]" do names[name] = true end
    names[last_one] = true
  end
  return names
end

--- Does the header say that this parameter may be NULL: above the function, at the head of its section or of the file?
local function may_be_null(name, parameter, type)
  if parameter == "rng" and type == "pn_rng *" and not name:find "^pn_rng_" then return true end
  if type == "pn_option *" or parameter == "config" and name ~= "pn_smc_new"
    or parameter == "options" then return true end
  if name:find "_free$" or name:find "_unref$" or name:find "_close$" or name:find "_ref$" then return true end
  local comment = comments[name]
  return (named(comment.own)[parameter] or named(comment.section)[parameter]) == true
end

-- ---- printing ----

local function print_function(result, name, arguments, list)
  local list_of, calls = {}, {}
  if arguments ~= "void" then
    for part in arguments:gmatch "[^,]+" do
      local full, parameter = declared(part)
      local plain = squeeze((full:gsub("^const ", "")))
      local struct = structs[plain:match "^([%w_]+) %*$" or ""]
      local value, number = "NULL", "0"
      local kind, cast, fields
      local of = (OF[name] or {})[parameter]
      if full == "pn_axes" then
        kind, value, cast = "a", "value_axes", ("*(const pn_axes *)v[%d].p"):format(#list_of)
        fields = {"pn_axes", 1}
      elseif full == "pn_density" then
        kind, cast = "f", ("v[%d].f"):format(#list_of)
      elseif KINDS[full] then
        kind = KINDS[full]
        local n = of or NUMBERS[parameter] or 1
        assert(type(n) == "number", name .. ": " .. parameter)
        number = tostring(n)
        cast = full == "double" and ("v[%d].d"):format(#list_of) or ("(%s)v[%d].i"):format(full, #list_of)
      else
        kind = "p"
        local table_of = VALUES[full] or VALUES[plain]
        assert(table_of, ("spec/calls.lua: no value of type %s, for %s of %s"):format(full, parameter, name))
        value = "value_" .. assert(of or table_of[parameter] or table_of["*"], name .. ": " .. parameter)
        cast = ("(%s)v[%d].p"):format(full, #list_of)
        local struct_name = plain:match "^([%w_]+) %*$"
        if struct and (full:find "^const" or plain == "pn_array *") then
          fields = {struct_name, struct_name == "pn_option" and 2 or 1}
        end
      end
      if fields and not list.done[fields[1]] then
        list.done[fields[1]] = true
        list.structs[#list.structs + 1] = ("static const field fields_%s[] = {\n%s\n};\n"):format(fields[1],
          table.concat(rows(fields[1], "", fields[1], {}), "\n"))
      end
      local new = plain:match "^(pn_[%w_]+) %*%*$"
      local may = kind == "p" and may_be_null(name, parameter, plain)
      list_of[#list_of + 1] = ('    {\'%s\', %d, %d, "%s", %s, %s, %s, %s, %s},'):format(kind, may and 1 or 0,
        COUNTS[parameter] and 1 or 0,
        parameter, value, number, fields and "fields_" .. fields[1] or "NULL",
        fields and ("COUNT(fields_%s), %d * sizeof(%s)"):format(fields[1], fields[2], fields[1]) or "0, 0",
        new and new ~= "pn_tensor" and "release_" .. new or "NULL")
      calls[#calls + 1] = cast
    end
  end
  local with_context = arguments:find "^pn_context %*c" ~= nil
  local object = result:match "^(pn_[%w_]+) %*$"
  local answer = "q"
  if object and with_context and name ~= "pn_context_rng" then answer = "o" end
  if result == "pn_status" then answer = with_context and name ~= "pn_context_status" and "s" or "t" end
  if result == "pn_status" and not with_context and not name:find "^pn_runtime_[a-z]+" then answer = "q" end
  if name == "pn_context_status" or name == "pn_runtime_status" then answer = "q" end
  local release = "NULL"
  if object and (answer == "o" and object ~= "pn_tensor" or name:find "_ref$" or name == "pn_context_new") then
    release = "release_" .. object
  end
  local consumes = (name:find "_free$" or name:find "_unref$" or name:find "_close$") and 1 or 0
  if name == "pn_scope_close" then consumes = 0 end
  local call = ("%s(%s)"):format(name, table.concat(calls, ", "))
  local assign = result == "void" and call or result:find "%*" and ("r->p = (void *)(uintptr_t)%s"):format(call) or
                 result == "double" and "r->d = " .. call or "r->i = (int64_t)" .. call
  list.calls[#list.calls + 1] =
    ("static void call_%s(const value *v, value *r) {\n  (void)v, (void)r;\n  %s;\n}\n"):format(name, assign)
  list.functions[#list.functions + 1] = (
    '  {"%s", call_%s, \'%s\', \'%s\', %d, %s, parameters_%s, %d},'):format(name, name, answer,
    result:find "%*" and "p" or result == "double" and "d" or result == "void" and "v" or "i", consumes, release,
      name, #list_of)
  list.parameters[#list.parameters + 1] = ("static const parameter parameters_%s[] = {\n%s\n    {0}};\n"):format(name,
    table.concat(list_of, "\n"))
end

local list = {structs = {}, calls = {}, parameters = {}, functions = {}, done = {}}
for declaration in tool.code(text):gmatch "\nPN_API%s+([^;]+);" do
  local result, name, arguments = squeeze(declaration):match "^(.-)([%w_]+)%s*%((.*)%)$"
  print_function(squeeze(result), name, arguments, list)
end
io.write(table.concat(list.structs), table.concat(list.calls), table.concat(list.parameters),
  "static const function functions[] = {\n", table.concat(list.functions, "\n"), "\n};\n")
