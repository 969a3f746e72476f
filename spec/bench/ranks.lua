--- A step of training by 1, 2 and 4 ranks (spec/mpi/vae_step.lua) beside what two numbers of the machine, a message's
--- latency and seconds per byte, and two of one rank predict: examples/manual/many_machines.md has the formula. Nothing
--- where MPI is not there. Times are of the machine and never judged; what is, is the processor time of a rank's own
--- part, of which two ranks have half each.
return function(bench)
  local function job(ranks, arguments)
    local out = bench.run(("mpirun --oversubscribe --allow-run-as-root -n %d %s spec/mpi/vae_step.lua %s 2>&1"):format(
      ranks, bench.command, arguments))
    local values = {}
    for name, value in (out or ""):gmatch "([^\t\n]+)\t([^\t]+)\t[^\n]*" do values[name] = tonumber(value) end
    return values
  end

  if not bench.run "command -v mpirun" then return end
  local wire = job(2, "messages")
  if not wire.alpha then return end
  local alpha, beta = wire.alpha * 1e-3, wire.beta * 1e-6 -- ms, ms per byte
  bench.row("message: latency", wire.alpha, "us")
  bench.row("message: per byte", wire.beta, "ns")
  for _, bytes in ipairs { 1 << 10, 1 << 20, 1 << 26 } do
    wire.reduce = wire.reduce or job(2, "all_reduce")
    local time = wire.reduce[("all_reduce %d bytes"):format(bytes)]
    bench.row(("all_reduce of %d bytes, 2 ranks"):format(bytes), time, "us")
  end
  local BYTES, SHARDS, CORES = 4 * 652824, 8, tonumber(bench.run "getconf _NPROCESSORS_ONLN") or 1
  local one = job(1, "step")
  local shard = (one.step - one.update) / SHARDS
  local own
  for _, ranks in ipairs { 1, 2, 4 } do
    local now = ranks == 1 and one or job(ranks, "step")
    local levels = math.ceil(math.log(ranks, 2))
    local predicted = math.ceil(SHARDS / math.min(ranks, CORES)) * shard + one.update
      + levels * (2 * (alpha + beta * BYTES) + one.sum)
    bench.row(("autoencoder's step by %d rank%s"):format(ranks, ranks == 1 and "" or "s"), now.step, "ms")
    bench.row("  predicted", predicted, "ms")
    bench.row("  share with others", now["with others"], "")
    own = own or now["processor without others"]
    bench.row("  own part's processor time, of one rank's", now["processor without others"] / own, "x",
      ranks > 1 and ("%.2f"):format(1 / ranks + 0.15) or nil)
  end
end
