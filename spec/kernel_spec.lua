--- The notebook kernel: hashes against published vectors and hostile messages by a program of its own, built under
--- sanitisers; the kernel itself driven by Jupyter's client, Jupyter's test of kernels and nbclient
--- (spec/kernel/front_end.py). Skipped where the kernel was not built or Jupyter's client is not installed.
local build = os.getenv "BUILD" or "build"
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir " .. folder)

--- Runs a shell command; returns its exit code and output.
local function sh(line, ...)
  local pipe = assert(io.popen("exec 2>&1 </dev/null; " .. line:format(...)))
  local out = pipe:read "a"
  local _, _, code = pipe:close()
  return code or 0, out
end

local function must(line, ...)
  local code, out = sh(line, ...)
  assert(code == 0, line:format(...) .. "\n" .. out)
  return out
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local built = sh("test -x %s/penumbra-kernel", build) == 0

--- A Python that has Jupyter's client and what tests with it, or nil.
local function find_python()
  for _, name in ipairs { "/usr/bin/python3", "python3" } do
    if sh("%s -c 'import jupyter_client, jupyter_kernel_test, nbclient'", name) == 0 then return name end
  end
end
local python = built and find_python()

local SANITISERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
local SOURCES = "spec/kernel/wire.c src/kernel/sha256.c src/kernel/connection.c src/kernel/wire_message.c "
  .. "src/kernel/json_value.c"

local where_built = built and it or pending
local where_jupyter = python and it or pending

-- What front_end.py checks, in its order.
local CHECKS = {
  "tells_what_it_is", "shows_the_expression_that_ends_a_cell", "counts_cells", "answers_user_expressions",
  "streams_what_is_printed", "reports_errors_with_a_traceback", "drops_the_cells_behind_one_that_failed",
  "shows_tensors_and_models_as_tables", "draws_pictures_in_the_cell", "says_why_there_is_no_picture",
  "completes_names", "explains_names", "tells_whether_a_cell_is_complete", "remembers_cells",
  "reads_input_through_the_front_end", "ends_what_runs_and_keeps_the_state",
  "answers_control_and_heartbeat_while_a_cell_runs", "knows_no_comms", "survives_what_is_malformed",
  "ends_and_begins_anew", "ends_with_who_started_it", "jupyter_kernel_test", "notebook filter.ipynb",
  "notebook regression.ipynb" }

