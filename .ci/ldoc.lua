-- LDoc's configuration: the reference of the Lua modules.
project = "Penumbra"
title = "Penumbra: Lua reference"
format = "markdown"
all = false
not_luadoc = true
