/* Rows of runtime_test.c: name, script, status. `pn` is there. */

/* time and instructions */
{"empty loop", "while true do end", PN_LIMIT},
{"loop inside pcall", "while true do pcall(function() while true do end end) end", PN_LIMIT},
{"nested pcall", "local function f() while true do pcall(f) end end f()", PN_LIMIT},
{"goto", "::a:: goto a", PN_LIMIT},
{"handler that loops", "xpcall(function() while true do end end, function() while true do end end)", PN_LIMIT},
{"handler that loops on its own error", "xpcall(error, function() while true do end end)", PN_LIMIT},
{"handler that calls xpcall", "local function h() xpcall(error, h) while true do end end xpcall(error, h)", PN_LIMIT},
{"loop in a coroutine", "coroutine.resume(coroutine.create(function() while true do end end))", PN_LIMIT},
{"loop in a wrapped coroutine", "pcall(coroutine.wrap(function() while true do end end)) while true do end", PN_LIMIT},
{"coroutine tree",
 "local function f() for i = 1, 9 do coroutine.wrap(f)() end end while true do pcall(f) end", PN_LIMIT},
{"short coroutines", "while true do coroutine.wrap(function() for i = 1, 20 do end end)() end", PN_LIMIT},
{"many coroutines in step",
 "local t = {} for i = 1, 100 do t[i] = coroutine.wrap(function() while true do coroutine.yield() end end) end "
 "while true do for i = 1, 100 do t[i]() end end", PN_LIMIT},
{"close that loops", "local x <close> = setmetatable({}, {__close = function() while true do end end})", PN_LIMIT},
{"close that loops after a limit",
 "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end", PN_LIMIT},
{"close that loops in a wrapped coroutine after a limit",
 "coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while true do end end}) "
 "while true do end end)()", PN_LIMIT},
{"close that loops in coroutine.close",
 "local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() while true do end end}) "
 "coroutine.yield() end) coroutine.resume(co) coroutine.close(co)", PN_LIMIT},
{"close that yields for ever",
 "local f = coroutine.wrap(function() local x <close> = setmetatable({}, {__close = function() while true do "
 "coroutine.yield() end end}) error('x') end) while true do f() end", PN_SCRIPT},
{"metamethods that loop", "local t = setmetatable({}, {__index = function() while true do end end}) return t.x", PN_LIMIT},
{"__index chain", "local t = {} setmetatable(t, {__index = t}) return t.x", PN_SCRIPT},
{"__gc", "setmetatable({}, {__gc = function() while true do end end}) collectgarbage()", PN_SCRIPT},
{"__gc set later", "local m = {} setmetatable({}, m) m.__gc = function() while true do end end collectgarbage()", PN_OK},
{"__tostring that loops", "error(setmetatable({}, {__tostring = function() while true do end end}))", PN_LIMIT},
{"iterator that loops", "for _ in function() return 1 end do end", PN_LIMIT},
{"sort that never ends", "local t = {} for i = 1, 1000 do t[i] = i end while true do "
 "pcall(table.sort, t, function() return true end) end", PN_LIMIT},
{"sort of everything", "local t = {} for i = 1, 200000 do t[i] = -i end while true do table.sort(t) end", PN_LIMIT},
{"move without end", "table.move({}, 1, 1 << 60, 2)", PN_LIMIT},
{"move downwards without end", "table.move({}, -(1 << 60), -1, -(1 << 60) + 1)", PN_LIMIT},
{"insert into an endless list", "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)", PN_LIMIT},
{"remove from an endless list", "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)", PN_LIMIT},
{"concat of nothing", "table.concat(setmetatable({}, {__index = table.concat}), '', 1, 1 << 62)", PN_LIMIT},
{"rep of nothing", "('').rep('', 1 << 62)", PN_OK},
{"collect for ever", "while true do collectgarbage() end", PN_LIMIT},
{"load from a reader that loops", "load(function() while true do end end)", PN_LIMIT},
{"load from an endless reader", "load(function() return 'x = 1 ' end)", PN_LIMIT},
{"load from a library function", "load(math.random) while true do end", PN_LIMIT},
{"tensor operations for ever", "local x = pn.ones(1000) while true do x = x + 1 end", PN_LIMIT},
{"tensor operations in pcall", "local x = pn.ones(300, 300) while true do pcall(pn.matmul, x, x) end", PN_CANCELLED},
{"big tensor operations", "local x = pn.ones(700, 700) while true do x = x:matmul(x) end", PN_CANCELLED},
{"printing without end", "while true do print('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') end", PN_LIMIT},

