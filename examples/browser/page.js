// The page's part: two workers, one with the prompt, one with the filter; what is typed and drawn.
"use strict";

const element = (id) => document.getElementById(id);
const part = (id) => element(id).textContent;

async function unpack(id) {
  const packed = Uint8Array.from(atob(part(id)), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// ---- workers ----

const code = URL.createObjectURL(new Blob([part("loader"), "\n", part("worker")], { type: "text/javascript" }));
const compiled = unpack("wasm").then((bytes) => WebAssembly.compile(bytes));

class Instance {
  constructor(page, print) {
    this.worker = new Worker(code);
    this.waiting = new Map();
    this.count = 0;
    this.ready = new Promise((resolve, reject) => {
      this.worker.onerror = (event) => reject(new Error(event.message));
      this.worker.onmessage = (event) => {
        const message = event.data;
        if (message.ready) return message.wrong ? reject(new Error(message.wrong)) : resolve();
        if (message.print !== undefined) return print(message.print, message.wrong);
        const asked = this.waiting.get(message.id);
        this.waiting.delete(message.id);
        if (message.error === undefined) asked.resolve(message.answer);
        else asked.reject(new Error(message.error));
      };
    });
    compiled.then((module) => this.worker.postMessage({ module, page }));
  }

  async call(name, ...args) {
    await this.ready;
    return new Promise((resolve, reject) => {
      this.waiting.set(++this.count, { resolve, reject });
      this.worker.postMessage({ id: this.count, call: name, args });
    });
  }
}

// ---- the prompt ----

const line = element("line"), said = element("said");
const history = [];
let prompt, at = 0;

function say(text, kind) {
  const pre = document.createElement("pre");
  pre.textContent = text;
  if (kind) pre.className = kind;
  said.append(pre);
  element("prompt").scrollTop = element("prompt").scrollHeight;
}

function show(svg) {
  const frame = document.createElement("div");
  frame.append(document.importNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true));
  said.append(frame);
}

function open() {
  line.disabled = true;
  element("sign").textContent = "… ";
  const mine = prompt = new Instance(part("lua"), (text, wrong) => mine === prompt && say(text, wrong && "wrong"));
  mine.call("ask", "version", "").then((text) => {
    element("version").textContent = text;
    element("sign").textContent = "> ";
    line.disabled = false;
  }, (error) => say(error.message, "wrong"));
}

async function enter(text) {
  const mine = prompt;
  say(element("sign").textContent + text, "given");
  if (text.trim()) history.push(text);
  at = history.length;
  line.value = "";
  line.disabled = true;
  try {
    const answer = await mine.call("ask", "line", text), end = answer.indexOf("\n");
    const kind = end < 0 ? "error" : answer.slice(0, end), rest = end < 0 ? answer : answer.slice(end + 1);
    if (rest) say(rest, kind === "error" && "wrong");
    if (kind === "end") say("(the page goes on; close it to leave)", "names");
    const pictures = await mine.call("ask", "pictures", "");
    if (pictures) pictures.split("\u0001").forEach(show);
    element("sign").textContent = kind === "more" ? ">> " : "> ";
  } catch (error) {
    say(error.message, "wrong");
  }
  line.disabled = false;
  line.focus();
  element("prompt").scrollTop = element("prompt").scrollHeight;
}

// The longest common start.
function common(names) {
  let n = names[0].length;
  for (const name of names) while (!name.startsWith(names[0].slice(0, n))) n--;
  return names[0].slice(0, n);
}

async function complete() {
  const cursor = line.selectionStart, before = line.value.slice(0, cursor), after = line.value.slice(cursor);
  const [count, ...names] = (await prompt.call("ask", "complete", before)).split("\n");
  if (names.length === 0 || names.length === 1 && !names[0]) return;
  const kept = before.slice(0, before.length - Number(count)), start = common(names);
  if (start.length > Number(count) || names.length === 1) {
    line.value = kept + start + after;
    line.selectionStart = line.selectionEnd = (kept + start).length;
  } else {
    say(names.slice(0, 120).join("  ") + (names.length > 120 ? `  … ${names.length - 120} more` : ""), "names");
  }
}

line.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    enter(line.value);
  } else if (event.key === "Tab") {
    complete();
  } else if (event.key === "ArrowUp" && at > 0) {
    line.value = history[--at];
  } else if (event.key === "ArrowDown" && at < history.length) {
    line.value = history[++at] || "";
  } else if (event.key === "c" && event.ctrlKey && line.selectionStart === line.selectionEnd) {
    prompt.call("ask", "reset", "");
    element("sign").textContent = "> ";
    line.value = "";
  } else {
    return;
  }
  event.preventDefault();
});
element("prompt").addEventListener("click", () => String(getSelection()) || line.focus());
element("stop").addEventListener("click", () => {
  prompt.worker.terminate();
  say("(begun anew)", "names");
  open();
});

