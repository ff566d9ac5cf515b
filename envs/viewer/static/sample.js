// One episode at one inference: the log left, the view right, then what the policy said and what came of it.
const WHY = { cleared: "cleared by the host", control: "control turn", alias: "read-back of an earlier turn", dropped: "dropped by the injection", unlisted: "left out, not listed" };
const ROLES = { system: "system", user: "user (host and user)", assistant: "model" };
let contractOpen = false;

function why(reason, block) {
  const injected = block.injected;
  if (WHY[reason]) return WHY[reason];
  if (reason[0] === "f") return `folded into ${reason}` + (injected?.folds.includes(reason) ? ", its brief damaged" : "");
  if (reason[0] === "c") return `compressed into ${reason}` + (injected?.folds.includes(reason) ? ", its summary damaged" : "");
  if (reason[0] === "w") return `in window ${reason}` + (injected?.window ? ", moved by the injection" : "");
  return reason;
}

// Text with the values that the current question accepts, and the ones that are no longer in force, marked.
function marked(text, marks) {
  let parts = [text];
  for (const [value, kind] of marks) {
    parts = parts.flatMap((part) => {
      if (typeof part !== "string" || !part.includes(value)) return [part];
      return part.split(value).flatMap((rest, i) => (i ? [el("mark", { class: kind }, value), rest] : [rest]));
    });
  }
  return parts.length === 1 && parts[0] === text ? text || "\u200b" : parts;
}

function marksOf(turn) {
  const fit = (value) => value.length > 2 && !["unknown", "none", "yes"].includes(value);
  const slots = turn?.slots ?? [];
  const values = slots.filter((s) => !s.never).map((s) => [s.accept[0], "right"]);
  return values.concat(slots.flatMap((s) => s.stale.map((v) => [v, "stale"]))).filter(([v]) => fit(v));
}

const textOf = (block, lines) => lines.map((i) => block.lines[i]);

function chip(name, value, kind) {
  return el("span", { class: "chip " + (kind || "") }, name ? [el("i", {}, name), " "] : null, value);
}

// ---- head --------------------------------------------------------------------------------------------------------------

function head(number, block) {
  const row = ROWS[number];
  const chips = FIELDS.flatMap((f) => f.rows[number].length ? [chip(f.name, f.rows[number].map((c) => f.values[c]).join(", "), f.name === "result" ? MARKS[f.values[f.rows[number][0]]] : "")] : []);
  const facts = [`${row.steps} inference${row.steps === 1 ? "" : "s"}`, `${row.tokens.toLocaleString("en")} tokens`, `ended: ${block.reason}`, block.policy];
  if (row.q !== null) facts.push(`reward q ${row.q.toFixed(2)}`);
  if (block.s !== null) facts.push(`saving s ${block.s.toFixed(2)}`);
  const steps = Object.entries(block.funnel);
  return el(
    "section",
    { class: "head" },
    el("h2", {}, title(number), " ", el("small", { class: "id" }, row.id)),
    el("div", { class: "chips" }, chips),
    el("p", { class: "facts" }, facts.join(" · "), steps.length ? " · detection: " : null, steps.map(([name, done]) => el("span", { class: done ? "yes" : "no" }, `${done ? "✓" : "✗"} ${name} `))),
    same(number),
    injection(block),
    ledger(block),
    truth(block),
  );
}

function injection(block) {
  if (!block.injected) return null;
  const told = block.injected.told;
  if (!told.length) return el("p", { class: "soft" }, "Nothing is injected: an undamaged control.");
  return el("div", { class: "injected" }, el("h3", {}, "Injected"), el("dl", {}, told.map(([what, text]) => [el("dt", {}, what), el("dd", {}, text)])));
}

function truth(block) {
  const facts = Object.entries(block.truth).map(([key, value]) => el("tr", {}, el("th", {}, key), el("td", {}, value)));
  const memory = block.memory.map(([scope, key, value, status, standing]) => el("tr", {}, el("th", {}, `${scope} ${key}`), el("td", {}, value), el("td", { class: "soft" }, status === standing ? status : `${status}, ${standing}`)));
  return el(
    "details",
    { class: "more" },
    el("summary", {}, "Ground truth and memory at the end"),
    el("div", { class: "two" }, el("table", {}, el("caption", {}, "facts in force"), facts), memory.length ? el("table", {}, el("caption", {}, "memory"), memory) : el("p", { class: "soft" }, "No memory was kept.")),
  );
}

// ---- the log -----------------------------------------------------------------------------------------------------------

