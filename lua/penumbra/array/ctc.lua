--- Connectionist temporal classification (Graves, Fernandez, Gomez & Schmidhuber 2006): the probability of a row of
--- labels without their places in time, summed over all alignments: paths of one class or a blank per step, of which
--- repeats are one label and blanks none. The recursion forward in time runs on logarithms, for a batch at once; as a
--- plain loop of tensor operations it is replayed in compiled steps.
---
---     local log_p = net(x):log_softmax(-1)                       -- [T, N, C], class 0 is the blank
---     local loss = pn.ctc_loss(log_p, labels, {lengths = steps, label_lengths = counts})
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local ctc = {}

-- The logarithm of no probability: numbers, unlike -inf, whose differences and gradients are numbers.
local NEVER = -1e30

local known = { lengths = options.optional "tensor", label_lengths = options.optional "tensor", blank = 0 }
local known_of_loss = options.merged(known, { zero_infinity = false })

-- Does a tensor hold what it must? Not looked at in a captured step, which cannot.
local function holds(t)
  return core.capture.going_on() or t:all():item()
end

local function rounded(t)
  return t:dtype() == "int64" and t or t:round()
end

-- The lengths of n sequences as int64 [n], from `least` to `most`.
local function lengths_of(where, role, given, n, least, most)
  if given == nil then
    return core.full({ n }, most, { dtype = "int64" })
  elseif given:ndim() ~= 1 or given:size(1) ~= n then
    core.error(("%s: %s must have shape [%d], one for each sequence, got %s"):format(where, role, n,
      options.shape_text(given)))
  elseif not holds(given:ge(least):logical_and(given:le(most)):logical_and(given:eq(rounded(given)))) then
    core.error(("%s: %s must be whole numbers from %d to %d"):format(where, role, least, most))
  end
  return given:to "int64"
end

-- What the arguments are: log_p [T, N, C], labels int64 [N, S] (the blank where a row has ended), both lengths, blank.
local function read(where, log_p, labels, given, list)
  options.argument(where, "log_p", log_p, "tensor")
  options.argument(where, "labels", labels, "tensor")
  local o = options.check(where, given, list)
  if log_p:ndim() ~= 3 or labels:ndim() ~= 2 or labels:size(1) ~= log_p:size(2) or log_p:size(1) < 1 then
    core.error(("%s: shapes must be log_p [T, N, C] and labels [N, S], got %s and %s"):format(where,
      options.shape_text(log_p), options.shape_text(labels)))
  end
  local steps, n, classes, most = log_p:size(1), log_p:size(2), log_p:size(3), labels:size(2)
  local blank = options.whole(where, "blank", o.blank, 0)
  if blank >= classes then
    core.error(("%s: blank must be a class, 0 to %d, got %d"):format(where, classes - 1, blank))
  end
  local lengths = lengths_of(where, "lengths", o.lengths, n, 1, steps)
  local counts = lengths_of(where, "label_lengths", o.label_lengths, n, 0, most)
  local inside = core.arange(most, { dtype = "int64" }):lt(counts:unsqueeze(2))
  local own = core.where(inside, labels, core.full({}, blank, { dtype = labels:dtype() }))
  local fine = own:ge(0):logical_and(own:lt(classes)):logical_and(own:ne(blank)):logical_and(own:eq(rounded(own)))
  if not holds(fine:logical_or(inside:logical_not())) then
    core.error(("%s: labels must be classes from 0 to %d without the blank, %d"):format(where, classes - 1, blank))
  end
  return { log_p = log_p, labels = own:to "int64", lengths = lengths, counts = counts, blank = blank, o = o }
end

-- Labels [N, S] with blanks around each: [N, 2 S + 1].
local function with_blanks(labels, blank)
  local n, most = labels:size(1), labels:size(2)
  local first = core.full({ n, 1 }, blank, { dtype = "int64" })
  if most == 0 then
    return first
  end
  local pairs_of = core.stack({ labels, core.full({ n, most }, blank, { dtype = "int64" }) }, 3):reshape { n, 2 * most }
  return core.concatenate({ first, pairs_of }, 2)
