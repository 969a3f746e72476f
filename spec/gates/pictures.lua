--- Every picture that is committed beside a page is drawn by a script, which is there and named in
--- spec/site/drawn_by.lua: `make gallery` draws it anew.
return function(root) return require "spec.site.drawn_by".complaints(root) end
