// What is shown now, the keys, the address, the theme.
const current = { sample: -1, step: 0, tab: "view" };
const marks = {}; // milliseconds from the navigation on: when the list and the first episode were drawn
let asked = 0;

async function go(sample, step) {
  const ticket = ++asked;
  if (sample === undefined) return;
  const moved = sample !== current.sample;
  Object.assign(current, { sample, step });
  if (moved) {
    reveal();
    box("notice").hidden = true;
  }
  let block;
  try {
    block = await episode(sample);
  } catch (error) {
    box("sample").replaceChildren(el("p", { class: "bad" }, `This sample can't be opened (${error.message}). The page needs a browser of 2023 or newer, and the whole file.`));
    return;
  }
  if (ticket !== asked) return; // another one has been asked for since
  current.step = Math.max(0, Math.min(step, block.steps.length - 1));
  draw(sample, block, current.step);
  marks.episode ??= performance.now();
  document.title = `${title(sample)} – ${INDEX.title}`;
  const address = `#${encodeURIComponent(ROWS[sample].id)}/${current.step + 1}` + (ROWS.findIndex((r) => r.id === ROWS[sample].id) === sample ? "" : `/${sample}`);
  history.replaceState(null, "", address);
  if (moved) window.scrollTo(0, 0);
}

// The current sample stays while the filter lets it; else the first that fits is shown.
function settle() {
  if (shown.length && !shown.includes(current.sample)) {
    box("list").scrollTop = 0;
    go(shown[0], 0);
  } else reveal();
}

function setTab(id) {
  current.tab = id;
  document.querySelector(".panes").dataset.tab = id;
  document.querySelectorAll(".tab").forEach((b) => b.setAttribute("aria-pressed", String(b.textContent.toLowerCase() === id)));
}

function fromAddress() {
  const [id, step, number] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const sample = number !== undefined ? Number(number) : ROWS.findIndex((r) => r.id === id);
  if (ROWS[sample]) go(sample, (Number(step) || 1) - 1);
  else go(shown[0], 0);
  box("notice").hidden = !id || Boolean(ROWS[sample]);
  box("notice").textContent = box("notice").hidden ? "" : `${id} is not on this page: it was made of fewer ${INDEX.noun}. Here is the first.`;
}

// ---- theme -------------------------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
function stored(value) {
  try {
    if (value !== undefined) localStorage.setItem("viewer-theme", value);
    return localStorage.getItem("viewer-theme") || "";
  } catch {
    return value || ""; // no storage for files in this browser
  }
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  box("theme").textContent = isDark() ? "Light" : "Dark";
}

const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
function toggleTheme() {
  const name = isDark() ? "light" : "dark";
  setTheme(name);
  stored(name);
}

// ---- start -------------------------------------------------------------------------------------------------------------

function closeMenu() {
  document.body.classList.remove("menu");
  box("menu").setAttribute("aria-expanded", "false");
}

const KEYS = {
  j: () => go(neighbour(1), 0),
  k: () => go(neighbour(-1), 0),
  ArrowDown: () => go(neighbour(1), 0),
  ArrowUp: () => go(neighbour(-1), 0),
  ArrowRight: () => go(current.sample, current.step + 1),
  ArrowLeft: () => go(current.sample, current.step - 1),
  Home: () => go(current.sample, 0),
  End: () => go(current.sample, Infinity),
  o: nextSibling,
  s: () => {
    document.body.classList.add("menu");
    box("sort").focus();
  },
  r: turnAround,
  t: toggleTheme,
  "?": () => box("help").showModal(),
  "/": () => {
    document.body.classList.add("menu");
    box("search").focus();
  },
};

const HELP = [
  ["→ ←", "next inference, the one before"],
  ["Home End", "first and last inference"],
  ["↓ ↑ or j k", `next and previous of the ${INDEX.noun} in the list`],
  ["o", "the same sample, played by the next arm"],
  ["s, r", "choose what to sort by; turn the order round"],
  ["/", "search all text"],
  ["t", "light or dark"],
  ["Esc", "leave a field, close the list"],
];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || box("help").open) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    closeMenu();
    document.activeElement?.blur();
  }
  const action = typing ? null : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

box("theme").addEventListener("click", toggleTheme);
box("keys").addEventListener("click", KEYS["?"]);
box("keylist").append(...HELP.flatMap(([keys, what]) => [el("dt", {}, keys), el("dd", {}, what)]));
box("menu").addEventListener("click", () => {
  const open = document.body.classList.toggle("menu");
  box("menu").setAttribute("aria-expanded", String(open));
  drawRows();
  reveal();
});
dark.addEventListener("change", () => setTheme(stored()));
window.addEventListener("hashchange", fromAddress);
setTheme(stored());
box("filters").open = matchMedia("(min-width: 64rem)").matches;
startList();
marks.list = performance.now();
fromAddress();
