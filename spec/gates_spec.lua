--- Each gate of spec/gates catches a fault planted in a copy of this tree (`make check` shows that the tree
--- itself passes).
local tool = require "spec.gates.tool"
local build = os.getenv "BUILD" or "build"
local cc = os.getenv "CC" or "cc"

local function must(line, ...)
  local ok, out = tool.run(line, ...)
  assert(ok, out)
  return out
end

describe("make check", function()
  local tmp, copy

  -- Each test has a copy of hard links to one copy of the tree: what is changed is written anew.
  setup(function()
    tmp = must("mktemp -d"):gsub("%s+$", "")
    local folders = "src lua spec rockspec $(ls -d examples 2>&-)"
    must("mkdir %s/tree && cp -r Makefile README.md .ci .clang-format .luacheckrc %s %s/tree/", tmp, folders, tmp)
  end)
  teardown(function() must("rm -rf %s", tmp) end)
  before_each(function()
    copy = tmp .. "/copy"
    must("cp -rl %s/tree %s", tmp, copy)
  end)
  after_each(function() must("rm -rf %s", copy) end)

  local function write(path, ...)
    os.remove(path)
    local file = assert(io.open(path, "w"))
    file:write(...)
    file:close()
  end

  local function add(path, text, at_front)
    path = copy .. "/" .. path
    local old = tool.read(path) or ""
    write(path, at_front and text or old, at_front and old or text)
  end

  --- Replaces plain text once.
  local function edit(path, from, to)
    local text = assert(tool.read(copy .. "/" .. path), path)
    local first, last = text:find(from, 1, true)
    assert(first, from .. " is not in " .. path)
    write(copy .. "/" .. path, text:sub(1, first - 1), to, text:sub(last + 1))
  end

  --- For gates that run a tool over every file: the lowest layer, the public header and Lua's modules of the first
  --- level are enough of a tree (`make check` has the tool go over all).
  local function small()
    must("cd %s && find src -mindepth 1 -maxdepth 1 ! -name base ! -name penumbra.h -exec rm -rf {} +", copy)
    must("cd %s && rm -rf spec examples lua/penumbra/*/", copy)
  end

  --- A build folder that holds one object made from the given C text.
  local function object(place, text)
    must("mkdir -p %s/build/obj/%s", copy, place:match "^(.*)/")
    add("build/fault.c", text)
    must("%s -O2 -fPIC -c %s/build/fault.c -o %s/build/obj/%s", cc, copy, copy, place)
    return copy .. "/build"
  end

  --- The gate complains about the copy in words that hold each of the expected texts.
  local function caught_in(folder, name, ...)
    local text = table.concat(require("spec.gates." .. name)(copy, folder), "\n")
    for _, expected in ipairs {...} do
      assert(text:find(expected, 1, true), ("%s did not say: %s\nbut: %s"):format(name, expected, text))
    end
  end
  local function caught(name, ...) caught_in(build, name, ...) end

  it("layers: an include from above", function()
    add("src/base/context.c", '#include "../tensor/tensor.h"\n')
    caught("layers", "src/base/context.c", "layer base includes ../tensor/tensor.h above it")
  end)
  it("layers: a symbol from above", function()
    local folder = object("base/fault.o", "int pn_above(void); int f(void); int f(void) { return pn_above(); }\n")
    must("mkdir -p %s/obj/smc", folder)
    must("echo 'int pn_above(void); int pn_above(void) { return 1; }' > %s/above.c", folder)
    must("%s -c %s/above.c -o %s/obj/smc/above.o", cc, folder, folder)
    caught_in(folder, "layers", "base/fault.o uses pn_above of smc/above.o above it")
  end)
  it("layers: two rooms that need each other", function()
    local folder
    for room, text in pairs { one = "int a(void), b(void); int a(void) { return b(); }\n",
                              two = "int a(void), b(void); int b(void) { return a(); }\n" } do
      must("rm -f %s/build/fault.c", copy)
      folder = object(("nn/%s/fault.o"):format(room), text)
    end
    caught_in(folder, "layers", "nn/one and nn/two need each other")
  end)
  it("floors: a require from above, inside a function, of a part's own face, in a circle", function()
    add("lua/penumbra/form.lua", 'local above = require "penumbra.nn"\n', true)
    add("lua/penumbra/array.lua", '-- require "penumbra.smc"\nlocal s = [[require "penumbra.smc"]]\n'
      .. 's = "require \\"penumbra.smc\\""\nfor _ = 1, 2 do s = require "penumbra.array.order" end\n', true)
    add("lua/penumbra/smc.lua", 'local function later() return require "penumbra.smc.hmm" end\n', true)
    add("lua/penumbra/smc/hmm.lua", 'local function f() if f then f() end return require("penumbra.estimate") end\n'
      .. 'local function g(name) return require(name) end\nlocal face = require "penumbra.smc"\n', true)
    add("lua/penumbra/first.lua", 'local second = require "penumbra.second"\n')
    add("lua/penumbra/second.lua", 'local first = require("penumbra.first")\n')
    caught("floors", "form.lua:1: requires penumbra.nn from a floor above",
      "hmm.lua:1: requires penumbra.estimate inside a function",
      "hmm.lua:2: requires a computed name inside a function",
      "hmm.lua:3: requires penumbra.smc, whose part it is",
      "a circle: penumbra.first -> penumbra.second -> penumbra.first")
    local text = table.concat(require "spec.gates.floors"(copy, build), "\n")
    for _, fine in ipairs { "array.lua", "smc.lua" } do assert(not text:find(fine, 1, true), text) end
  end)
  it("names: a basename that stands twice", function()
    must("mkdir -p %s/src/nn/more && touch %s/src/nn/more/context.c %s/lua/penumbra/nn/optim.lua", copy, copy, copy)
    caught("names", "context.c: src/base/context has the name already", "optim has the name already")
  end)
  it("layers: Lua's header below src/lua", function()
    add("src/autodiff/op/op.c", "#include <lua.h>\n")
    caught("layers", "layer autodiff includes Lua's lua.h")
  end)
  it("layers: a folder that is no layer", function()
    must("mkdir %s/src/extra && touch %s/src/extra/a.c", copy, copy)
    caught("layers", "src/extra is no layer")
  end)

  it("lists: a row without descriptor", function()
    add("src/autodiff/op/op.def", "X(no_such_row)\n")
    caught("lists", "no_such_row has no descriptor pni_op_no_such_row", "no_such_row has no values below spec/golden")
  end)
  it("lists: a descriptor without row", function()
    edit("src/autodiff/op/op.def", "V(matmul, matrices)", "")
    caught("lists", "pni_op_matmul has no row")
  end)
  it("lists: a row that stands there twice", function()
    add("src/autodiff/op/op.def", "X(matmul)\n")
    caught("lists", "matmul stands there twice")
  end)

  it("symbols: an export of another name", function()
    must("mkdir -p %s/build", copy)
    add("build/fault.c", "int helper(void) { return 1; }\n")
    must("%s -shared -fPIC %s/build/fault.c -o %s/build/libpenumbra.so.0", cc, copy, copy)
    caught_in(copy .. "/build", "symbols", "helper is exported, but its name")
  end)
  it("symbols: exported but not declared, declared but not exported", function()
    edit("src/penumbra.h", "PN_API void pn_context_trim(", "void pn_context_trim(")
    add("src/base/context.h", "/* no such function */\nPN_API int pn_no_such(void);\n")
    caught("symbols", "pn_context_trim is exported, but no header", "pn_no_such is PN_API, but not exported")
  end)

  it("imports: printing, exiting, jumping, asserting", function()
    local folder = object("base/fault.o", [[
#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
jmp_buf *there;
int f(int x) { assert(x); printf("%d\n", x); fputs("a", stderr); if (x > 3) longjmp(*there, 1); exit(x); }
]])
    local function says(name) return "base/fault.o imports " .. name end
    caught_in(folder, "imports", says "printf", says "exit", says "longjmp", says "__assert_fail", says "stderr")
  end)
  it("imports: Lua below src/lua", function()
    local folder = object("nn/fault.o", "int lua_gettop(void *); int f(void *L) { return lua_gettop(L); }\n")
    caught_in(folder, "imports", "nn/fault.o imports lua_gettop below src/lua")
  end)

  it("opening: files opened elsewhere than below a root", function()
    local folder = object("nn/fault.o", [[
#include <fcntl.h>
#include <stdio.h>
int f(const char *path) { return open(path, O_RDONLY) + (fopen(path, "r") != 0) + remove(path); }
]])
    local function says(name) return "nn/fault.o calls " .. name .. ": files are opened by" end
    caught_in(folder, "opening", says "open", says "fopen", says "remove")
  end)

  it("allocates: memory beside the account", function()
    local folder = object("nn/fault.o", [[
#include <stdlib.h>
#include <string.h>
int LAPACKE_dgesv(int, int), LAPACKE_dgesv_work(int, int);
static int by(const void *a, const void *b) { return memcmp(a, b, 8); }
char *f(char *s) { qsort(s, 2, 8, by); return LAPACKE_dgesv(1, 2) + LAPACKE_dgesv_work(1, 2) ? strdup(s) : malloc(8); }
]])
    local function says(name) return "nn/fault.o imports " .. name end
    caught_in(folder, "allocates", says "qsort: does it take", says "strdup: does it take",
      says "LAPACKE_dgesv: does it take", says "malloc, which takes memory beside the account")
    for _, text in ipairs(require "spec.gates.allocates"(copy, folder)) do assert.falsy(text:find "work") end
  end)

  it("raw: what may run a metamethod, and what is listed in vain", function()
    add("src/lua/arg.c", 'int at(lua_State *L) { return lua_getfield(L, 1, "x"); } /* lua_arith(L) */\n')
    add("src/lua/tensor/bind_random.c", "void *make(lua_State *L) { return lua_newuserdatauv(L, 8, 0); }\n")
    add("spec/gates/calls_lua.txt", "src/lua/arg.c lua_len of nothing\nsrc/lua/arg.c lua_call\n")
    caught("raw", "src/lua/arg.c calls lua_getfield", "src/lua/tensor/bind_random.c calls lua_newuserdatauv",
      "src/lua/arg.c lua_len is not there", "no reason given: src/lua/arg.c lua_call")
  end)

  it("globals: initialised, zero, static, thread-local", function()
    local folder = object("tensor/fault.o", [[
int first = 1;
static int second;
static _Thread_local int fourth;
int f(void) { static int third = 3; return first++ + second++ + third++ + fourth++; }
static const char *const fine[] = {"a", "b"};
const char *g(int i) { return fine[i]; }
]])
    local function says(name) return "tensor/fault.o: " .. name end
    caught_in(folder, "globals", says "first", says "second", says "third", says "fourth")
    for _, text in ipairs(require "spec.gates.globals"(copy, folder)) do assert.falsy(text:find "fine") end
  end)

  it("library_size: room for more than there is", function()
    must("mkdir %s/build", copy)
    add("build/fault.c", "__attribute__((visibility(\"default\"))) const char fault[4000000] = {1};\n")
    must("%s -shared -fPIC %s/build/fault.c -o %s/build/libpenumbra.so.0", cc, copy, copy)
    if #tool.lines("readelf -h %s/build/libpenumbra.so.0 | grep X86-64", copy) == 0 then return end
    caught_in(copy .. "/build", "library_size", "libpenumbra.so.0 has", "MiB without symbols, limit")
  end)

  it("headers: one that needs another", function()
    small()
    add("src/base/fault.h", "int64_t pni_fault(pn_context *c);\n")
    caught("headers", "src/base/fault.h does not compile alone")
  end)
  it("headers: a public one that C++ refuses", function()
    small()
    edit("src/penumbra.h", "typedef enum pn_dtype", "int pn_new(int class);\ntypedef enum pn_dtype")
    caught("headers", "src/penumbra.h does not compile alone")
  end)

  it("documented: a C function without comment", function()
    edit("src/penumbra.h", "/* Seeds the context's default generator. */\n", "\n")
    caught("documented", "pn_seed has no comment")
  end)
  it("documented: a section that the header's index does not have", function()
    edit("src/penumbra.h", "/* ---- products ---", "/* ---- sums ---")
    caught("documented", "the index has 'products' where section 'sums' stands")
  end)
  it("documented: a Lua function without comment", function()
    add("lua/penumbra/fault.lua", "local m = {}\n\nfunction m.f() return 1 end\nreturn m\n")
    caught("documented", "m.f has no --- comment")
  end)

  it("bound: a public function Lua cannot reach, a stale line in the list", function()
    add("src/penumbra.h", "PN_API int pn_no_such(void);\n")
    add("spec/gates/c_only.txt", "pn_never_was  because\npn_dtype_size\npn_exp  an operation\n")
    caught("bound", "pn_no_such is neither bound", "pn_never_was does not exist", "no reason given: pn_dtype_size",
      "pn_exp is bound after all")
  end)

  it("swept: a builder whose allocations nobody fails", function()
    edit("src/penumbra.h", "PN_API pn_tensor *pn_neg(", "PN_API pn_tensor *pn_no_such(pn_context *c, int n);\n"
      .. "PN_API pn_tensor *pn_neg(")
    caught("swept", "pn_no_such stands in no allocation-failure sweep")
  end)

  it("format: a line out of shape", function()
    small()
    add("src/base/context.c", "int  pni_fault( void ){return 1 ;}\n")
    caught("format", "src/base/context.c")
  end)

  it("luacheck: a global set", function()
    small()
    add("lua/penumbra/fault.lua", "fault = 1\n")
    caught("luacheck", "fault.lua:1:1")
  end)

  it("fast_math: a flag, a pragma", function()
    edit("Makefile", "-std=c11", "-std=c11 -ff" .. "ast-math")
    add("src/math/special.c", '#pragma GCC optimize("-Of' .. 'ast")\n')
    caught("fast_math", "Makefile", "src/math/special.c")
  end)

  it("clang: a warning", function()
    if #tool.lines "command -v clang 2>&-" == 0 then pending "clang is not there" end
    small()
    add("src/base/memory.c", "int pni_fault(double x);\nint pni_fault(double x) { return !(x = 1 + x) || x; }\n")
    caught("clang", "src/base/memory.c:", "warning")
  end)

  it("sizes: file, header, function, folder", function()
    add("src/base/long.c", ("int a;\n"):rep(601))
    add("src/base/long.h", ("int a;\n"):rep(201))
    add("src/base/body.c", "static int f(int x,\n             int y) {\n" .. ("  x++;\n"):rep(60) .. "}\n")
    must("for i in $(seq 16); do touch %s/src/base/a$i.c %s/src/base/b$i.c; done", copy, copy)
    caught("sizes", "src/base/long.c has 601 lines", "src/base/long.h has 201 lines",
      "src/base/body.c:2: f has 62 lines", "src/base holds")
  end)

  it("words: unfinished marks, machine paths, skipped specs", function()
    add("src/base/fault.c", "/* TO" .. "DO: later */\nconst char *p = \"/ho" .. "me/me/x\";\n")
    add("spec/fault_spec.lua", "describe('a', function()\n  pend" .. "ing('b')\nend)\n")
    caught("words", "src/base/fault.c:1: says", "src/base/fault.c:2: says", "spec/fault_spec.lua:2: skips a spec")
  end)

  it("tree: a stray file, a nameless folder", function()
    must("touch %s/notes.txt && mkdir %s/src/util", copy, copy)
    caught("tree", "notes.txt does not belong", "src/util")
  end)

  it("readme_tables: a line of a table with more cells than its heading, or fewer", function()
    add("README.md", "\n| a | b |\n|---|---|\n| `x|y` \\| | 2 |\n| 1 | 2 | 3 |\n| 1 |\n")
    caught("readme_tables", "3 cells under a heading of 2", "1 cells under a heading of 2")
  end)
  it("readme_tables: a table that is not what the rows give", function()
    edit("examples/manual/operations.md", "\n| `exp(x)`", "\n| `expo(x)`")
    caught("readme_tables", "the tables differ")
    edit("examples/manual/operations.md", "rows: op", "rows: ops")
    caught("readme_tables", "no table for rows of kind op")
    edit("src/penumbra.h", "gamma(concentration: positive", "gamma(shape: positive")
    caught("readme_tables", "src/penumbra.h: the tables differ")
  end)

  it("files_named: a comment that names a file that is gone", function()
    edit("src/smc/ancestry.c", "ancestry.c:", "ancestor.c:")
    add("lua/penumbra/form.lua", "local told = \"-\" .. \"gone.lua\" -- as nn/no_such.lua and form_spec do\n")
    add("spec/golden/math/fit.py", "# see fitted.py, and nn/layers.h, math/fourier.py\n")
    add("src/nn/option.h", "/* as ../base/context.h does it, and ../no/context.h */\n")
    caught("files_named", "names ancestor.c, which", "names nn/no_such.lua, which", "names form_spec.lua, which",
      "names fitted.py, which", "names nn/layers.h, which", "names ../no/context.h, which")
    local text = table.concat(require "spec.gates.files_named"(copy, build), "\n")
    for _, name in ipairs { "../base/context.h", "fourier.py", "gone.lua" } do
      assert(not text:find(name, 1, true), text)
    end
  end)
  it("torn: a short line between two long ones", function()
    local long = ("word "):rep(20)
    add("lua/penumbra/form.lua", ("--- %s\n--- a torn\n--- %s\nlocal torn = 1\n"):format(long, long))
    add("src/nn/option.h", ("/*\n** %s\n** torn too\n** %s\n*/\n"):format(long, long))
    add("lua/penumbra/nn.lua", ("--- %s\n--- its end.\n--- %s\n---     code\nlocal whole = 1\n"):format(long, long))
    caught("torn", "form.lua:", "a torn line: a torn", "a torn line: torn too")
    local text = table.concat(require "spec.gates.torn"(copy, build), "\n")
    assert(not text:find("its end", 1, true), text)
  end)
  it("vocabulary: an old spelling, a word of two modules that nobody explains, one that nobody takes", function()
    edit("lua/penumbra/smc/smoothed_paths.lua", 'draws = options.optional', 'paths = options.optional')
    edit("lua/penumbra/array/order.lua", "{ bins = options.any(10)", "{ wobble = 1, bins = options.any(10)")
    edit("lua/penumbra/optim/lbfgs.lua", "{ lr = 1.0", "{ wobble = 2, lr = 1.0")
    edit("lua/penumbra/words.lua", "---     bins  ", "---     bunch  a word\n---     bins  ")
    edit("examples/manual/particles.md", "`filter:smooth{draws = 500}`", "`filter:smooth{num_" .. "paths = 500}`")
    edit("lua/penumbra/models/forecaster.lua", "--- fit{series =, steps =", "--- fit{series =, iterations =")
    caught("vocabulary", "help says iterations =, which is called steps", "smoothed_paths.lua:",
      "option paths is called draws", "option wobble is of", "words.lua: no module takes bunch", "particles.md:")
  end)
  it("help: a pointer that leads nowhere, one that leads to itself", function()
    edit("lua/penumbra/models/vae.lua", 'pn.help "penumbra.models.decoder"', 'pn.help "penumbra.models.decoders"')
    edit("lua/penumbra/nn/bayesian.lua", "-- help: pn.nn\n", "-- help: pn.nn, quiet\n")
    edit("examples/manual/models.md", '`"penumbra.infer.svi"`', '`"penumbra.infer.svis"`')
    caught("help", 'models/vae.lua: help "penumbra.models.decoders" leads nowhere',
      'pn.nn.bayesian: help "penumbra.nn.bayesian" is itself', 'models.md: help "penumbra.infer.svis" leads nowhere')
  end)
  it("results: a number that no file backs, a table without a source, a file of none, a comment undated", function()
    local vbp, cases = "examples/papers/vbp/README.md", "examples/papers/multisource/README.md"
    edit(vbp, "-2.632 +- 0.037", "-2.631 +- 0.037")                    -- the page, a block
    edit(vbp, "| 10 | 3.361166 |", "| 10 | 3.361266 |")                -- the page, a row
    edit(cases, "| camera 1 | 0.2055 |", "| camera 1 | 0.2154 |")      -- a number of another row
    edit("examples/papers/bedl/results/uci.runs", " ll=-2", " ll=-3")  -- the file
    edit("examples/papers/bedl/README.md", "<!-- run: make bench", "<!-- make bench")
    edit("examples/papers/ral/README.md", "<!-- run: two_dimensions.lua, 20", "<!-- run: two_dimensions.lua, in 20")
    edit("examples/papers/ral/README.md", "results/mnist_lenet.runs", "results/lost.runs")
    caught("results", "uci.lua --results results/uci.runs --steps 40000 --show does not have", "boston    20  -2.631",
      "results/gates.txt does not have 3.361266", "results/cameras.txt does not have 0.2154",
      "uci.lua --results results/uci.runs --show does not have", "bedl/README.md:169: no comment says",
      "'run: two_dimensions.lua, in 20", "results/lost.runs",
      "results/mnist_lenet.runs: no table is drawn from it")
  end)
  it("pictures: one that no script draws, one that is gone, a script that is", function()
    must("cd %s/examples/papers && cp vbp/gates.png vbp/doors.png && rm ral/guide.svg bnsde/lorenz.lua", copy)
    caught("pictures", "vbp/doors.png: no script draws it", "ral/guide.svg is not there",
      "bnsde/lorenz.lua, which draws")
  end)
end)
