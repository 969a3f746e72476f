--- What specs that sum over all labels by hand share.
local enumerated = {}

--- log sum e^v of a list of numbers.
function enumerated.logsumexp(list)
  local most = math.max(table.unpack(list))
  local sum = 0
  for _, v in ipairs(list) do sum = sum + math.exp(v - most) end
  return most + math.log(sum)
end

return enumerated
