--- Start-up of the command and the size of what is installed.
return function(bench)
  --- Milliseconds of wall clock of one start, the fastest of many (others were disturbed); what starting
  --- `true` takes is subtracted.
  local function fastest(command)
    local out = bench.run(("i=0; while [ $i -lt 100 ]; do a=$(date +%%s%%N); %s </dev/null >/dev/null 2>&1 || exit 1; "
      .. "b=$(date +%%s%%N); echo $((b-a)); i=$((i+1)); done"):format(command))
    local best = math.huge
    for line in assert(out, command .. " fails"):gmatch "%d+" do best = math.min(best, tonumber(line) / 1e6) end
    return best
  end
  local nothing = fastest "/bin/true"
  local function start(what) return fastest(("%s -e '%s'"):format(bench.command, what)) - nothing end
  bench.row("start-up of the command", start "", "ms")
  bench.row("start-up with require 'penumbra'", start [[require "penumbra"]], "ms")
  local copy = bench.build .. "/stripped.so"
  bench.run(("cp %s/libpenumbra.so.0 %s && strip %s"):format(bench.build, copy, copy))
  bench.row("libpenumbra.so.0, stripped", tonumber(bench.run("wc -c < " .. copy)) / 2 ^ 20, "MiB", 3)
end
