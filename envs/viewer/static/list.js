// The list of episodes: filters by label with counts, search in all text, only the rows in sight drawn.
const ROW = 52; // pixels, as in the style sheet
const chosen = new Map(); // field number -> value number
let shown = ROWS.map((_, i) => i);
let words = [];
let gathered = 0;

const MARKS = { right: "good", wrong: "bad", stale: "bad", abstained: "warn" };
const box = (id) => document.getElementById(id);

function title(number) {
  return ["family", "kind", "variant"].flatMap((name) => labels(number, name)).filter((v, i, all) => all.indexOf(v) === i).join(" · ");
}

function detail(number) {
  const row = ROWS[number];
  const parts = ["arm", "language", "signal", "mistake", "cause"].flatMap((name) => labels(number, name));
  parts.push(...labels(number, "hint").map((h) => h + " hint"));
  return [...parts.filter((p) => p !== "none"), `${row.steps} steps`, `${row.tokens.toLocaleString("en")} tokens`].join(" · ");
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
  const found = ROWS.map((_, i) => i).filter(textMatches);
  shown = found.filter((i) => matches(i, -1));
  FIELDS.forEach((field, f) => {
    if (!field.select) return;
    const counts = new Array(field.values.length).fill(0);
    let all = 0;
    for (const i of found)
      if (matches(i, f)) {
        all++;
        for (const code of field.rows[i]) counts[code]++;
      }
    field.select.options[0].textContent = `${field.name}: all`;
    for (const option of [...field.select.options].slice(1)) {
      const count = counts[option.value];
      option.textContent = `${field.values[option.value]} (${count})`;
      option.hidden = !count && chosen.get(f) !== Number(option.value);
    }
    field.select.classList.toggle("set", chosen.has(f));
  });
  const waiting = words.length && gathered < ROWS.length ? `, searched ${gathered} of ${ROWS.length} so far` : "";
  box("count").textContent = (shown.length === ROWS.length ? `${ROWS.length} samples` : `${shown.length} of ${ROWS.length} samples`) + waiting;
  box("clear").hidden = !chosen.size && !words.length;
  box("active").textContent = chosen.size ? `${chosen.size} set` : "";
  box("rows").style.height = shown.length * ROW + "px";
  drawRows();
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
  return by > 0 ? shown.find((n) => n > current.sample) ?? shown.at(-1) : shown.findLast((n) => n < current.sample) ?? shown[0];
}

function startList() {
  FIELDS.forEach((field, f) => {
    if (field.values.length < 2 && field.rows.every((r) => r.length)) return; // nothing to choose
    const order = field.values.map((_, v) => v);
    const options = order.map((v) => el("option", { value: v }, field.values[v]));
    field.select = el("select", { "aria-label": field.name, "data-field": field.name }, el("option", { value: "" }, field.name), options);
    field.select.addEventListener("change", () => {
      if (field.select.value === "") chosen.delete(f);
      else chosen.set(f, Number(field.select.value));
      filter();
      settle();
    });
    box("fields").append(field.select);
  });
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
