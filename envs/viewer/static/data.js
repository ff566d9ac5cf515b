"use strict";
// The stored episodes: unpacked when asked for, a few of them held; views rebuilt from suffixes; lines compared.
const INDEX = JSON.parse(document.getElementById("index").textContent);
const ROWS = INDEX.rows;
const FIELDS = INDEX.fields;
const NUMBERS = INDEX.numbers;
const HELD = new Map();
const MOST_HELD = 24;
const TEXTS = new Array(ROWS.length).fill(null); // lower-case text of every episode, filled in the background

const parsed = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve, { once: true });
  else resolve();
});

async function inflate(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function unpack(number) {
  let element = document.getElementById("b" + number);
  if (!element) {
    await parsed; // the file is still being read
    element = document.getElementById("b" + number);
  }
  return inflate(element.textContent);
}

async function episode(number) {
  if (HELD.has(number)) return HELD.get(number);
  const block = await unpack(number);
  let view = [];
  for (const step of block.steps) {
    view = view.slice(0, step.keep).concat(step.new);
    step.view = view;
  }
  HELD.set(number, block);
  if (HELD.size > MOST_HELD) HELD.delete(HELD.keys().next().value);
  return block;
}

function labels(number, name) {
  const field = FIELDS.find((f) => f.name === name);
  return field ? field.rows[number].map((code) => field.values[code]) : [];
}

function searchable(number, block) {
  const own = FIELDS.flatMap((f) => f.rows[number].map((code) => f.values[code]));
  return [ROWS[number].id, ...own, ...block.lines].join("\n").toLowerCase();
}

// Reads all episodes in the background, so that a search looks at memory alone. `told` is called now and then.
async function gather(told) {
  await parsed;
  let rest = performance.now();
  for (let i = 0; i < ROWS.length; i++) {
    if (TEXTS[i] === null) TEXTS[i] = searchable(i, await unpack(i));
    if (performance.now() - rest > 12) {
      told(i + 1);
      await new Promise((resolve) => setTimeout(resolve, 0));
      rest = performance.now();
    }
  }
  told(ROWS.length);
}

// Which lines of a view are new, and which of the one before are gone. Messages up to `keep` are the same in both.
function compare(before, after, keep) {
  const flat = (view) => view.slice(keep).flatMap(([role, text], m) => text.map((line, i) => ({ id: role + line, role, line, m: m + keep, i })));
  let a = flat(before);
  let b = flat(after);
  // What both begin and end with is the same; the search is over the rest.
  let head = 0;
  while (head < a.length && head < b.length && a[head].id === b[head].id) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail].id === b[b.length - 1 - tail].id) tail++;
  a = a.slice(head, a.length - tail);
  b = b.slice(head, b.length - tail);
  const fresh = new Set();
  const gone = [];
  const key = (x) => x.m + "." + x.i;
  if (!a.length || a.length * b.length > 4e6) {
    b.forEach((x) => fresh.add(key(x)));
    return { fresh, gone: a };
  }
  // Longest common subsequence, from the end.
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] = a[i].id === b[j].id ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i].id === b[j].id) {
      i++;
      j++;
    } else if (j < b.length && (i === a.length || best[i * width + j + 1] >= best[(i + 1) * width + j])) fresh.add(key(b[j++]));
    else gone.push(a[i++]);
  }
  return { fresh, gone };
}

// Why each event is out of view at a step: position -> reason.
function hidden(step) {
  const found = new Map();
  for (const [first, last, reason] of step.hidden) for (let i = first; i <= last; i++) found.set(i, reason);
  return found;
}

// An element with properties and children; strings become text, never markup.
function el(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== ""));
  return made;
}
