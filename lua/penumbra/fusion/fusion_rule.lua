--- Which sources to believe: the largest set of those that are there in which no two are in conflict, of equally large
--- ones that with the largest point-wise mutual information; the others are left out, and named.
---
--- Two sources are in conflict where the mutual conflict (the lesser of both directions) is above the threshold. Where
--- no two agree there is no majority: two sources in conflict cannot tell which of them is wrong.
-- help: pn.fusion, methods report
local belief_conflict = require "penumbra.fusion.belief_conflict"
local belief_product = require "penumbra.fusion.belief_product"
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local options = require "penumbra.options"

local fusion_rule = {}

local quoted = named_beliefs.quoted

-- ---- what is reported ----

local report = {}

local function row(t, n)
  local axes = t:ndim() - 1
  return axes == 0 and t:totable() or t:reshape { -1, t:size(-1) }[n]:totable()
end

local function flag(t, n) return t:numel() == 1 and t:item() or t:reshape { -1 }[n]:item() end

local function listed(names, marks, want)
  local out = {}
  for k, name in ipairs(names) do
    if marks[k] == want then
      out[#out + 1] = quoted(name)
    end
  end
  return table.concat(out, ", "), #out
end

--- said(n): what was done with datum n (1), a line of text: which sources were left out or could not be told apart.
function report:said(n)
  n = options.whole("said", "n", n or 1, 1)
  local total = self.undecided:numel()
  if n > total then
    core.error(("said: n must lie in 1 to %d, got %d"):format(total, n))
  end
  if flag(self.none, n) then
    return "no source is there: the belief is the prior"
  end
  local used = listed(self.names, row(self.kept, n), true)
  if flag(self.undecided, n) then
    local both = listed(self.names, row(self.conflicting, n), true)
    return ("in conflict, and none can be told to be wrong: %s; believed: %s"):format(both, used)
  end
  local out, count = listed(self.names, row(self.left_out, n), true)
  return count == 0 and "believed: " .. used or ("left out: %s; believed: %s"):format(out, used)
end

local class = { __name = "report", __index = core.namespace("a report", report) }

function class:__tostring()
  local parts, share = {}, #self.names > 0 and self.left_out:to "float64":reshape { -1, #self.names }:mean { 1 }
  share = share and share:totable()
  for k, name in ipairs(self.names) do parts[k] = ("%s %.4g"):format(quoted(name), share[k]) end
  return ("fusion of %d data; %s%s; undecided %d, without a source %d"):format(self.undecided:numel(),
    share and "share left out: " or "no sources", table.concat(parts, ", "), self.undecided:sum():item(),
    self.none:sum():item())
end

-- ---- sets ----

-- Bits of a set.
local function members_of(set, m)
  local list = {}
  for k = 1, m do
    if set >> (k - 1) & 1 == 1 then
      list[#list + 1] = k
    end
  end
  return list
end

-- Sets of m sources by size, the largest first.
local function by_size(m)
  local sizes = {}
  for n = 1, m do sizes[n] = {} end
  for set = 1, (1 << m) - 1 do
    local members = members_of(set, m)
    table.insert(sizes[#members], members)
  end
  return sizes
end

-- [batch], where all members are there and none of two is in conflict.
local function agree(members, there, bad)
  local ok
  for i, j in ipairs(members) do
    ok = ok and ok:logical_and(there[j]) or there[j]
    for h = 1, i - 1 do ok = ok:logical_and(bad[j][members[h]]:logical_not()) end
  end
  return ok
end

-- The information of the members where `ok` is true.
local function score(list, members, prior, batch, ok)
  local some = {}
  for i, k in ipairs(members) do some[i] = { name = list[k].name, factor = list[k].factor, mask = ok } end
  return belief_conflict.information("fuse", some, prior, batch)
end

-- For each datum the best of the sets of one size among those that are not decided: whether one was found, and its
-- members [batch, M].
local function best_of(sets, s)
  local zero = core.full(s.batch, -math.huge, { dtype = s.dtype })
  local best, found, kept = zero, s.batch_false, nil
  for _, members in ipairs(sets) do
    local ok = agree(members, s.there, s.bad):logical_and(s.decided:logical_not())
    if ok:any():item() then
      local value = #members > 1 and score(s.list, members, s.prior, s.batch, ok) or s.own[members[1]]
      local better = ok:logical_and(value:gt(best):logical_or(found:logical_not()))
      local marks = {}
      for k = 1, #s.list do marks[k] = false end
      for _, k in ipairs(members) do marks[k] = true end
      local set = core.tensor(marks)
      kept = core.where(better:unsqueeze(-1), set, kept or s.nothing)
      best, found = core.where(better, value, best), found:logical_or(ok)
    end
  end
  return found, kept
end

local known = { prior = options.any(nil), observed = options.any(nil), conflict_threshold = 1, drop = false }

-- What a search needs: masks, pairs in conflict, the information of single sources (how far each is from the prior).
local function search_of(list, prior, batch, c, limit)
  local s = { list = list, prior = prior, batch = batch, dtype = list[1].law.dtype, there = {}, bad = {}, own = {} }
  s.batch_false = core.zeros(batch):gt(0)
  local present = named_beliefs.present(list, batch, s.dtype):gt(0)
  local wrong = belief_conflict.mutual(c):gt(limit)
  for k, e in ipairs(list) do
    s.there[k], s.bad[k] = present:select(-1, k), {}
    for j = 1, #list do s.bad[k][j] = wrong:select(-1, j):select(-1, k) end
    s.own[k] = dist.kl(e.law, prior.law):broadcast_to(batch)
  end
  s.present, s.wrong = present, wrong
  s.nothing = present:logical_and(present:logical_not())
  s.decided = s.batch_false
  return s
end

-- The sets that are kept, [batch, M], and where there is no majority.
local function search(s, drop)
  local kept, sizes = s.nothing, by_size(#s.list)
  local undecided = s.batch_false
  local many = s.present:to "int64":sum(-1):gt(1)
  for n = #s.list, 1, -1 do
    local found, best = best_of(sizes[n], s)
    if best then
      if n == 1 then
        undecided = found:logical_and(many)
        best = drop and best or core.where(undecided:unsqueeze(-1), s.present, best)
      end
      kept = core.where(found:unsqueeze(-1), best, kept)
      s.decided = s.decided:logical_or(found)
    end
  end
  return kept, undecided
end

--- fuse(beliefs, {prior = [, conflict_threshold = 1, observed =, drop = false]}): see pn.fusion.fuse.
function fusion_rule.fuse(beliefs, given)
  local list, prior, batch, o = belief_product.read("fuse", beliefs, given, known)
  if not (o.conflict_threshold > 0) then
    core.error(("fuse: conflict_threshold must be above 0, got %s"):format(tostring(o.conflict_threshold)))
  end
  belief_product.most("fuse", #list)
  if #list == 0 then
    local yes, none = core.ones(batch):gt(0), core.zeros(batch):gt(0)
    return prior.law, setmetatable({ names = {}, none = yes, undecided = none, kept = none:unsqueeze(-1),
      left_out = none:unsqueeze(-1), conflicting = none:unsqueeze(-1) }, class) -- no column means anything
  end
  local c, names = belief_conflict.conflicts(beliefs, { prior = o.prior, observed = o.observed })
  c = c:detach()
  local s = search_of(list, prior, batch, c, o.conflict_threshold)
  local kept, undecided = search(s, o.drop)
  local law = belief_product.product(beliefs, { prior = o.prior, observed = kept })
  return law, setmetatable({ names = names, kept = kept, left_out = s.present:logical_and(kept:logical_not()),
    conflicting = s.wrong:any(-1), conflicts = c, undecided = undecided,
    none = s.present:any(-1):logical_not() }, class)
end

return fusion_rule
