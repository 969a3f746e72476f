-- examples/papers/multisource/masks.lua: on a folder of pictures, and two steps at the document's size.
local command = os.getenv "PENUMBRA" or "build/penumbra"

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- f with a new folder, which is taken away afterwards.
local function with_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir -p " .. folder .. "/pictures " .. folder .. "/masks " .. folder .. "/out"))
  local ok, message = pcall(f, folder)
  os.execute("rm -rf " .. folder)
  if not ok then error(message, 0) end
end

local function run(line)
  local pipe = assert(io.popen(("'%s' examples/papers/multisource/masks.lua --quick %s 2>&1"):format(command, line)))
  local text = pipe:read "a"
  return pipe:close(), text
end

-- Picture k, 12 high and 20 wide: a lighter box from column 4 + k to 13, rows 3 to 8, on grey (10 k each colour alike,
-- so that colours average to it); the mask is that box, in 0 and 1 of 1. Writes both.
local function make_pair(folder, k)
  local pixels, mask = {}, {}
  for row = 0, 11 do
    for column = 0, 19 do
      local inside = column >= 4 + k and column <= 13 and row >= 3 and row <= 8
      local grey = inside and 200 or 10 * k
      pixels[#pixels + 1] = string.char(grey, grey, grey)
      mask[#mask + 1] = string.char(inside and 1 or 0)
    end
  end
  write(("%s/pictures/bird %02d.ppm"):format(folder, k), "P6 20 12 255\n" .. table.concat(pixels))
  write(("%s/masks/bird %02d.pgm"):format(folder, k), "P5\n# mask\n20 12\n1\n" .. table.concat(mask))
end

describe("figures with masks", function()
  it("are read from folders", function()
    with_folder(function(folder)
      for k = 9, 0, -1 do make_pair(folder, k) end
      write(folder .. "/pictures/notes.txt", "no picture")
      local reader = dofile "examples/papers/multisource/picture_folder.lua"
      local images, masks = reader.read(folder .. "/pictures", folder .. "/masks", 6)
      assert.same({ 10, 36 }, images:shape())
      assert.same({ 10, 36 }, masks:shape())
      for k = 0, 9 do -- the middle square is columns 4 to 15, two by two pixels each
        local grey, inside = images[k + 1]:reshape { 6, 6 }:totable(), masks[k + 1]:reshape { 6, 6 }:totable()
        for i = 1, 6 do
          for j = 1, 6 do
            local sum = 0
            for row = 2 * i - 2, 2 * i - 1 do
              for column = 2 * j + 2, 2 * j + 3 do
                sum = sum + ((column >= 4 + k and column <= 13 and row >= 3 and row <= 8) and 1 or 0)
              end
            end
            local wanted = (sum * 200 + (4 - sum) * 10 * k) / 4 / 255
            assert.is_true(math.abs(grey[i][j] - wanted) < 1e-6)
            assert.equal(sum > 2 and 1 or 0, inside[i][j])
          end
        end
      end
      local given = ("--images '%s/pictures' --masks '%s/masks' --out '%s/out' --columns iwae"):format(folder, folder,
        folder)
      local ok, text = run(given .. " --test 3")
      assert.is_true(ok, text)
      assert.matches("standard error over 3 test images", text)
      assert.matches("iwae +2 steps.- image to mask %d+%.%d, image to image %- nats; accuracy 0%.%d+", text)
      ok, text = run(given .. " --test 10")
      assert.is_nil(ok)
      assert.matches("%-%-test must leave pictures to train with; there are 10", text)
      os.remove(folder .. "/masks/bird 04.pgm")
      ok, text = run(given .. " --test 3")
      assert.is_nil(ok)
      assert.matches("masks has no mask by the name of .*/pictures/bird 04.ppm", text)
    end)
  end)

  -- (Fewer filters and one figure a step: decoders of 80 draws of each belief take 2 GB with 16.)
  it("are learnt at 128 x 128 with 80 draws and 96 latents", function()
    with_folder(function(folder)
      local ok, text = run("--columns hybrid_star --steps 2 --side 128 --draws 80 --latent 96 --filters 4 --batch 1 "
        .. "--train 4 --test 2 --predict 2 --out " .. folder .. "/out")
      assert.is_true(ok, text)
      local loss = tonumber(text:match "hybrid_star: step 2 of 2, loss ([%d.]+)")
      -- masks of 16384 pixels, each a coin at first
      assert.is_true(loss and math.abs(loss / (16384 * math.log(2)) - 1) < 0.1, text)
    end)
  end)
end)
