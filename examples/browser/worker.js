// A worker's part: one instance of the program, which answers messages {id, call, args}. Before it stands emscripten's
// loader, the function penumbra; the module arrives in the first message.
"use strict";

let Module;

const functions = {
  ask: (what, text) => page("page_ask", "string", [what, text]),
  trackOpen: (script) => {
    if (!page("track_open", "number", [script])) throw new Error(page("track_message", "string", []));
    return true;
  },
  trackStep: (x, y, seen) => {
    const began = performance.now();
    const n = Module.ccall("track_step", "number", ["number", "number", "number"], [x, y, seen ? 1 : 0]);
    if (!n) throw new Error(page("track_message", "string", []));
    const at = Module._track_particles() >> 3, mean = Module._track_estimate() >> 3;
    return {
      particles: Float32Array.from(Module.HEAPF64.subarray(at, at + 3 * n)),
      estimate: Array.from(Module.HEAPF64.subarray(mean, mean + 5)),
      milliseconds: performance.now() - began,
    };
  },
};

function page(name, result, texts) {
  // Long texts do not go over the stack.
  const blocks = texts.map((text) => {
    const size = Module.lengthBytesUTF8(text) + 1, block = Module._malloc(size);
    Module.stringToUTF8(text, block, size);
    return block;
  });
  try {
    return Module.ccall(name, result, texts.map(() => "number"), blocks);
  } finally {
    blocks.forEach((block) => Module._free(block));
  }
}

async function start(message) {
  Module = await penumbra({
    instantiateWasm: (imports, receive) => {
      WebAssembly.instantiate(message.module, imports).then((instance) => receive(instance));
      return {};
    },
    print: (text) => postMessage({ print: text }),
    printErr: (text) => postMessage({ print: text, wrong: true }),
  });
  const wrong = message.page === undefined ? "" : page("page_open", "string", [message.page]);
  postMessage({ ready: true, wrong });
}

onmessage = (event) => {
  const message = event.data;
  if (message.module) return start(message);
  try {
    postMessage({ id: message.id, answer: functions[message.call](...message.args) });
  } catch (error) {
    postMessage({ id: message.id, error: String(error.message || error) });
  }
};
