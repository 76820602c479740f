// What hands do: wheel, pointer, fingers and keys; and what is said of the op in hand.
function opLines(r, k) {
  const row = rows[r];
  const op = row.op[k];
  const doing = ["", "", "issue of ", "wait for "][row.kind[k]];
  const lines = [doing + OPS.name[op]];
  const [task, name] = D.groups[OPS.group[op]];
  lines.push([task, name, `tile ${OPS.tile[op]}`].filter(Boolean).join(" / "));
  lines.push(`${row.lane.label}: ${time(row.start[k])} to ${time(row.end[k])} (${time(row.end[k] - row.start[k])})`);
  if (OPS.start[op] > OPS.ready[op]) lines.push(`ready at ${time(OPS.ready[op])}, waited ${time(OPS.start[op] - OPS.ready[op])}`);
  if (OPS.slowed[op] > 0) lines.push(`slowed by others: ${time(OPS.slowed[op])}`);
  for (const [buffer, address, size] of buffersOf(op).slice(0, 4)) {
    lines.push(`${buffer}: ${bytes(size)} at ${address.toLocaleString("en")}`);
  }
  if (state.measured && D.measured[op]) {
    const [start, end] = D.measured[op];
    lines.push(`measured ${time(start)} to ${time(end)} (${time(end - start)})`);
  }
  return lines;
}

let bufferIndex = null;

function buffersOf(op) {
  if (bufferIndex === null) {
    bufferIndex = OPS.name.map(() => []);
    for (const pad of D.memory) for (const life of pad.lives) for (const user of new Set(life[6])) bufferIndex[user].push(life);
  }
  return bufferIndex[op];
}

function opButton(op) {
  const button = make("button", { type: "button", class: "op" }, OPS.name[op]);
  button.addEventListener("click", () => choose(op));
  return button;
}

function describe() {
  const place = document.getElementById("details");
  const op = state.op;
  if (op < 0) {
    place.replaceChildren(make("p", { class: "small" }, "No op is chosen."));
    return;
  }
  const [task, name] = D.groups[OPS.group[op]];
  const facts = [["task", [task, name, `tile ${OPS.tile[op]}`].filter(Boolean).join(" / ")]];
  facts.push(["on", OPS.units[op] || "no unit of its own"]);
  facts.push(["from", `${time(OPS.start[op])} to ${time(OPS.end[op])} (${time(OPS.end[op] - OPS.start[op])})`]);
  if (OPS.over[op] > 0) facts.push(["overhead", time(OPS.over[op])]);
  if (OPS.move[op]) {
    const [issued, moves, done, looks] = OPS.move[op];
    const looked = `its owner looks at ${time(looks)}`;
    facts.push(["transfer", `issued by ${time(issued)}, in flight ${time(moves)} to ${time(done)}, ${looked}`]);
  }
  const waited = OPS.start[op] - OPS.ready[op];
  facts.push(["ready", waited > 0 ? `at ${time(OPS.ready[op])}, then waited ${time(waited)}` : `at ${time(OPS.ready[op])}`]);
  const why = D.why[OPS.because[op]];
  facts.push(["then it", OPS.cause[op] === null ? why : [`${why} `, opButton(OPS.cause[op])]]);
  if (OPS.slowed[op] > 0) facts.push(["slowed", `${time(OPS.slowed[op])} by who shares its channels`]);
  if (critical.has(op)) facts.push(["critical", "on the chain that makes the total"]);
  for (const [buffer, address, size, birth, death] of buffersOf(op)) {
    facts.push(["buffer", `${buffer}: ${bytes(size)} at ${address.toLocaleString("en")}, ${time(birth)} to ${time(death)}`]);
  }
  if (D.measured !== null) {
    const seen = D.measured[op];
    facts.push(["measured", seen ? `${time(seen[0])} to ${time(seen[1])} (${time(seen[1] - seen[0])})` : "not in the trace"]);
  }
  const list = make("dl");
  for (const [term, fact] of facts) list.append(make("dt", {}, term), make("dd", {}, ...[fact].flat()));
  place.replaceChildren(make("h3", {}, OPS.name[op]), list);
}

