--- What the tools of spec/mutants share: a sample that a seed decides, the file of what was tried, shares by folder.
local tally = {}

function tally.read(path)
  local file <close> = io.open(path)
  return file and file:read "a"
end

function tally.lines(command)
  local list, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- A generator of our own: the same list for a seed anywhere.
function tally.shuffled(list, seed)
  local state = seed * 2654435761 + 1
  for k = #list, 2, -1 do
    state = (state * 6364136223846793005 + 1442695040888963407)
    local j = 1 + (state >> 33) % k
    list[k], list[j] = list[j], list[k]
  end
  return list
end

--- Sets of names: tried (with the answer), of the file of results, and equivalent (of spec/mutants/equivalent.txt).
function tally.known(results)
  local tried, same = {}, {}
  for status, name in (tally.read(results) or ""):gmatch "(%w+)\t[^\t]*\t([^\n]+)\n" do tried[name] = status end
  for name in (tally.read "spec/mutants/equivalent.txt" or ""):gmatch "([^\n]-)%s*%-%- [^\n]*\n" do
    same[name] = true
  end
  return tried, same
end

--- Adds a line to the file of results.
function tally.tell(results, status, kind, by, name)
  local file <close> = assert(io.open(results, "a"))
  file:write(status, "\t", kind, " ", by, "\t", name, "\n")
end

-- Wilson's interval of 95 %.
local function interval(k, n)
  local z, p = 1.959963984540054, k / n
  local middle, half = (p + z * z / (2 * n)) / (1 + z * z / n),
    z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
  return middle - half, middle + half
end

--- Prints the shares by the folders behind `root` (a pattern), with 95 % intervals, and the survivors.
function tally.show(results, kind, root)
  local folders, survivors, names = {}, {}, {}
  local _, same = tally.known(results)
  for status, of, name in (tally.read(results) or ""):gmatch "(%w+)\t(%w+)[^\t]*\t([^\n]+)\n" do
    if of == kind and status ~= "inert" and status ~= "none" and not same[name] then
      local folder = name:match("^" .. root .. "/(%w+)/") or "(top)"
      for _, key in ipairs {folder, "all"} do
        folders[key] = folders[key] or {killed = 0, all = 0}
        folders[key].all = folders[key].all + 1
        folders[key].killed = folders[key].killed + (status == "killed" and 1 or 0)
      end
      if status == "survived" then survivors[#survivors + 1] = name end
    end
  end
  for key in pairs(folders) do names[#names + 1] = key end
  table.sort(names)
  for _, key in ipairs(names) do
    local f = folders[key]
    local low, high = interval(f.killed, f.all)
    print(("%-14s %4d of %4d noticed, %5.1f %% (%.0f to %.0f)"):format(key, f.killed, f.all, 100 * f.killed / f.all,
      100 * low, 100 * high))
  end
  table.sort(survivors)
  for _, name in ipairs(survivors) do print("survived: " .. name) end
end

--- Options --NAME VALUE of the command line into o, numbers where o has numbers; what is left, a list.
function tally.options(o)
  local parts, k = {}, 2
  while arg[k] do
    local name = arg[k]:match "^%-%-(%w+)$"
    if name and o[name] and arg[k + 1] then
      o[name] = type(o[name]) == "number" and tonumber(arg[k + 1]) or arg[k + 1]
      k = k + 1
    else
      parts[#parts + 1] = arg[k]
    end
    k = k + 1
  end
  return parts
end

return tally