const tries = [
  "x = pn.linspace(0, 10, 200); pn.plot.show{title = \"Waves\", x_label = \"x\", "
    + "pn.plot.line(x, x:sin(), {label = \"sin x\"}), "
    + "pn.plot.line(x, (x * 2):cos() * (-x / 4):exp(), {label = \"a damped wave\"})}",
  "pn.plot.show{title = \"10,000 draws of a gamma\", "
    + "pn.plot.histogram(pn.dist.gamma(3, 1):sample{10000}, {density = true})}",
  "example \"normal\"",
];
["a picture", "a histogram", "an example"].forEach((name, k) => {
  const button = document.querySelectorAll(".try")[k];
  button.textContent = name;
  button.addEventListener("click", () => line.disabled || enter(tries[k]));
});

// ---- the filter ----

const canvas = element("track"), pen = canvas.getContext("2d");
const FRAME = 33; // milliseconds between steps
let filter, place = null, running = 0, seen = [], pace = [];

// What the driver of the page reads.
window.followed = { steps: 0 };

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

// The mouse as the filter sees it, or null.
function look() {
  if (!place) return null;
  const scale = Math.random() < 0.1 ? 0.15 : 0.03;
  return [place[0] + scale * normal(), place[1] + scale * normal()];
}

function draw(step) {
  const w = canvas.width, h = canvas.height, [mx, my, sx, sy] = step.estimate;
  pen.clearRect(0, 0, w, h);
  pen.fillStyle = "rgba(47, 109, 179, 0.25)";
  for (let i = 0; i < step.particles.length; i += 3) {
    const [x, y, weight] = step.particles.subarray(i, i + 3);
    const size = Math.min(2 * Math.sqrt(weight * step.particles.length / 3), 6);
    pen.fillRect(x * w - size / 2, y * h - size / 2, size, size);
  }
  pen.strokeStyle = "#8a7433";
  seen.forEach(([x, y]) => pen.stroke(new Path2D(`M${x * w - 4} ${y * h}h8m-4 -4v8`)));
  pen.strokeStyle = "#b5486a";
  pen.lineWidth = 2;
  pen.beginPath();
  pen.ellipse(mx * w, my * h, Math.min(2 * sx * w, w), Math.min(2 * sy * h, h), 0, 0, 2 * Math.PI);
  pen.stroke();
  pen.lineWidth = 1;
}

async function follow(number) {
  while (number === running) {
    const began = performance.now(), y = look();
    const step = await filter.call("trackStep", y ? y[0] : 0, y ? y[1] : 0, y !== null);
    if (number !== running) return;
    seen = y ? [...seen.slice(-9), y] : [];
    draw(step);
    pace = [...pace.slice(-29), step.milliseconds];
    const mean = pace.reduce((a, b) => a + b) / pace.length;
    window.followed = { steps: window.followed.steps + 1, estimate: step.estimate, place, milliseconds: mean,
      particles: step.particles.length / 3 };
    element("pace").textContent = `${step.particles.length / 3} particles, ${mean.toFixed(1)} ms a step`;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, FRAME - (performance.now() - began))));
  }
}

async function track() {
  const number = ++running;
  if (filter) filter.worker.terminate();
  filter = new Instance(undefined, (text) => { element("trouble").textContent = text; });
  element("trouble").textContent = "";
  try {
    await filter.call("trackOpen", element("model").value);
    await follow(number);
  } catch (error) {
    if (number === running) element("trouble").textContent = error.message;
  }
}

canvas.addEventListener("pointermove", (event) => {
  const box = canvas.getBoundingClientRect();
  place = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
});
canvas.addEventListener("pointerleave", () => { place = null; });
element("again").addEventListener("click", track);
element("model").value = part("model-text");

open();
track();
