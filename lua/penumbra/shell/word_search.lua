--- Finding texts by words: what has most of the words of a question, rare words before common ones, words in a name
--- before words in a text. Words are compared without case and without their commonest endings.
-- help: nowhere
local word_search = {}

local IGNORED = {}
for word in ([[a an and are as at be by can do does for from get has have how i if in into is it its me my no of on or
  such that the thing things this to use using want what when where which who why with without you
  your]]):gmatch "%a+" do
  IGNORED[word] = true
end

local ENDINGS = { "ies", "ing", "es", "ed", "s", "e" }

-- A word without its ending: "rates", "rate" -> "rat"; "series" -> "ser". At least three letters stay.
local function stem(word)
  for _, ending in ipairs(ENDINGS) do
    if #word >= #ending + 3 and word:sub(-#ending) == ending then return word:sub(1, -#ending - 1) end
  end
  return word
end

-- Calls take(stem) for each word of a text; "log_prob" is log and prob.
local function each_word(text, take)
  for word in text:lower():gmatch "%a[%a%d]*" do
    if not IGNORED[word] then take(stem(word)) end
  end
end

local WEIGHTS = { name = 6, head = 3, text = 1 } -- of a word by where it stands

--- index(list): makes a list of {name, head, text, item} ready to be asked.
function word_search.index(list)
  local postings, count = {}, #list -- stem -> {place -> weight}
  for place, entry in ipairs(list) do
    for field, weight in pairs(WEIGHTS) do
      each_word(entry[field] or "", function(word)
        postings[word] = postings[word] or {}
        postings[word][place] = math.max(postings[word][place] or 0, weight)
      end)
    end
  end
  return { postings = postings, count = count, list = list }
end

--- find(index, question, limit): the best items of an index, the best first, and how many have as many of the words;
--- of several words those that have most of them, and at least two, or one where there is but one.
function word_search.find(index, question, limit)
  local score, matched, words, seen = {}, {}, 0, {}
  each_word(question, function(word)
    if seen[word] then return end
    seen[word], words = true, words + 1
    local list, n = index.postings[word] or {}, 0
    for _ in pairs(list) do n = n + 1 end
    local rare = math.log(1 + index.count / math.max(n, 1))
    for place, weight in pairs(list) do
      score[place] = (score[place] or 0) + weight * rare
      matched[place] = (matched[place] or 0) + 1
    end
  end)
  local most, places = 0, {}
  for _, n in pairs(matched) do most = math.max(most, n) end
  if most < math.min(2, words) then return {}, 0 end
  for place, n in pairs(matched) do
    if n == most then places[#places + 1] = place end
  end
  table.sort(places, function(a, b) return score[a] > score[b] or score[a] == score[b] and a < b end)
  local items = {}
  for k = 1, math.min(#places, limit) do items[k] = index.list[places[k]].item end
  return items, #places
end

return word_search
