--- Output handler for busted: prints what failed and ends with `N passed, N failed, N skipped`, the
--- line that spec/run.lua adds up. Used as `busted -o spec/output.lua`.
return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()

  local function report(what, list)
    for _, t in ipairs(list) do
      local trace = t.trace or {}
      io.write(("%s: %s (%s:%s)\n"):format(what, t.name or "?", trace.short_src or "?", trace.currentline or "?"))
      io.write("  ", (tostring(t.message):gsub("\n", "\n  ")), "\n")
      if options.verbose and trace.traceback then io.write(trace.traceback, "\n") end
    end
  end

  handler.suiteEnd = function()
    report("failed", handler.failures)
    report("error", handler.errors)
    for _, t in ipairs(handler.pendings) do io.write("skipped: ", t.name or "?", "\n") end
    io.write(("%d passed, %d failed, %d skipped\n"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount, handler.pendingsCount))
    io.flush()
    return nil, true
  end

  busted.subscribe({"suite", "end"}, handler.suiteEnd)
  return handler
end
