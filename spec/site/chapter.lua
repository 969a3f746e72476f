--- Runs the programs of a chapter that save pictures, which are written where it is run: `make gallery`.
---   lua spec/site/chapter.lua PAGE.md
local pn = require "penumbra"
local drawn_by = require "spec.site.drawn_by"
local shown = require "spec.shown"

local file <close> = assert(io.open(((arg[0]:match "^(.*)/spec/") or ".") .. "/" .. arg[1]))
for _, program in ipairs((shown.programs(file:read "a"))) do
  if #drawn_by.saved(program.chunk) > 0 then
    pn.seed(0)
    assert(load(program.chunk, "@" .. arg[1]))()
  end
end