function logPane(block, step, marks) {
  const out = hidden(step);
  const asked = new Set((block.turns[step.turn]?.slots ?? []).map((s) => s.key).filter(Boolean));
  const before = [];
  const now = [];
  const later = [];
  block.events.forEach((event, place) => {
    const own = place >= step.at && step.kind !== "maintenance" && event.turn === step.event;
    const card = eventCard(block, event, out.get(place), marks, asked, place < step.at ? "" : own ? "now" : "later");
    (place < step.at ? before : own ? now : later).push(card);
    if (place + 1 === block.prefix && block.start) before.push(el("p", { class: "rule" }, "the policy takes over here"));
  });
  const shown = before.filter((c) => c.classList.contains("event") && !c.classList.contains("out")).length;
  return el(
    "section",
    { class: "pane log", "aria-label": "Log", id: "log" },
    el("h3", {}, "Log", el("small", {}, `ground truth · ${step.hidden.length ? `${shown} in view, ${before.filter((c) => c.classList.contains("out")).length} out` : "all in view"}`)),
    el("div", { class: "scroll", id: "logscroll" }, before, now.length ? el("p", { class: "rule", id: "here" }, "this inference") : null, now, later.length ? el("details", { class: "more" }, el("summary", {}, `${later.length} later event${later.length === 1 ? "" : "s"}`), later) : null),
  );
}

function eventCard(block, event, reason, marks, asked, when) {
  const dropped = reason && (reason === "dropped" || why(reason, block).includes("damaged") || why(reason, block).includes("injection"));
  const evidence = (event.states ?? []).filter((key) => asked.has(key));
  const name = event.role === "host" ? event.name : event.name || "";
  const tags = [];
  if (reason) tags.push(el("span", { class: "tag " + (dropped ? "inj" : "") }, why(reason, block)));
  if (evidence.length) tags.push(el("span", { class: "tag ev", title: evidence.join(", ") }, "states the answer"));
  return el(
    "div",
    { class: `event ${event.role} ${reason ? "out" : ""} ${when}`, "data-ref": event.n, "data-reason": reason || null },
    el("div", { class: "what" }, el("b", {}, event.n), el("span", {}, event.role === "assistant" ? "model" : event.role), name ? el("span", { class: "soft" }, name) : null, event.window !== "w1" ? el("span", { class: "soft" }, event.window) : null, tags),
    textOf(block, event.text).map((line) => el("div", { class: "line" }, marked(line, marks))),
  );
}

// ---- the view ----------------------------------------------------------------------------------------------------------

function viewPane(block, number, marks) {
  const step = block.steps[number];
  const before = number ? block.steps[number - 1].view : null;
  const diff = before ? compare(before, step.view, step.keep) : { fresh: new Set(), gone: [] };
  const injected = block.injected;
  const isInjected = (role, line) => injected && ((role === "system" && injected.notes.some((n) => line.startsWith(n))) || injected.briefs.some((b) => b && line.includes("] " + b)));
  const lineOf = (role, m) => (id, i) => {
    const line = block.lines[id];
    const style = ["line", diff.fresh.has(m + "." + i) ? "new" : "", isInjected(role, line) ? "injline" : ""].join(" ").trim();
    return el("div", { class: style }, marked(line, marks));
  };
  const messages = step.view.map(([role, text], m) => {
    const lines = text.map(lineOf(role, m));
    // Prompt and tools never change: closed, so that what does change stands at the top.
    const cut = role === "system" ? text.findIndex((id) => block.lines[id].startsWith("notes:")) : -1;
    const body = cut > 0 ? [contract(lines.slice(0, cut)), ...lines.slice(cut)] : lines;
    return el("div", { class: "message " + role + (m < step.keep ? " kept" : "") }, el("div", { class: "what" }, el("b", {}, ROLES[role])), body);
  });
  const told = before ? (step.keep === before.length ? `${step.view.length - step.keep} messages added` : `rewritten: ${diff.fresh.size} lines new, ${diff.gone.length} gone`) : "first view";
  const index = step.index.length ? step.index.join("; ") : "nothing";
  return el(
    "section",
    { class: "pane view", "aria-label": "View", id: "view" },
    el("h3", {}, "View", el("small", {}, `exactly what the policy reads · ${told}`)),
    el(
      "div",
      { class: "scroll", id: "viewscroll" },
      el("p", { class: "soft left" }, el("b", {}, "left out: "), index),
      messages,
      diff.gone.length ? el("details", { class: "more gone" }, el("summary", {}, `${diff.gone.length} lines of the view before are gone`), diff.gone.map((x) => el("div", { class: "line old" }, block.lines[x.line] || "\u200b"))) : null,
      turn(block, step, marks),
    ),
  );
}

function contract(lines) {
  const made = el("details", { class: "more", open: contractOpen }, el("summary", {}, `prompt and tools, ${lines.length} lines`), lines);
  made.addEventListener("toggle", () => (contractOpen = made.open));
  return made;
}

// ---- what the policy did -----------------------------------------------------------------------------------------------

function turn(block, step, marks) {
  const kinds = { calls: "calls", answer: "answer", notice: "neither call nor answer", maintenance: "summary by the sub-agent" };
  const notes = [];
  if (!step.trained) notes.push(el("span", { class: "tag warn" }, step.error ? `${step.error}: not trained` : "not trained"));
  else if (step.error) notes.push(el("span", { class: "tag warn" }, step.error));
  if (step.cut) notes.push(el("span", { class: "tag bad" }, "cut by the token cap"));
  if (step.rewrite) notes.push(el("span", { class: "tag" }, "rewrites the view"));
  const text = textOf(block, step.text);
  return el(
    "div",
    { class: "turn" + (step.trained ? "" : " masked") },
    el("div", { class: "what" }, el("b", {}, `The policy: ${kinds[step.kind]}`), el("span", { class: "soft" }, `e${step.event} · ${step.sampled} tokens out`), notes),
    text.join("") ? text.map((line) => el("div", { class: "line said" }, marked(line, marks))) : el("div", { class: "line soft" }, "(empty)"),
    step.outcomes.map((o) => outcome(block, o, marks)),
    step.kind === "answer" ? answers(block, step) : null,
  );
}