/* memory */
{"table without end", "local t = {} while true do t[#t + 1] = {} end", PN_NOMEM},
{"global table without end", "t = {} while true do t[#t + 1] = ('x'):rep(100) .. #t end", PN_NOMEM},
{"string without end", "local s = 'x' while true do s = s .. s end", PN_NOMEM},
{"rep", "return ('x'):rep(1 << 40)", PN_NOMEM},
{"rep in pcall", "while true do pcall(string.rep, 'x', 1 << 30) end", PN_LIMIT},
{"rep too large", "return ('xx'):rep(math.maxinteger)", PN_SCRIPT},
{"concat", "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(100000 // 100) end local u = {} for i = 1, 1e6 do "
 "u[i] = t end return table.concat(t):rep(1000)", PN_NOMEM},
{"format", "return ('%99.99f'):rep(100):format(table.unpack((function() local t = {} for i = 1, 100 do t[i] = 1e99 end "
 "return t end)()))", PN_OK},
{"tensors without end", "local t = {} while true do t[#t + 1] = pn.zeros(1000) end", PN_NOMEM},
{"one huge tensor", "return pn.zeros(1 << 40)", PN_NOMEM},
{"shape that overflows", "return pn.zeros(1 << 31, 1 << 31, 1 << 31)", PN_NOMEM},
{"graph without end", "local w = pn.param(pn.ones(100)) local y = w while true do y = y * w end", PN_NOMEM},
{"tensors made garbage", "for i = 1, 20000 do local x = pn.zeros(10000) end", PN_OK},
{"tensors beside a stopped collector", "collectgarbage('stop') for i = 1, 20000 do local x = pn.zeros(10000) end", PN_OK},
{"closures without end", "local f = function() end while true do local g = f f = function() return g end end", PN_NOMEM},
{"coroutines without end", "local t = {} while true do t[#t + 1] = coroutine.create(print) end", PN_NOMEM},
{"out of memory in pcall", "t = {} pcall(function() while true do t[#t + 1] = ('x'):rep(1000) .. #t end end) t = nil", PN_OK},
{"out of memory in a handler", "xpcall(error, function() local t = {} while true do t[#t + 1] = {} end end) "
 "local t = {} while true do t[#t + 1] = {} end", PN_NOMEM},
{"limit set by the script", "pn.memory_limit(0)", PN_SCRIPT},
{"array of numbers", "local t = table.pack(pn.zeros(1000000):totable()) while true do t[#t + 1] = pn.zeros(100000):totable() end", PN_NOMEM},

/* stacks */
{"recursion", "local function f() return 1 + f() end f()", PN_NOMEM},
{"recursion through pcall", "local function f() return pcall(f) end f()", PN_OK},
{"recursion through metamethods", "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) return s[k .. 'x'] end "
 "return t.x", PN_SCRIPT},
{"recursion through tostring", "local t = setmetatable({}, {}) getmetatable(t).__tostring = tostring return tostring(t)", PN_SCRIPT},
{"recursion through gsub", "local function f(s) return (s:gsub('x', f)) end f('x')", PN_SCRIPT},
{"recursion through sort", "local function f() table.sort({3, 2, 1}, f) end f()", PN_SCRIPT},
{"recursion through coroutines", "local function f() return coroutine.wrap(f)() end f()", PN_SCRIPT},
{"recursion in a handler", "local function h() error('again') end xpcall(error, h)", PN_OK},
{"recursion through require", "package.preload.a = function() return require 'a' end require 'a'", PN_SCRIPT},
{"deep parentheses", "load(('('):rep(100000) .. '1' .. (')'):rep(100000))() ", PN_SCRIPT},
{"deep tables", "local f, e = load('return ' .. ('{'):rep(100000) .. ('}'):rep(100000)) error(e)", PN_SCRIPT},
{"deep functions", "local f, e = load(('return function() '):rep(1000)) error(e)", PN_SCRIPT},
{"deep list to a tensor", "local t = {} t[1] = t return pn.tensor(t)", PN_SCRIPT},
{"unpack of everything", "return table.unpack({}, 1, 1 << 40)", PN_SCRIPT},
{"many results", "return select('#', table.unpack({}, 1, 1e6 - 100))", PN_NOMEM},
{"many arguments", "return pn.add(table.unpack({}, 1, 200000))", PN_SCRIPT},
{"many captures", "return ('x'):find(('()'):rep(100))", PN_SCRIPT},

/* error values */
{"error nil", "error()", PN_SCRIPT},
{"error empty", "error('')", PN_SCRIPT},
{"error table", "error({})", PN_SCRIPT},
{"error function", "error(print)", PN_SCRIPT},
{"error userdata", "error(pn.ones(2))", PN_SCRIPT},
{"error with zero bytes", "error('\\0\\0', 0)", PN_SCRIPT},
{"error with a long text", "error(('x'):rep(1000000))", PN_SCRIPT},
{"error whose text raises", "error(setmetatable({}, {__tostring = function() error('inner') end}))", PN_SCRIPT},
{"error whose text is no text", "error(setmetatable({}, {__tostring = function() return {} end}))", PN_SCRIPT},
{"error whose text recurses", "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(x) return tostring(x) end error(t)", PN_SCRIPT},
{"error of memory by hand", "error('not enough memory', 0)", PN_NOMEM},
{"assert", "assert(false)", PN_SCRIPT},
{"error in a closing variable", "local x <close> = setmetatable({}, {__close = function() error('c') end}) error('b')", PN_SCRIPT},

