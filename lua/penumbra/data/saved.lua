--- How a file that a method :save has written is read: whole, of the kind that is asked for, and all of its values
--- looked at (penumbra.form) before anything is made of them.
-- help: nowhere
local data = require "penumbra.data"
local form = require "penumbra.form"

local saved = {}

--- file{noun =, is =, form =, read =, asks =}: a kind of file. noun: "fit that fit:save has written"; is: function
--- (contents, metadata), whether a file is of this kind; form: function (contents, ...) that gives the form of its
--- contents. Where they are not as usual: read, function (path) instead of pn.load; asks, function (path, contents,
--- ...) that raises where the caller gives what is not as the file asks.
function saved.file(about) return about end

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
