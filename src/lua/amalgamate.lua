--- Makes all sources one: `lua amalgamate.lua OUT VERSION MODULES PREPROCESS...` writes OUT/penumbra.c, compiled
--- beside penumbra.h. MODULES is the table of Lua modules that embed.lua wrote, PREPROCESS a command that preprocesses
--- a file. Objects are given on standard input, one a line as HOW:NAME, where HOW lists kinds of optimisation and NAME
--- is that of its source, src/NAME.c, with _f32 or _f64 behind it if that is compiled for both (src/base/type_real.h).
---
--- Each file is a section of the text. A header with a guard comes once, before what includes it; other headers and
--- .def lists stand where they are included. Macros end with their section; those of headers whose names have no
--- PN_ are repeated in each section that uses them. What a section declares at file scope under a name without pn_
--- gets the file's name in front, word by word: members of structs, designators and what macros paste or quote keep
--- their names. Names that macros make by pasting are found by preprocessing the result: a #define of the section
--- renames those.
local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. package.path
local c_text = require "c_text"

local out, version, modules = arg[1], arg[2], arg[3]
local preprocess = table.concat(arg, " ", 4)

-- What the Makefile says of a file, as gcc's pragma has it. (clang vectorises by itself.)
local OPTIMIZE = {
  loops = {"tree-vectorize", "vect-cost-model=dynamic"},
  strided = {"tree-vectorize", "vect-cost-model=dynamic", "version-loops-for-strides"},
  unrolled = {"O3"},
}
local ALWAYS = {"wrapv", "fp-contract=off", "no-math-errno"}
local NO_TRAPS = "no-trapping-math"

local function in_quotes(list) return '"' .. table.concat(list, '", "') .. '"' end