/* ways out */
{"exit", "os.exit(1)", PN_SCRIPT},
{"io", "io.open('/etc/passwd')", PN_SCRIPT},
{"execute", "os.execute('true')", PN_SCRIPT},
{"dofile", "dofile('/etc/passwd')", PN_SCRIPT},
{"debug", "debug.getregistry()", PN_SCRIPT},
{"require debug", "require 'debug'", PN_SCRIPT},
{"require from a file", "package.path = '/tmp/?.lua' require 'nothing_there'", PN_SCRIPT},
{"loadlib", "package.loadlib('libc.so.6', 'system')", PN_SCRIPT},
{"searchers", "for i, s in ipairs(package.searchers) do pcall(s, '../../tmp/x') end require 'x.y'", PN_SCRIPT},
{"bytecode", "assert(load('\\27Lua\\x54\\0\\x19\\x93\\r\\n\\x1a\\n', 'x', 'b'))", PN_SCRIPT},
{"bytecode from a reader", "local n = 0 assert(load(function() n = n + 1 return n == 1 and '\\27Lua' or nil end, 'x', 'bt'))", PN_SCRIPT},
{"dump", "string.dump(print)", PN_SCRIPT},

/* tensors by the wrong end */
{"metatable of a tensor", "getmetatable(pn.ones(1)).__gc(5)", PN_SCRIPT},
{"setmetatable of a tensor", "setmetatable(pn.ones(1), {})", PN_SCRIPT},
{"close with a wrong self", "pn.ones(1).close({})", PN_SCRIPT},
{"close with no self", "pn.ones(1).close()", PN_SCRIPT},
{"close twice and use", "local x = pn.ones(1) x:close() x:close() return x + 1", PN_SCRIPT},
{"methods with a wrong self", "pn.ones(1).exp(print)", PN_SCRIPT},
{"methods with a generator", "pn.ones(1).shape(pn.generator(1))", PN_SCRIPT},
{"assignment to a tensor", "local x = pn.ones(3) x[1] = 2", PN_SCRIPT},
{"closing while in use", "local x = pn.ones(3) local t = setmetatable({}, {__index = function() x:close() return 1 end, __len = function() return 3 end}) "
 "return pn.add(x, pn.tensor(t))", PN_SCRIPT},
{"core taken apart", "local core = require 'penumbra.core' for k in pairs(core) do core[k] = nil end for k in pairs(pn) do pn[k] = nil end", PN_OK},
{"core functions with rubbish",
 "local core = require 'penumbra.core' local odd = {0/0, 'x', {}, print, -1, 1 << 62, true, 0, 1, {1}, {pn.ones(2)}, pn.tensor(1), "
 "pn.ones(2), pn.ones(2, 2), pn.zeros(0), pn.zeros(0, 3), pn.ones(2, {dtype = 'int64'}), pn.tensor{true, false}, pn.generator(1), {x = 1}} "
 "for name, f in pairs(core) do if type(f) == 'function' and not name:find '^set_' then for i = 1, #odd do pcall(f, odd[i]) for j = 1, #odd do "
 "pcall(f, odd[i], odd[j]) end end end end", PN_OK},
{"core functions with three arguments of rubbish",
 "local core = require 'penumbra.core' local odd = {0/0, 'x', {}, -1, 1 << 62, 0, 1, {1}, pn.tensor(1), pn.ones(2, 2), pn.zeros(0), "
 "pn.ones(2, {dtype = 'int64'})} "
 "for name, f in pairs(core) do if type(f) == 'function' and not name:find '^set_' then for i = 1, #odd do for j = 1, #odd do for k = 1, #odd, 3 do "
 "pcall(f, odd[i], odd[j], odd[k]) end end end end end", PN_OK},
{"methods with rubbish",
 "local odd = {0/0, 'x', {}, print, -1, 1 << 62, true, 0, 1, {1}, {0}, {-1}, pn.tensor(1), pn.ones(2, {dtype = 'int64'}), pn.generator(1)} "
 "for _, x in ipairs{pn.ones(2, 2), pn.tensor(1), pn.zeros(0), pn.tensor{true, false}} do for _, f in pairs(require('penumbra.core').methods) do "
 "if type(f) == 'function' then pcall(f, x) for i = 1, #odd do pcall(f, odd[i]) for j = 1, #odd do pcall(f, x, odd[i], odd[j]) end end end end end",
 PN_OK},
{"string metatable broken", "getmetatable('').__index = nil return ('x'):rep(3)", PN_SCRIPT},
{"globals taken away", "for k in pairs(_G) do if not keep[k] then _G[k] = nil end end", PN_OK},