function outcome(block, o, marks) {
  const kind = ["ok", "result", "shown"].includes(o.code) ? "good" : "bad";
  const about = [o.tool, o.event ? `e${o.event}` : "", o.shows.length ? "shows " + o.shows.map((e) => "e" + e).join(", ") : ""].filter(Boolean).join(" · ");
  return el("div", { class: "outcome" }, el("div", { class: "what" }, el("span", { class: "tag " + kind }, o.code), el("span", { class: "soft" }, about)), textOf(block, o.text).map((line) => el("div", { class: "line" }, marked(line, marks))));
}

function answers(block, step) {
  const asked = block.turns[step.turn];
  if (!asked.slots.length) return null;
  const rows = asked.slots.map((s) =>
    el(
      "tr",
      {},
      el("th", {}, s.name, s.constraint ? el("small", {}, "constraint") : null),
      el("td", {}, s.given.join(" | ") || "–"),
      el("td", {}, s.accept[0], s.accept.length > 1 ? el("small", {}, "or " + s.accept.slice(1).join(", ")) : null, s.never ? el("small", {}, "never stated, or nothing in force") : null),
      el("td", {}, s.verdict ? el("span", { class: "tag " + MARKS[s.verdict] }, s.verdict) : "–", s.how && s.how !== s.verdict ? el("small", {}, s.how) : null, neededIn(s)),
      el("td", {}, earned(s)),
    ),
  );
  const last = step === block.steps.at(-1);
  return el(
    "div",
    { class: "answers" },
    el("table", {}, el("thead", {}, el("tr", {}, ["slot", "given", "accepted", "verdict", "credit"].map((t) => el("th", {}, t)))), el("tbody", {}, rows)),
    el("p", { class: "soft" }, `question: ${asked.question}` + (last && block.q !== null ? ` · reward q of the episode ${block.q.toFixed(2)}` : "") + (last && block.s !== null ? `, saving s ${block.s.toFixed(2)}` : "")),
  );
}

// ---- together ----------------------------------------------------------------------------------------------------------

function stepBar(block, at) {
  const words = { calls: "calls", answer: "answer", notice: "nothing usable", maintenance: "sub-agent" };
  const buttons = block.steps.map((step, i) =>
    el("button", { type: "button", class: `step ${step.kind} ${step.trained ? "" : "masked"} ${step.rewrite ? "rewrite" : ""}`, "aria-current": i === at ? "step" : null, title: `inference ${i + 1}: ${words[step.kind]}${step.trained ? "" : ", not trained"}`, onclick: () => go(current.sample, i) }, String(i + 1)),
  );
  const step = block.steps[at];
  const about = step ? `turn ${step.turn + 1} · ${spentOn(block, at)} · fill ${Math.round(step.fill * 100)} %` : "";
  return el("div", { class: "stepbar" + (block.steps.length > 8 ? " many" : "") }, el("button", { type: "button", class: "move", title: "inference before (←)", disabled: at <= 0, onclick: () => go(current.sample, at - 1) }, "←"), el("div", { class: "steps" }, buttons), el("button", { type: "button", class: "move", title: "next inference (→)", disabled: at + 1 >= block.steps.length, onclick: () => go(current.sample, at + 1) }, "→"), el("p", { class: "facts" }, about));
}

function draw(number, block, at) {
  const step = block.steps[at];
  const place = box("sample");
  place.lang = labels(number, "language")[0] || "en";
  if (!step) {
    place.replaceChildren(head(number, block), el("p", { class: "soft" }, "The episode ended before its first inference."));
    return;
  }
  const marks = marksOf(block.turns[step.turn]);
  const tab = (name, id) => el("button", { type: "button", class: "tab", "aria-pressed": String(current.tab === id), onclick: () => setTab(id) }, name);
  place.replaceChildren(
    head(number, block),
    stepBar(block, at),
    el("div", { class: "tabs" }, tab("View", "view"), tab("Log", "log")),
    el("div", { class: "panes", "data-tab": current.tab }, logPane(block, step, marks), viewPane(block, at, marks)),
  );
  const button = place.querySelector(".step[aria-current]");
  const strip = button.parentElement;
  strip.scrollLeft = button.offsetLeft - strip.offsetLeft - strip.clientWidth / 2;
  // Each pane to where something happens: the log to this inference, the view to its first new line.
  if (!matchMedia("(min-width: 64rem)").matches) return;
  const here = box("here");
  if (here) box("logscroll").scrollTop = here.offsetTop - box("logscroll").clientHeight * 0.6;
  const fresh = at ? box("viewscroll").querySelector(".new") : null;
  if (fresh) box("viewscroll").scrollTop = fresh.offsetTop - 60;
}
