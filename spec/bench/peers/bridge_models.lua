--- Models of posteriordb for drivers of BridgeStan's interface, and what pn.nuts draws from some of them:
---   lua spec/bench/peers/bridge_models.lua FOLDER [NAME]...     NAME.so beside NAME.lua, all; NAME.npz of those named
package.path = "spec/bench/peers/?.lua;" .. package.path
local pn = require "penumbra"
local reference = require "reference_posteriors"

pn.threads(1)
reference.prepare(arg[1], os.getenv "BUILD" or "build", require "sampling".json)
for k = 2, #arg do reference.sample(arg[1], arg[k], 1) end