describe("the kernel", function()
  teardown(function() sh("rm -rf %s", folder) end)

  where_built("hashes as published and reads messages, hostile ones too (wire.c, needs libcjson)", function()
    must("${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -g -fwrapv %s $(pkg-config --cflags lua5.4 libcjson) "
      .. "-o %s/wire %s $(pkg-config --libs lua5.4 libcjson) -lpthread", SANITISERS, folder, SOURCES)
    local out = must("UBSAN_OPTIONS=print_stacktrace=1 %s/wire 1", folder)
    assert.matches("\n0 failures\n$", out)
  end)

  where_built("is installed whole or not at all", function()
    local path = folder .. "/share/jupyter/kernels/penumbra/kernel.json"
    assert.equal(path .. "\n", must("%s/penumbra kernel install --prefix %s", build, folder))
    local spec = read(path)
    assert(spec:find('"{connection_file}"', 1, true) and spec:find('"kernel"', 1, true), spec)
    assert.matches('"interrupt_mode":%s*"message"', spec)
    assert.equal("kernel.json\n", must("ls %s/share/jupyter/kernels/penumbra", folder)) -- nothing temporary is left
    must("%s/penumbra kernel install --prefix=%s --name other-1 --display-name 'A \"name\"'", build, folder)
    assert.matches('"display_name":%s*"A \\"name\\""', read(folder .. "/share/jupyter/kernels/other-1/kernel.json"))
    assert.equal(folder .. "/data/kernels/penumbra/kernel.json\n",
      must("JUPYTER_DATA_DIR=%s/data %s/penumbra kernel install --user", folder, build))
    assert.equal(folder .. "/user/.local/share/jupyter/kernels/penumbra/kernel.json\n",
      must("env -u JUPYTER_DATA_DIR -u XDG_DATA_HOME HOME=%s/user %s/penumbra kernel install", folder, build))
    must("mkdir -p %s/no/share/jupyter/kernels/penumbra/kernel.json", folder) -- a folder in its place
    for _, case in ipairs { { "--name ../x", "small letters" }, { "--name ''", "small letters" },
      { "--name A", "small letters" }, { "--bad", "unknown option" }, { "--name", "without its value" },
      { "--user --prefix /x", "exclude" },
      { "--prefix " .. folder .. "/no", "cannot be written" }, { "--prefix /dev/null", "cannot be made" } } do
      local code, out = sh("%s/penumbra kernel install %s", build, case[1])
      assert(code == 1 and out:find(case[2], 1, true), case[1] .. ": " .. out)
    end
    assert.equal("kernel.json\n", must("ls %s/no/share/jupyter/kernels/penumbra", folder))
  end)

  where_built("says what is wrong with a connection file", function()
    for text, want in pairs { ["{"] = "no JSON object", ["[]"] = "no JSON object", ["{}"] = "transport must be",
      ['{"transport": "tcp", "ip": "127.0.0.1", "key": "k"}'] = "signature_scheme" } do
      local file = assert(io.open(folder .. "/connection", "w"))
      file:write(text)
      file:close()
      local code, out = sh("%s/penumbra kernel run %s/connection", build, folder)
      assert(code == 1 and out:find(want, 1, true), text .. ": " .. out)
    end
    local code, out = sh("%s/penumbra kernel run %s/nothing", build, folder)
    assert(code == 1 and out:find("cannot be opened", 1, true), out)
    for _, line in ipairs { "", "run", "what" } do
      code, out = sh("%s/penumbra kernel %s", build, line)
      assert(code == 1 and out:find("usage: penumbra kernel install", 1, true), out)
    end
  end)

  it("is no part of the command and of the library", function()
    must("cp %s/penumbra %s/penumbra", build, folder)
    local code, out = sh("%s/penumbra kernel install", folder)
    assert(code == 1 and out:find("libzmq3-dev", 1, true), out)
    local function needs(name) return must("objdump -p %s/%s", build, name):find "NEEDED%s+lib[zc][mj][qs]" end
    assert.is_nil(needs "penumbra" or needs "libpenumbra.so" or needs "lua/penumbra/core.so")
    assert(not built or needs "penumbra-kernel")
  end)

  describe("by its front ends", function()
    local out, said = "", {}
    setup(function()
      if not python then return end
      must("%s/penumbra kernel install --prefix %s", build, folder)
      local _
      _, out = sh("env -u JUPYTER_DATA_DIR -u JUPYTER_RUNTIME_DIR -u XDG_DATA_HOME JUPYTER_PATH=%s/share/jupyter "
        .. "HOME=%s PYTHONDONTWRITEBYTECODE=1 timeout 300 %s spec/kernel/front_end.py %s examples/notebooks/*.ipynb",
        folder, folder, python, folder)
      for line in out:gmatch "[^\n]+" do
        local name = line:match "^ok (.+)$"
        if name then said[name] = true end
      end
    end)

    for _, name in ipairs(CHECKS) do
      where_jupyter(name:gsub("_", " "), function()
        assert(said[name], name .. ":\n" .. (out:match("(FAIL " .. name:gsub("%p", "%%%0") .. ".*)$") or out))
      end)
    end
    where_jupyter("by nothing else", function()
      local n = 0
      for _ in pairs(said) do n = n + 1 end
      assert.equal(#CHECKS, n)
      assert.matches("interrupted after at most [%d.]+ s", out)
      assert.matches("jupyter_kernel_test: 12 tests, skipped: test_pager\n", out)
    end)
  end)
end)