local HEAD = [[
/*
** penumbra.c: Penumbra %s as one file, with the bindings, the runtime of hosts and the Lua modules. Put it and
** penumbra.h into a tree and compile it as C:
**
**   cc -O2 -c penumbra.c $(pkg-config --cflags openblas lapacke zlib lua5.4)
**   cc host.c penumbra.o $(pkg-config --libs openblas lapacke zlib lua5.4) -lm -lpthread -ldl
**
** With gcc nothing else is wanted: what Penumbra's own Makefile passes to the compiler stands here as pragmas
** (-ffp-contract=off, so that every processor gives the same bits; -fwrapv: int64 tensors wrap around;
** -fno-math-errno; and how inner loops are optimised). clang has no pragma for -fwrapv and -fno-math-errno: give it
** both. Instruction sets are chosen at run time, so no -march is wanted; what assumes finite numbers is refused. For a
** shared library add -fPIC.
**
** Speed is that of the library within about a tenth, but for standard normal draws compiled by gcc: four times as long
** (float32: six). clang's lgamma and digamma take five times gcc's, its sums twice.
**
** Made by `make amalgamation` from Penumbra's sources, in which each section below is a file of its own; a name that
** one file keeps to itself begins here with the file's name. The licence (MIT) stands at the end of penumbra.h.
*/
#if !defined(__GNUC__) || defined(__cplusplus) || __STDC_VERSION__ < 201112L
#error "penumbra.c is C11 for gcc or clang"
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "Penumbra needs infinities and NaN: no flag under which the compiler assumes finite numbers"
#endif
#if defined(PENUMBRA_H)
#error "penumbra.c is compiled by itself, not included"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wbitwise-conditional-parentheses"
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define PNI_GCC 1
#pragma GCC optimize(%s)
/* gcc asks for -fno-math-errno where it meets a declaration, before any pragma: these write nothing. */
#include <math.h>
extern double sqrt(double) __attribute__((const));
extern float sqrtf(float) __attribute__((const));
#endif

]]

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path .. ".tmp", "wb"))
  assert(file:write(text))
  assert(file:close())
  assert(os.rename(path .. ".tmp", path))
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch "([^\n]*)\n" do list[#list + 1] = line end
  return list
end

--- "a/b/../c" as "a/c"
local function plain_path(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return (path:sub(1, 1) == "/" and "/" or "") .. table.concat(parts, "/")
end

-- ---- sections -----------------------------------------------------------------------------------

local sections, headers, system, system_seen = {}, {}, {}, {}

--- A logical line: with those that continue it.
local function logical(lines, k)
  local text = lines[k]
  while text:find "\\$" and lines[k + 1] do
    k = k + 1
    text = text .. "\n" .. lines[k]
  end
  return text, k
end

local add_section

--- Includes what `path` says into the section, lists standing where they are.
local function add_file(section, path, body, guarded)
  local folder = path:match "^(.*)/"
  local lines = lines_of(read(path))
  local depth, k = 0, 1
  local guard, last = nil, #lines
  if guarded then
    guard = guarded
    while not lines[last]:find "^#endif" do last = last - 1 end
  end
  while k <= #lines do
    local text, to = logical(lines, k)
    local word = text:match "^%s*#%s*(%a+)"
    local drop = false
    if word == "if" or word == "ifdef" or word == "ifndef" then
      if guard and text:find(guard, 1, true) then drop = true else depth = depth + 1 end
    elseif word == "endif" then
      if guard and k == last then drop = true else depth = depth - 1 end
    elseif word == "define" then
      local name, value = text:match '^#%s*define%s+([%w_]+)%s+"([^"]+)"%s*$'
      if name then section.strings[name] = value end
      name = text:match "^#%s*define%s+([%w_]+)"
      drop = name == guard or name:find "^_[A-Z]" ~= nil -- feature macros stand at the head of all
    elseif word == "include" then
      local angle, quoted = text:match "<(.-)>", text:match '"(.-)"'
      local macro = not angle and not quoted and text:match "include%s+([%w_]+)"
      drop = true
      if angle and depth > 0 then
        body[#body + 1] = "#pragma GCC visibility push(default)\n" .. text .. "\n#pragma GCC visibility pop"
      elseif angle then
        if not system_seen[angle] then
          system_seen[angle] = true
          system[#system + 1] = angle
        end
      else
        local file = plain_path(folder .. "/" .. (quoted or assert(section.strings[macro], path .. ": " .. text)))
        local inner = read(file)
        local its_guard = inner:match "\n#ifndef (PN_[%w_]*_H)\n" or inner:match "\n#ifndef (PENUMBRA_H)\n"
        if its_guard then
          section.includes[#section.includes + 1] = add_section(file, its_guard)
        else
          add_file(section, file, body)
        end
      end
    end
    if not drop then body[#body + 1] = text end
    k = to + 1
  end
end

function add_section(path, guard, how, bits)
  if headers[path] then return headers[path] end
  local section = {path = path, header = guard ~= nil, how = how, includes = {}, strings = {}}
  section.stem = path:match "([^/]+)%.%w+$":gsub("_real$", bits and "_f" .. bits or "%0")
  if guard then headers[path] = section end
  if guard ~= "PENUMBRA_H" then
    local body = {bits and "#define PNI_REAL_BITS " .. bits}
    add_file(section, path, body, guard)
    section.text = table.concat(body, "\n"):gsub("\n\n\n+", "\n\n") .. "\n"
    sections[#sections + 1] = section
  else
    section.text = read(path)
  end
  return section
end

-- ---- macros -------------------------------------------------------------------------------------

local function prefixed(name) return name:find "^[Pp][Nn][Ii]?_" ~= nil end

--- Tokens of a section, its definitions in order, and the macros that are defined at its end.
local function look_at(section)
  local texts, kinds = c_text.tokens(section.text)
  section.texts, section.kinds = texts, kinds
  section.lines, section.def_at, section.defs, section.words = {}, {}, {}, {}
  local live, order, at, fresh = {}, {}, 1, true
  local missing = {} -- X of `#ifndef X`: the system's own stays
  while at <= #texts do
    local kind, text = kinds[at], texts[at]
    if fresh and text == "#" then
      local last = at
      while last < #texts and kinds[last + 1] ~= "newline" do last = last + 1 end
      section.lines[at] = last
      local def = c_text.definition(texts, kinds, at, last)
      if def then
        def.text = table.concat(texts, "", at, last)
        section.defs[#section.defs + 1] = def
        section.def_at[at] = def
        if not live[def.name] then order[#order + 1] = def.name end
        if not missing[def.name] then live[def.name] = def end
      else
        local word, name = table.concat(texts, "", at, last):match "^#%s*(%a+)%s+([%w_]+)"
        if word == "undef" then live[name] = nil elseif word == "ifndef" then missing[name] = true end
      end
      for k = at, last do
        if kinds[k] == "name" then section.words[texts[k]] = true end
      end
      at = last
    elseif kind == "name" then
      section.words[text] = true
    end
    if kind == "newline" then fresh = true elseif kind ~= "space" then fresh = false end
    at = at + 1
  end
  section.live, section.order, section.missing = live, order, missing
end

--- Headers that a section includes, directly or not.
local function each_header(section, act, seen)
  seen = seen or {}
  for _, header in ipairs(section.includes) do
    if not seen[header] then
      seen[header] = true
      each_header(header, act, seen)
      act(header)
    end
  end
end

--- Puts the macros of headers that a section uses at its head, and ends its own with it.
local function scope_macros(section)
  local known, list = {}, {}
  each_header(section, function(header)
    for _, name in ipairs(header.own) do
      if not known[name] then
        known[name] = header.live[name]
        list[#list + 1] = name
      end
    end
  end)
  -- A word may be the front of a name that a macro pastes.
  local used, fronts = {}, {}
  for _, name in ipairs(list) do
    for at in name:gmatch "()_" do
      for _, front in ipairs {name:sub(1, at - 1), name:sub(1, at)} do
        fronts[front] = fronts[front] or {}
        table.insert(fronts[front], name)
      end
    end
  end
  local function use(word)
    if known[word] and not used[word] and not section.live[word] then
      used[word] = true
      for _, t in ipairs(known[word].body) do use(t) end
    end
    local named = fronts[word] or {}
    fronts[word] = nil
    for _, name in ipairs(named) do use(name) end
  end
  for word in pairs(section.words) do use(word) end
  local head, tail = {}, {}
  for _, name in ipairs(list) do
    if used[name] then head[#head + 1] = known[name].text end
  end
  for _, name in ipairs(list) do
    if used[name] then tail[#tail + 1] = "#undef " .. name end
  end
  for _, name in ipairs(section.order) do
    if section.live[name] and not (section.header and prefixed(name)) then tail[#tail + 1] = "#undef " .. name end
  end
  if #head > 0 then section.text = table.concat(head, "\n") .. "\n\n" .. section.text end
  section.tail = #tail > 0 and table.concat(tail, "\n") .. "\n" or ""
  look_at(section)
end

-- ---- names --------------------------------------------------------------------------------------

-- Macros of the system's headers under names that files define for themselves.
local undefined = ""
local function undefine()
  local path, list = out .. "/probe.c", {}
  local text = {"#define _GNU_SOURCE\n"}
  for _, file in ipairs(system) do text[#text + 1] = "#include <" .. file .. ">\n" end
  write(path, table.concat(text))
  local pipe = assert(io.popen(preprocess .. " -dM '" .. path .. "'"))
  local theirs = {}
  for line in pipe:lines() do theirs[line:match "^#define ([%w_]+)"] = true end
  assert(pipe:close(), "preprocessing failed: " .. preprocess)
  for _, section in ipairs(sections) do
    for _, def in ipairs(section.defs) do
      if theirs[def.name] and not section.missing[def.name] then
        theirs[def.name] = nil
        list[#list + 1] = "#undef " .. def.name .. "\n"
      end
    end
  end
  undefined = table.concat(list)
end

local probes = {
  "",
  "#undef __x86_64__\n#define __aarch64__ 1\n",
}

--- Preprocesses all sections (`part(section)` gives the text of one) and calls act(section, its text), for each probe.
local function expand(part, act)
  local path = out .. "/probe.c"
  for _, probe in ipairs(probes) do
    local text, count = {}, 1
    local function put(piece)
      text[#text + 1] = piece
      count = count + select(2, piece:gsub("\n", ""))
    end
    put("#define _GNU_SOURCE\n")
    for _, file in ipairs(system) do put("#include <" .. file .. ">\n") end
    put(undefined)
    put('#include "' .. os.getenv "PWD" .. '/src/penumbra.h"\n')
    put(probe)
    local starts = {}
    for k, section in ipairs(sections) do
      starts[k] = count
      put(part(section))
    end
    write(path, table.concat(text))
    local pipe = assert(io.popen(preprocess .. " '" .. path .. "'"))
    local line, mine, at, found = 0, false, 0, {}
    for row in pipe:lines() do
      local number, file = row:match '^# (%d+) "(.-)"'
      if number then
        line, mine = tonumber(number) - 1, file == path
        if mine and line + 1 < (starts[at] or 0) then at = 0 end
      else
        line = line + 1
        if mine and line >= starts[1] and not row:find "^%s*#" then
          while starts[at + 1] and line >= starts[at + 1] do at = at + 1 end
          local piece = found[at] or {}
          found[at] = piece
          piece[#piece + 1] = row
        end
      end
    end
    assert(pipe:close(), "preprocessing failed: " .. preprocess)
    for k, section in ipairs(sections) do act(section, table.concat(found[k] or {}, "\n")) end
  end
  os.remove(path)
end

--- The text of a section with its names in front of what it declares.
local function renamed(section, new)
  local texts, sig, list = section.texts, section.sig, section.list
  local result = table.move(texts, 1, #texts, 1, {})
  for s, k in ipairs(sig) do
    if new[list[s]] and section.kinds[k] == "name" and not section.kept[s] then result[k] = new[list[s]] end
  end
  return table.concat(result)
end

-- ---- the whole ----------------------------------------------------------------------------------

for line in io.lines() do
  local how, name = line:match "^(.-):(.+)$"
  local typed, bits = name:match "^(.*_real)_f(%d%d)$"
  local path = ("src/%s.c"):format(typed or name)
  add_section(path, nil, how, bits)
end
for _, section in ipairs(sections) do
  look_at(section)
  section.own = {}
  for _, name in ipairs(section.order) do
    if section.live[name] and not prefixed(name) then section.own[#section.own + 1] = name end
  end
end
local public = headers["src/penumbra.h"]
public.own, public.new = {}, {}
look_at(public)
for _, section in ipairs(sections) do scope_macros(section) end

table.sort(system)
undefine()
expand(function(section) return section.text .. section.tail end, function(section, text)
  section.names = section.names or {}
  for word, what in pairs(c_text.declared(text)) do
    if not prefixed(word) then section.names[word] = section.names[word] or what end
  end
end)

-- What most files mean by a typedef (pn_tensor by T) stays as it is: C11 lets it be repeated.
local votes, owners = {}, {}
for _, section in ipairs(sections) do
  for name, what in pairs(section.names) do
    votes[name] = votes[name] or {}
    if what ~= true then votes[name][what] = (votes[name][what] or 0) + (section.header and #sections or 1) end
    if section.header then owners[name] = (owners[name] or 0) + 1 end
  end
end
local meaning = {}
for name, texts in pairs(votes) do
  for text, count in pairs(texts) do
    local best = meaning[name]
    if not best or count > texts[best] or (count == texts[best] and text < best) then meaning[name] = text end
  end
end

local taken = {}
for _, section in ipairs(sections) do
  for word in pairs(section.words) do taken[word] = true end
end
local function fresh(section, name)
  local new = name .. "_of_" .. section.stem
  while taken[new] do new = new .. "_" end
  return new
end

for _, section in ipairs(sections) do
  section.new = {}
  each_header(section, function(header)
    for name, new in pairs(header.new) do section.new[name] = new end
  end)
  for name, what in pairs(section.names) do
    if what ~= meaning[name] and (not section.header or owners[name] > 1) then
      section.new[name] = fresh(section, name)
    end
  end
  c_text.keep_members(section)
  local all = {}
  local function add(defs)
    for _, def in ipairs(defs) do
      all[def.name] = all[def.name] or {}
      table.insert(all[def.name], def)
    end
  end
  add(section.defs)
  each_header(section, function(header) add(header.defs) end)
  c_text.keep_pasted(section, function(name) return all[name] or {} end)
end

local function define(section, name)
  if section.members[name] then
    error(("%s: %s is made by a macro and is the name of a member too"):format(section.path, name))
  end
  section.defined[name] = true
end

for _, section in ipairs(sections) do
  section.text = renamed(section, section.new)
  section.defined = {}
  for name in pairs(section.by_define) do
    if section.names[name] and section.new[name] then define(section, name) end
  end
end

--- The #defines of a section, and what ends them.
local function defines(section)
  local head, tail = {}, {}
  for name in pairs(section.defined) do
    head[#head + 1] = ("#define %s %s\n"):format(name, section.new[name])
    tail[#tail + 1] = "#undef " .. name .. "\n"
  end
  table.sort(head)
  table.sort(tail)
  return table.concat(head), table.concat(tail)
end

local function framed(section)
  local head, tail = defines(section)
  return head .. section.text .. section.tail .. tail
end

-- Names that are still there under their old names were made by macros.
expand(framed, function(section, text)
  local texts, kinds = c_text.tokens(text)
  local made = {texts = texts, kinds = kinds, lines = {}}
  c_text.keep_members(made)
  for s, name in ipairs(made.sig) do
    name = texts[name]
    if section.new[name] and not made.kept[s] and not section.defined[name] then define(section, name) end
  end
end)

local function pragma(how)
  local list = {}
  for word in (how or ""):gmatch "[^,]+" do
    if word == "vectors" then
      list[#list + 1] = NO_TRAPS
    else
      table.move(OPTIMIZE[word] or error("no such optimisation: " .. word), 1, #OPTIMIZE[word], #list + 1, list)
    end
  end
  if #list == 0 then return "" end
  return "#pragma GCC push_options\n#pragma GCC optimize(" .. in_quotes(list) .. ")\n"
end

local parts = {}
local function put(...)
  for _, piece in ipairs {...} do parts[#parts + 1] = piece end
end

put(HEAD:format(version, in_quotes(ALWAYS)))
for _, file in ipairs(system) do put("#include <", file, ">\n") end
put(undefined, '#include "penumbra.h"\n\n#pragma GCC visibility push(hidden)\n')
for _, section in ipairs(sections) do
  local how = pragma(section.how)
  put("\n/* ======== ", section.path, " ======== */\n\n")
  if how ~= "" then put("#if defined(PNI_GCC)\n", how, "#endif\n") end
  put(framed(section))
  if how ~= "" then put("#if defined(PNI_GCC)\n#pragma GCC pop_options\n#endif\n") end
end
put("\n/* ======== the Lua modules ======== */\n",
  (read(modules):gsub("^.*extern const struct pni_module pni_modules%[%];", "")))
put("\n#pragma GCC visibility pop\n")
write(out .. "/penumbra.c", (table.concat(parts):gsub("__attribute__%(%(weak%)%)",
  '__attribute__((weak, visibility("default")))')))
