std = "lua54"
max_line_length = 120
ignore = {"581"} -- `not (x <= y)` is how NaN is caught
exclude_files = {"build", "lua_modules"}
files["spec/**/*_spec.lua"] = {std = "+busted"}
files["spec/golden"] = {max_line_length = false}
files["examples/browser/track.lua"] = {globals = {"track"}}
files["examples/browser/pace.lua"] = {globals = {"track"}}
files["rockspec"] = {std = "+rockspec"}
