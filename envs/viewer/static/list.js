// The list of episodes: filters by label with counts, sorting by number, search in all text, only the rows in sight drawn.
const ROW = 52; // pixels, as in the style sheet
const MANY = 60; // values from which on a filter's counts are told when it is opened
const chosen = new Map(); // field number -> value number
let order = ROWS.map((_, i) => i); // row numbers as they are sorted
let rank = order.slice(); // place of each row in that order
let shown = order.slice();
const sorting = { number: -1, down: true };
let words = [];
let found = order; // what the search lets through, before the filters
let gathered = 0;

const MARKS = { right: "good", wrong: "bad", stale: "bad", abstained: "warn" };
const box = (id) => document.getElementById(id);

function title(number) {
  return ["family", "kind", "variant"].flatMap((name) => labels(number, name)).filter((v, i, all) => all.indexOf(v) === i).join(" · ");
}

function told(value, name) {
  if (value === null) return "–";
  return /^(reward|saving) /.test(name) ? value.toFixed(2) : value.toLocaleString("en");
}

function detail(number) {
  const row = ROWS[number];
  const parts = ["arm", "language", "signal", "mistake", "cause"].flatMap((name) => labels(number, name));
  parts.push(...labels(number, "hint").filter((h) => h !== "none").map((h) => h + " hint"));
  const by = NUMBERS[sorting.number];
  const first = by && by.name !== "tokens" ? [`${by.name} ${told(by.rows[number], by.name)}`] : [];
  return [...first, ...parts.filter((p) => p !== "none"), `${row.steps} step${row.steps === 1 ? "" : "s"}`, `${row.tokens.toLocaleString("en")} tokens`].join(" · ");
}

// Unknown numbers come last both ways; equal ones stay in the file's order.
function sort() {
  const values = NUMBERS[sorting.number]?.rows;
  const sign = sorting.down ? -1 : 1;
  order = ROWS.map((_, i) => i);
  if (values) order.sort((a, b) => (values[a] === null) - (values[b] === null) || sign * (values[a] - values[b]) || a - b);
  else if (!sorting.down) order.reverse();
  order.forEach((number, place) => (rank[number] = place));
}

function textMatches(number) {
  if (!words.length) return true;
  const text = TEXTS[number];
  return text !== null && words.every((w) => text.includes(w));
}

function matches(number, but) {
  for (const [field, value] of chosen) if (field !== but && !FIELDS[field].rows[number].includes(value)) return false;
  return true;
}

function filter() {
  found = order.filter(textMatches);
  shown = found.filter((i) => matches(i, -1));
  FIELDS.forEach((field, f) => {
    if (!field.select) return;
    field.select.options[0].textContent = `${field.name}: all`;
    field.select.classList.toggle("set", chosen.has(f));
    if (field.values.length <= MANY) count(f);
  });
  const waiting = words.length && gathered < ROWS.length ? `, searched ${gathered} of ${ROWS.length} so far` : "";
  box("count").textContent = (shown.length === ROWS.length ? `${ROWS.length} ${INDEX.noun}` : `${shown.length} of ${ROWS.length} ${INDEX.noun}`) + waiting;
  box("clear").hidden = !chosen.size && !words.length;
  box("active").textContent = chosen.size ? `${chosen.size} set` : "";
  box("rows").style.height = shown.length * ROW + "px";
  drawRows();
}

// How many of what is found bear each value of a filter, the others' choices heeded.
function count(f) {
  const field = FIELDS[f];
  const counts = new Array(field.values.length).fill(0);
  for (const i of found) if (matches(i, f)) for (const code of field.rows[i]) counts[code]++;
  field.options.forEach((option, v) => {
    const text = `${field.values[v]} (${counts[v]})`;
    if (option.textContent !== text) option.textContent = text;
    option.hidden = !counts[v] && chosen.get(f) !== v;
  });
}

function drawRows() {
  const list = box("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 9);
  const rows = [];
  for (let place = first; place < last; place++) {
    const number = shown[place];
    const result = labels(number, "result")[0];
    const row = el(
      "div",
      { class: "row" + (number === current.sample ? " on" : ""), role: "option", id: "row" + number, "aria-selected": String(number === current.sample), "data-number": number },
      el("b", {}, result ? el("i", { class: "dot " + MARKS[result], title: result }) : null, title(number)),
      el("span", {}, detail(number)),
    );
    row.style.top = place * ROW + "px";
    rows.push(row);
  }
  box("rows").replaceChildren(...rows);
  if (!shown.length) box("rows").append(el("p", { class: "soft none" }, "Nothing fits. Clear a filter."));
}

function reveal() {
  const list = box("list");
  const top = shown.indexOf(current.sample) * ROW;
  if (top < 0) return;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
  list.setAttribute("aria-activedescendant", "row" + current.sample);
  drawRows();
}

// The next sample of the filtered list in a direction; the nearest one where the current sample is filtered out.
function neighbour(by) {
  const place = shown.indexOf(current.sample);
  if (place >= 0) return shown[Math.min(shown.length - 1, Math.max(0, place + by))];
  const here = rank[current.sample];
  return by > 0 ? shown.find((n) => rank[n] > here) ?? shown.at(-1) : shown.findLast((n) => rank[n] < here) ?? shown[0];
}

function resort() {
  sort();
  box("turnaround").textContent = sorting.down ? "↓" : "↑";
  box("turnaround").setAttribute("aria-pressed", String(!sorting.down));
  box("list").scrollTop = 0;
  filter();
}

function turnAround() {
  sorting.down = !sorting.down;
  resort();
}

function startSort() {
  box("sort").append(el("option", { value: -1 }, "order of the file"), ...NUMBERS.map((n, i) => el("option", { value: i }, n.name)));
  box("sort").addEventListener("change", () => {
    Object.assign(sorting, { number: Number(box("sort").value), down: true });
    resort();
  });
  box("turnaround").addEventListener("click", turnAround);
}

function startList() {
  FIELDS.forEach((field, f) => {
    if (field.values.length < 2 && field.rows.every((r) => r.length)) return; // nothing to choose
    field.options = field.values.map((value, v) => el("option", { value: v }, value));
    field.select = el("select", { "aria-label": field.name, "data-field": field.name }, el("option", { value: "" }, field.name), field.options);
    if (field.values.length > MANY) for (const asked of ["focus", "pointerdown"]) field.select.addEventListener(asked, () => count(f));
    field.select.addEventListener("change", () => {
      if (field.select.value === "") chosen.delete(f);
      else chosen.set(f, Number(field.select.value));
      filter();
      settle();
    });
    box("fields").append(field.select);
  });
  startSort();
  let timer = 0;
  box("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      words = box("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      filter();
      settle();
    }, 80);
  });
  box("clear").addEventListener("click", () => {
    chosen.clear();
    words = [];
    box("search").value = "";
    for (const field of FIELDS) if (field.select) field.select.value = "";
    filter();
    settle();
  });
  box("list").addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
  window.addEventListener("resize", drawRows);
  box("rows").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) {
      go(Number(row.dataset.number), 0);
      closeMenu();
    }
  });
  box("intro").textContent = INDEX.intro;
  box("intro").hidden = !INDEX.intro;
  filter();
  gather((done) => {
    gathered = done;
    if (words.length && (done === ROWS.length || done % 50 === 0)) filter();
  });
}
