--- How a file that a method :save has written is read: whole, of the kind that is asked for, and all of its values
--- looked at (penumbra.form) before anything is made of them.
-- help: nowhere
local data = require "penumbra.data"
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"

local saved = {}

--- file{noun =, is =, form =, read =, asks =}: a kind of file. noun: "fit that fit:save has written"; is: function
--- (contents, metadata), whether a file is of this kind; form: function (contents, ...) that gives the form of its
--- contents. Where they are not as usual: read, function (path) instead of pn.load; asks, function (path, contents,
--- ...) that raises where the caller gives what is not as the file asks.
function saved.file(about) return about end

local kinds = {} -- of files that pn.restore makes objects of, by their nouns

--- restored_by(file, f): of such a file pn.restore makes what f(path, given) makes of it; f gives nil, message, code
--- for what it refuses in the file and raises for what it refuses in the table `given`.
function saved.restored_by(file, f)
  assert(not kinds[file.noun], file.noun)
  kinds[file.noun] = { file = file, restore = f }
end

--- kind_of(contents, metadata): the kind of such a file: {file =, restore =}; nil and the nouns of all if it is none.
function saved.kind_of(contents, metadata)
  local nouns = {}
  for noun, kind in pairs(kinds) do
    if kind.file.is(contents, metadata) then
      return kind
    end
    nouns[#nouns + 1] = noun
  end
  table.sort(nouns)
  return nil, nouns
end

-- Can a file hold v: a number, a text, a truth value, a constant tensor, or tables of these?
local function holds(v, depth)
  local kind = type(v)
  if kind == "table" then
    local fits = not getmetatable(v) and depth < 8
    for key, part in pairs(fits and v or {}) do
      fits = fits and (type(key) == "string" or math.type(key) == "integer") and holds(part, depth + 1)
    end
    return fits
  end
  return kind == "number" or kind == "string" or kind == "boolean" or core.is_tensor(v) and not v:is_param()
end

--- parted(given): the options of a constructor that a file can hold, and the list of names of the others, sorted, nil
--- where there are none.
function saved.parted(given)
  local kept, asked = {}, {}
  for name, v in pairs(given) do
    if holds(v, 0) then
      kept[name] = v
    else
      asked[#asked + 1] = name
    end
  end
  table.sort(asked)
  return kept, #asked > 0 and asked or nil
end

--- The form of such a list.
saved.asked_form = form.optional(form.list(form.text()))

--- joined(where, kept, asked, given): the options of a constructor again. Raises unless `given` has those names.
function saved.joined(where, kept, asked, given)
  local known, all = {}, {}
  for _, name in ipairs(asked or {}) do known[name] = options.required() end
  for name, v in pairs(kept) do all[name] = v end
  for name, v in pairs(options.check(where, given, known)) do all[name] = v end
  return all
end

--- read(where, path, file, ...): the contents, which have the form that `file` declares for `...`, and the metadata; or
--- nil, message, code.
function saved.read(where, path, file, ...)
  local contents, about, code = (file.read or data.load)(path)
  if not contents then
    return nil, about, code
  elseif not file.is(contents, about) then
    return nil, ("%s: '%s' is no %s"):format(where, path, file.noun), "format"
  end
  if file.asks then
    file.asks(path, contents, ...)
  end
  local wrong = form.misfits(contents, file.form(contents, ...))
  if #wrong > 0 then
    return nil, ("%s: %s"):format(saved.lead(where, path), form.text_of(wrong)), "format"
  end
  return contents, about
end

--- lead(where, path): what messages about such a file begin with.
function saved.lead(where, path) return ("%s: '%s' does not fit"):format(where, path) end

--- make(where, path, f, ...): what f makes of the contents; nil, message, code if it refuses them.
function saved.make(where, path, f, ...) return form.guarded(saved.lead(where, path), f, ...) end

--- load(where, path, steps): form.all_or_nothing; true, or nil, message, code where a step refuses what it is given.
function saved.load(where, path, steps)
  return saved.make(where, path, function()
    local ok, message = form.all_or_nothing(steps)
    return ok or error(message, 0)
  end)
end

return saved
