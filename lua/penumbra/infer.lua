--- Estimators of variational inference and importance sampling: functions of log-weights and log-densities, [K, B]
--- for K draws of each of B data. A bound is one number to be maximised (a loss is its negative), in nats per
--- datum: its value is the bound, its gradient is the estimator's gradient.
local core = require "penumbra.core"

local infer = {}

for _, row in ipairs(core.estimator_rows()) do
  infer[row.name] = core.new_estimator(row.name)
end

return infer
