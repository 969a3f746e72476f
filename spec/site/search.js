// A box in the head of each page that finds names and headings; without scripts the pages have the index of names.
(function () {
  const root = document.currentScript.dataset.root;
  const box = document.createElement("div");
  box.className = "search";
  box.innerHTML = '<input type="search" placeholder="Search" aria-label="Search names and headings"><ol></ol>';
  document.querySelector("body > header").append(box);
  const input = box.querySelector("input"), list = box.querySelector("ol");
  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rank = (e) => { // the name itself, then its beginning, then names that hold the words
      const name = e[0].toLowerCase(), last = name.split(/[.:]/).pop();
      return last === words[0] || name === words[0] ? 0 : last.startsWith(words[0]) ? 1 : 2;
    };
    const found = words.length === 0 ? [] : (window.penumbraIndex || [])
      .filter((e) => words.every((w) => (e[0] + " " + e[2]).toLowerCase().includes(w)))
      .sort((a, b) => rank(a) - rank(b) || a[0].length - b[0].length).slice(0, 40);
    list.replaceChildren(...found.map((e) => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = root + e[1];
      link.textContent = e[0];
      item.append(link, " ", e[2]);
      return item;
    }));
  }
  input.addEventListener("focus", () => {
    if (window.penumbraIndex) return;
    const script = document.createElement("script"); // (a script, since pages from disk may not fetch)
    script.src = root + "search_index.js";
    script.onload = show;
    document.head.append(script);
  }, { once: true });
  input.addEventListener("input", show);
})();
