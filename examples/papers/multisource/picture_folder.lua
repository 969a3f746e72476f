--- Real pictures with masks from two folders (PNG, PGM, PPM), for masks.lua: what has the same name in both, of any
--- ending, in the order of the names. Colours are averaged, opacity is left out, the largest square in the middle
--- is brought to side x side by averaging. A mask is 1 where its pixels are, on average, above a half. It does
--- nothing when it is run by itself.
local pn = require "penumbra"

local picture_folder = {}

-- Table name -> file of the pictures in a folder, and the sorted list of names.
local function files_of(folder)
  local files, names = {}, {}
  local pipe = assert(io.popen("LC_ALL=C ls -1 '" .. folder:gsub("'", "'\\''") .. "'"))
  for line in pipe:lines() do
    local name, ending = line:match "^(.+)%.(%w+)$"
    if name and ({ png = true, pgm = true, ppm = true })[ending:lower()] then
      assert(not files[name], folder .. " has two pictures by the name " .. name)
      files[name], names[#names + 1] = folder .. "/" .. line, name
    end
  end
  pipe:close()
  return files, names
end

-- [side * side] from 0 to 1.
local function square(path, side)
  local x = assert(pn.data.image(path, { dtype = "float32" }))
  local h, w, channels = table.unpack(x:shape())
  local grey, n = x:slice(3, 1, channels > 2 and 3 or 1):mean { 3 }, math.min(h, w)
  local top, left = (h - n) // 2, (w - n) // 2
  local middle = grey:slice(1, top + 1, top + n):slice(2, left + 1, left + n)
  return pn.data.resize(middle, side, side):reshape { side * side }
end

--- read(images, masks, side): images [n, side * side] and their masks, of the two folders.
function picture_folder.read(images, masks, side)
  local image_files, names = files_of(images)
  local mask_files = files_of(masks)
  local x, y = {}, {}
  for _, name in ipairs(names) do
    assert(mask_files[name], ("%s has no mask by the name of %s"):format(masks, image_files[name]))
    x[#x + 1], y[#y + 1] = square(image_files[name], side), square(mask_files[name], side)
  end
  assert(#x > 0, images .. " has no pictures (PNG, PGM, PPM)")
  return pn.stack(x, 1), pn.stack(y, 1):gt(0.5):to "float32"
end

return picture_folder
