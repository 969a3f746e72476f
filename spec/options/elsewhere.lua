--- Functions and methods whose options are asked by specs of their own, or by none: name -> where, or
--- name -> {option = where}, read by spec/options/option_ledger_spec.lua. "open" counts as asked by none.
return {}