// Take an op in hand: at one of its places, or at its first; and bring it into sight.
function choose(op, place) {
  state.op = op;
  if (op >= 0) {
    const at = place || placesOf[op].find(([r, k]) => rows[r].kind[k] <= TRANSFER) || placesOf[op][0];
    if (at) {
      [state.row, state.at] = at;
      const [start, end] = [rows[at[0]].start[at[1]], rows[at[0]].end[at[1]]];
      if (end < state.t0 || start > state.t1) {
        const half = (state.t1 - state.t0) / 2;
        look((start + end) / 2 - half, (start + end) / 2 + half);
      }
    }
  }
  // What is in hand is said in one line; the details below stay for those who want them.
  const held = op >= 0 && rows[state.row] && rows[state.row].op[state.at] === op;
  document.getElementById("said").textContent = held ? opLines(state.row, state.at).join("; ") : "";
  describe();
  repaint();
}

function chooseShown(op) {
  choose(op);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById("pictures").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  stage.focus({ preventScroll: true });
}

// Along a row, or to the row above or below at about the same time.
function walk(along, across) {
  const row = rows[state.row];
  if (state.op < 0 || !row) {
    const r = rows.findIndex((one) => one.op.length);
    if (r >= 0) choose(rows[r].op[0], [r, 0]);
    return;
  }
  if (along) {
    const k = state.at + along;
    if (k >= 0 && k < row.op.length) choose(row.op[k], [state.row, k]);
    return;
  }
  const t = row.start[state.at];
  for (let r = state.row + across; r >= 0 && r < rows.length; r += across) {
    const starts = rows[r].start;
    if (!starts.length) continue;
    let best = 0;
    for (let k = 1; k < starts.length; k++) if (Math.abs(starts[k] - t) < Math.abs(starts[best] - t)) best = k;
    choose(rows[r].op[best], [r, best]);
    return;
  }
}

function nextCritical() {
  const chain = [...critical].sort((a, b) => OPS.start[a] - OPS.start[b] || a - b);
  const k = chain.indexOf(state.op);
  if (chain.length) choose(chain[(k + 1) % chain.length]);
}

function zoomToOp() {
  if (state.op < 0) return;
  const row = rows[state.row];
  const [start, end] = [row.start[state.at], row.end[state.at]];
  const span = Math.max(end - start, LEAST) * 6;
  look((start + end - span) / 2, (start + end + span) / 2);
}

stage.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = rows[state.row];
  const done = {
    ArrowLeft: () => (event.shiftKey ? pan(-0.15) : walk(-1, 0)),
    ArrowRight: () => (event.shiftKey ? pan(0.15) : walk(1, 0)),
    ArrowUp: () => walk(0, -1),
    ArrowDown: () => walk(0, 1),
    Home: () => row && row.op.length && choose(row.op[0], [state.row, 0]),
    End: () => row && row.op.length && choose(row.op.at(-1), [state.row, row.op.length - 1]),
    "+": () => zoom(1 / 1.5),
    "=": () => zoom(1 / 1.5),
    "-": () => zoom(1.5),
    0: showAll,
    Enter: zoomToOp,
    n: nextCritical,
    N: nextCritical,
    Escape: () => choose(-1),
  }[event.key];
  if (!done) return;
  event.preventDefault();
  hideTip();
  done();
});

// Every picture pans and zooms alike; `under` says what lies at a point.
function drive(canvas, under) {
  const held = new Map();
  let moved = 0;
  let pinch = 0;
  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && document.activeElement !== stage) return;
      event.preventDefault();
      hideTip();
      const by = event.deltaMode === 1 ? 16 : 1;
      if (sideways) pan(((event.deltaX || event.deltaY) * by) / (frame.right - frame.left));
      else zoom(Math.exp(event.deltaY * by * 0.0016), timeAt(spot(event)[0]));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, spot(event));
    moved = 0;
    pinch = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (!held.has(event.pointerId)) {
      const found = under(x, y);
      canvas.style.cursor = found && found.op >= 0 ? "pointer" : "grab";
      if (found) showTip(found.lines, event.clientX, event.clientY);
      else hideTip();
      return;
    }
    const [was] = held.get(event.pointerId);
    held.set(event.pointerId, [x, y]);
    hideTip();
    if (held.size === 1) {
      moved += Math.abs(x - was);
      if (moved > 3) look(state.t0 - timeAt(x) + timeAt(was), state.t1 - timeAt(x) + timeAt(was));
    } else {
      const [a, b] = [...held.values()];
      const apart = Math.max(20, Math.abs(a[0] - b[0]));
      if (pinch) zoom(pinch / apart, timeAt((a[0] + b[0]) / 2));
      pinch = apart;
      moved = 99;
    }
  });
  const release = (event) => {
    held.delete(event.pointerId);
    if (event.type !== "pointerup" || moved > 3) return;
    const found = under(...spot(event));
    if (found) choose(found.op, found.place);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", hideTip);
}

