--- Start-up of the command and the size of what is installed.
return function(bench)
  local n = 40
  local function start(what)
    local best = math.huge
    for _ = 1, 5 do
      local out = bench.run(("a=$(date +%%s%%N); i=0; while [ $i -lt %d ]; do %s -e '%s' </dev/null >/dev/null 2>&1 "
        .. "|| exit 1; i=$((i+1)); done; echo $(($(date +%%s%%N)-a))"):format(n, bench.command, what))
      best = math.min(best, tonumber((assert(out, "the command fails"))) / n / 1e6)
    end
    return best
  end
  bench.row("start-up of the command", start "", "ms", 10)
  bench.row("start-up with require 'penumbra'", start [[require "penumbra"]], "ms", 10)
  local copy = bench.build .. "/stripped.so"
  bench.run(("cp %s/libpenumbra.so.0 %s && strip %s"):format(bench.build, copy, copy))
  bench.row("libpenumbra.so.0, stripped", tonumber(bench.run("wc -c < " .. copy)) / 2 ^ 20, "MiB", 1)
end
