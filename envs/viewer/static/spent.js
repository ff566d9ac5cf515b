// What an episode spent and earned, and where the same sample is played by others.
let ledgerOpen = false;
const exact = (number) => number.toLocaleString("en");

// Tokens up to and with an inference.
const spentBy = (block, at) => block.steps.slice(0, at + 1).reduce((sum, step) => sum + step.in + step.sampled, 0);

function spentOn(block, at) {
  const step = block.steps[at];
  const shared = step.shared === null ? "" : ` (${exact(step.shared)} shared with the call before)`;
  return `${exact(step.in)} tokens in${shared} · ${exact(step.sampled)} out · ${exact(spentBy(block, at))} so far`;
}

function earned(slot) {
  if (slot.credit === null) return "–";
  const share = `${slot.earned < 0 ? "−" : "+"}${Math.abs(slot.earned).toFixed(2)} of q`;
  return [slot.credit.toFixed(2).replace("-", "−"), el("small", {}, slot.weight === 1 ? share : `weight ${slot.weight}, ${share}`)];
}

function neededIn(slot) {
  if (slot.needed === null) return null;
  return el("small", { class: slot.needed ? "yes" : "no" }, `needed value in the exact input: ${slot.needed ? "yes" : "no"}`);
}

function ledger(block) {
  const knows = block.steps.some((step) => step.shared !== null);
  let sum = 0;
  const most = Math.max(...block.steps.map((step) => step.in + step.sampled), 1);
  const calls = block.steps.map((step, i) => {
    sum += step.in + step.sampled;
    const part = (kind, tokens) => el("i", { class: kind, style: `width:${(100 * tokens) / most}%` });
    const bar = el("span", { class: "bars", "aria-hidden": "true" }, part("shared", step.shared ?? 0), part("fresh", step.in - (step.shared ?? 0)), part("out", step.sampled));
    return el("tr", { class: i === current.step ? "on" : null }, el("th", {}, el("button", { type: "button", onclick: () => go(current.sample, i) }, String(i + 1))), el("td", {}, step.kind === "maintenance" ? "sub-agent" : step.kind), el("td", { class: "n" }, exact(step.in)), knows ? el("td", { class: "n" }, exact(step.shared)) : null, el("td", { class: "n" }, exact(step.sampled)), el("td", { class: "n" }, exact(sum)), el("td", {}, bar));
  });
  const heads = ["call", "", "in", ...(knows ? ["shared"] : []), "out", "so far", ""];
  const checks = block.turns.flatMap((turn, t) => turn.slots.filter((slot) => slot.credit !== null).map((slot) => el("tr", {}, el("th", {}, `turn ${t + 1} ${slot.name}`), el("td", {}, el("span", { class: "tag " + MARKS[slot.verdict] }, slot.verdict), slot.how !== slot.verdict ? el("small", {}, slot.how) : null, neededIn(slot)), el("td", { class: "n" }, earned(slot)))));
  const total = el("tr", { class: "sum" }, el("th", {}, "reward q"), el("td", {}), el("td", { class: "n" }, block.q === null ? "–" : block.q.toFixed(2).replace("-", "−")));
  const saved = block.s === null ? null : el("tr", {}, el("th", {}, "saving s"), el("td", { class: "soft" }, `${exact(sum)} tokens against ${exact(block.reference)} of the reference`), el("td", { class: "n" }, block.s.toFixed(2)));
  const made = el(
    "details",
    { class: "more ledger", open: ledgerOpen },
    el("summary", {}, "Spent and rewarded"),
    el(
      "div",
      { class: "two" },
      el("table", {}, el("caption", {}, "tokens by inference" + (knows ? "; shared: what the call before had read or written already" : "")), el("thead", {}, el("tr", {}, heads.map((h) => el("th", {}, h)))), el("tbody", {}, calls)),
      checks.length ? el("table", {}, el("caption", {}, "credit by check"), el("thead", {}, el("tr", {}, ["check", "verdict", "credit"].map((h) => el("th", {}, h)))), el("tbody", {}, checks, total, saved)) : el("p", { class: "soft" }, "Nothing is checked in this episode."),
    ),
  );
  made.addEventListener("toggle", () => (ledgerOpen = made.open));
  return made;
}

// ---- the same sample, played by others ---------------------------------------------------------------------------------------

const GROUPS = new Map();
ROWS.forEach((row, i) => {
  if (row.group !== undefined) GROUPS.set(row.group, [...(GROUPS.get(row.group) ?? []), i]);
});
const siblings = (number) => GROUPS.get(ROWS[number]?.group) ?? [];

// The next episode of the same sample, at the same inference.
function nextSibling() {
  const all = siblings(current.sample);
  if (all.length > 1) go(all[(all.indexOf(current.sample) + 1) % all.length], current.step);
}

function same(number) {
  const all = siblings(number);
  if (all.length < 2) return null;
  const about = (i) => [...labels(i, "arm"), ...labels(i, "repeat").map((r) => `repeat ${r}`)].join(" ") || ROWS[i].id;
  const links = all.map((i) => {
    const result = labels(i, "result")[0];
    const numbers = (ROWS[i].q === null ? "" : `q ${ROWS[i].q.toFixed(2).replace("-", "−")}, `) + `${exact(ROWS[i].tokens)} tokens`;
    return el("button", { type: "button", class: "sibling", "aria-current": i === number ? "true" : null, "data-number": i, onclick: () => go(i, current.step) }, result ? el("i", { class: "dot " + MARKS[result], title: result }) : null, about(i), " ", el("small", {}, numbers));
  });
  return el("div", { class: "same" }, el("span", { class: "soft" }, "same sample:"), links);
}
