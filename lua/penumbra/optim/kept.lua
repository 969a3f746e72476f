--- The way back for an optimiser: what a load that fails puts back.
-- help: nowhere
local kept = {}

--- of(opt): a function that gives the optimiser the state that it has now. Of ours it takes no memory then, so that it
--- works where there is none.
function kept.of(opt)
  if getmetatable(opt) ~= "penumbra.optimiser" then
    local before = opt:state()
    return function() opt:load_state(before) end
  end
  local list = {}
  for i = 1, opt:num_states() do
    list[i] = select(2, opt:state_at(i))
  end
  return function()
    for i, t in ipairs(list) do opt:set_state_at(i, t) end
  end
end

return kept
