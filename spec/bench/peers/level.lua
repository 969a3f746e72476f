--- The processor levels at which figures are taken: PENUMBRA_CPU forces ours, and beside it OpenBLAS and the peers are
--- held to the same instructions by their own settings.
-- XLA's own products and fused chains take what the processor has whatever xla_cpu_max_isa says, so these are off
-- below AVX-512. Where a setting is not kept all the same (products of MKL on AMD, of XLA, at the portable level)
-- run.lua sees it by a product of 768 x 768, and does not compare rows of products.
local KEPT = " --xla_cpu_experimental_ynn_fusion_type="
local LEVELS = {
  {name = "avx512", title = "AVX-512", blas = "SkylakeX", settings = ""},
  {name = "avx2", title = "AVX2", blas = "Haswell", xla = "--xla_cpu_max_isa=AVX2" .. KEPT,
    settings = "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 "},
  {name = "portable", title = "portable", blas = "Nehalem", xla = "--xla_cpu_max_isa=SSE4_2" .. KEPT,
    settings = "ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 "},
}

local level = {}

local function output(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read "a"
  pipe:close()
  return out
end

--- Settings in front of a command that hold everyone to one thread and to the level.
function level.settings(l)
  return ("PENUMBRA_CPU=%s OPENBLAS_CORETYPE=%s %sOMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "
    .. "XLA_FLAGS='--xla_cpu_multi_thread_eigen=false %s' "):format(l.name, l.blas, l.settings, l.xla or "")
end

--- The levels that this processor has and that can be forced, the best one first. LEVELS="avx2 portable" chooses.
function level.list(build)
  local chosen, list = os.getenv "LEVELS", {}
  if chosen == "" then chosen = nil end
  for _, l in ipairs(LEVELS) do
    local here = output(("%s%s/penumbra -v"):format(level.settings(l), build)):find(l.title .. " vectors", 1, true)
    if here and (not chosen or (" " .. chosen .. " "):find(" " .. l.name .. " ", 1, true)) then list[#list + 1] = l end
  end
  assert(#list > 0, "none of the levels asked for is here")
  return list
end

return level