drive(stage, (x, y) => {
  const place = sliceAt(x, y);
  return place && { lines: opLines(...place), op: rows[place[0]].op[place[1]], place };
});

// --- the controls, the colours and the tables

for (const [name, act] of [
  ["in", () => zoom(1 / 1.5)],
  ["out", () => zoom(1.5)],
  ["left", () => pan(-0.25)],
  ["right", () => pan(0.25)],
  ["all", showAll],
]) {
  document.getElementById(`do-${name}`).addEventListener("click", act);
}
document.getElementById("do-left").setAttribute("aria-label", "Earlier");
document.getElementById("do-right").setAttribute("aria-label", "Later");
for (const name of ["critical", "deps", "measured"]) {
  const box = document.getElementById(`show-${name}`);
  if (!box) continue;
  box.checked = state[name];
  box.addEventListener("change", () => {
    state[name] = box.checked;
    repaint();
  });
}
for (const [words, start, end] of D.periods || []) {
  const button = make("button", { type: "button" }, `One period of ${words}`);
  button.addEventListener("click", () => look(start, end));
  document.querySelector("#pictures .controls").append(button);
}

const legend = document.getElementById("legend");

function key(colour, words) {
  legend.append(make("span", { role: "listitem" }, make("i", { style: `background:${colour}`, "aria-hidden": "true" }), words));
}
for (const [task, name, colour] of D.groups.slice(0, 24)) key(colour, [task, name].filter(Boolean).join(" / ") || "ops");
if (D.groups.length > 24) legend.append(make("span", { role: "listitem" }, `and ${D.groups.length - 24} more`));
if (OPS.move.some((one) => one)) {
  key("var(--issue)", "issues a transfer");
  key("var(--wait)", "waits for a transfer");
}
if (OPS.over.some((one) => one > 0)) key("#6b7178", "dark start of a bar: overhead");
if (D.measured !== null) for (const [, colour, words] of ERRORS) key(colour, words);

const columns = ["op", "stage", "on", `start [${D.unit}]`, "end", "takes", "waited", "slowed"];
if (D.measured !== null) columns.push("measured start", "measured end");
pagedTable(
  document.getElementById("op-table"),
  "All ops",
  columns,
  OPS.name.length,
  (i, c) => {
    if (c === 0) return OPS.name[i];
    if (c === 1) return D.groups[OPS.group[i]].slice(0, 2).filter(Boolean).join(" / ");
    if (c === 2) return OPS.units[i];
    if (c >= 8) return D.measured[i] ? D.measured[i][c - 8] : "";
    const [start, end] = [OPS.start[i], OPS.end[i]];
    return [start, end, end - start, Math.max(0, start - OPS.ready[i]), OPS.slowed[i]][c - 3];
  },
  chooseShown,
);
const lives = D.memory.flatMap((pad) => pad.lives.map((life) => [pad.name, ...life]));
if (lives.length) {
  const inner = make("div");
  document.getElementById("buffers").append(make("details", {}, make("summary", {}, "All buffers as a table"), inner));
  pagedTable(
    inner,
    "All buffers",
    ["buffer", "in", "address", "bytes", `from [${D.unit}]`, "to"],
    lives.length,
    (i, c) => [lives[i][1], lives[i][0], lives[i][2], lives[i][3], lives[i][4], lives[i][5]][c],
    (i) => lives[i][7].length && chooseShown(lives[i][7][0]),
  );
}
for (const button of document.querySelectorAll("button[data-op]")) {
  button.addEventListener("click", () => chooseShown(Number(button.dataset.op)));
}

readInk();
describe();
new ResizeObserver(repaint).observe(document.querySelector(".canvas"));
window.addEventListener("resize", repaint);