end

-- 0 where a path may go from two places back, over a blank between different labels; else NEVER: [N, L].
local function skips(places, blank, dtype)
  local size = places:size(2)
  local allowed = places:ne(blank)
  if size > 2 then
    local before = core.concatenate({ places:slice(2, 1, 2), places:slice(2, 1, size - 2) }, 2)
    allowed = allowed:logical_and(places:ne(before))
  end
  return core.where(allowed, core.zeros({}, { dtype = dtype }), core.full({}, NEVER, { dtype = dtype }))
end

-- alpha [N, L] moved by k places, NEVER in the first ones.
local function moved(alpha, k)
  local size = alpha:size(2)
  if size <= k then
    return core.full(alpha:shape(), NEVER, { dtype = alpha:dtype() })
  end
  return alpha:pad(2, k, 0, NEVER):slice(2, 1, size)
end

-- log of the summed probability of all alignments, [N], NEVER or less where there is none.
local function log_prob(a)
  local steps, n, dtype = a.log_p:size(1), a.log_p:size(2), a.log_p:dtype()
  local places = with_blanks(a.labels, a.blank)
  local size = places:size(2)
  local seen = a.log_p:clamp(NEVER, math.huge):gather(3, places:unsqueeze(1):broadcast_to { steps, n, size })
  local skip = skips(places, a.blank, dtype)
  local start = core.arange(size):lt(2)
  local alpha = core.where(start, seen[1], core.full({}, NEVER, { dtype = dtype }))
  for t = 2, steps do
    local from = core.stack({ alpha, moved(alpha, 1), moved(alpha, 2) + skip }, 1):logsumexp(1)
    alpha = core.where(a.lengths:ge(t):unsqueeze(2), from + seen[t], alpha)
  end
  local last = a.counts:unsqueeze(2) * 2
  local ends = alpha:gather(2, last):squeeze(2)
  local first = core.zeros({}, { dtype = "int64" })
  local before = alpha:gather(2, (last - 1):maximum(first)):squeeze(2)
  before = core.where(a.counts:gt(0), before, core.full({}, NEVER, { dtype = dtype }))
  return core.stack({ ends, before }, 1):logsumexp(1)
end

-- Is there no alignment?
local function impossible(log_probs)
  return log_probs:lt(NEVER / 10)
end

--- ctc_log_prob(log_p, labels [, {lengths =, label_lengths =, blank = 0}]): the log probability of each row of labels
--- [N, S] (int64) by log probabilities of classes log_p [T, N, C], summed over alignments: [N]. lengths [N]: steps of
--- each sequence (T); label_lengths [N]: labels of each row (S), what follows is not looked at; blank: the class that
--- stands for no label. -inf where the labels do not fit into the steps, with gradient 0. Graves et al. 2006.
function ctc.ctc_log_prob(log_p, labels, given)
  local total = log_prob(read("ctc_log_prob", log_p, labels, given, known))
  return core.where(impossible(total), core.full({}, -math.huge, { dtype = total:dtype() }), total)
end

--- ctc_loss(log_p, labels [, {lengths =, label_lengths =, blank = 0, zero_infinity = false}]): the mean over sequences
--- of minus ctc_log_prob over the number of labels (at least 1), 0-d, as PyTorch's. zero_infinity: a sequence whose
--- labels do not fit into its steps counts 0, instead of an infinite loss.
function ctc.ctc_loss(log_p, labels, given)
  local a = read("ctc_loss", log_p, labels, given, known_of_loss)
  local total = log_prob(a)
  local none = core.full({}, a.o.zero_infinity and 0 or -math.huge, { dtype = total:dtype() })
  total = core.where(impossible(total), none, total)
  return -(total / a.counts:to(total:dtype()):clamp(1, math.huge)):mean()
end

return ctc
