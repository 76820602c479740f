// The timeline: a row per unit, predicted above measured, with one op in hand.
const RUN = 0, TRANSFER = 1, ISSUE = 2, WAIT = 3;
const stage = document.getElementById("timeline");
const TOP = 24;
const ERRORS = [
  [-0.2, "#0b5fa5", "measured over 20 % shorter"],
  [-0.05, "#6cb0e0", "5 to 20 % shorter"],
  [0.05, "#4d9e6a", "within 5 %"],
  [0.2, "#f0a202", "5 to 20 % longer"],
  [Infinity, "#c1121f", "over 20 % longer"],
];

// Rows with their slices as columns; of an op the rows that it is in.
const rows = [];
const placesOf = OPS.name.map(() => []);
for (const [b, band] of D.bands.entries()) {
  for (const [u, lane] of band.lanes.entries()) {
    const n = lane.slices.length / 5;
    const row = { band, lane, first: u === 0, op: new Int32Array(n), kind: new Uint8Array(n) };
    row.start = new Float64Array(n);
    row.work = new Float64Array(n);
    row.end = new Float64Array(n);
    for (let k = 0; k < n; k++) {
      const [op, kind, start, work, end] = lane.slices.slice(5 * k, 5 * k + 5);
      row.op[k] = op;
      row.kind[k] = kind;
      row.start[k] = start;
      row.work[k] = work;
      row.end[k] = end;
      placesOf[op].push([rows.length, k]);
    }
    row.shade = b % 2 === 1;
    rows.push(row);
  }
}
if (D.measured !== null) {
  for (const row of rows) {
    const seen = [];
    for (let k = 0; k < row.op.length; k++) {
      if ((row.kind[k] === RUN || row.kind[k] === TRANSFER) && D.measured[row.op[k]]) seen.push(row.op[k]);
    }
    row.measured = seen.sort((a, b) => D.measured[a][0] - D.measured[b][0]);
  }
}
const before = OPS.name.map(() => []);
const after = OPS.name.map(() => []);
for (let k = 0; k < D.edges.length; k += 2) {
  after[D.edges[k]].push(D.edges[k + 1]);
  before[D.edges[k + 1]].push(D.edges[k]);
}

function errorColour(op) {
  const [start, end] = D.measured[op];
  const was = OPS.move[op] ? OPS.move[op][2] - OPS.move[op][1] : OPS.end[op] - OPS.start[op];
  const off = was ? (end - start) / was - 1 : 0;
  return ERRORS.find(([most]) => off <= most)[1];
}

// Heights: one unit gets a full row, many share less; with a run beside it each is split.
function layout() {
  let y = TOP;
  for (const row of rows) {
    const many = row.band.lanes.length;
    const tall = many === 1 ? 26 : many <= 4 ? 18 : many <= 10 ? 14 : 9;
    if (row.first && y > TOP) y += 6;
    row.y = y;
    row.h = state.measured ? Math.max(18, tall * 1.4) : tall;
    y += row.h + 1;
  }
  return y + 4;
}

function firstVisible(row) {
  let low = 0;
  let high = row.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] < state.t0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function dimmed(op) {
  return state.critical && !critical.has(op);
}

function paintSlices(to, row, y, h) {
  let last = -Infinity;
  let was = -1;
  for (let k = firstVisible(row); k < row.op.length && row.start[k] <= state.t1; k++) {
    const [op, kind] = [row.op[k], row.kind[k]];
    const x0 = Math.max(frame.left, xOf(row.start[k]));
    const x1 = Math.min(frame.right, xOf(row.end[k]));
    // What is narrower than a pixel is painted once per pixel and colour.
    if (x1 - x0 < 1 && Math.floor(x0) === last && was === kind) continue;
    last = Math.floor(x0);
    was = kind;
    const wide = Math.max(x1 - x0, 1);
    const thin = kind === WAIT;
    to.globalAlpha = dimmed(op) ? 0.22 : 1;
    to.fillStyle = kind === ISSUE ? ink.issue : thin ? ink.wait : D.groups[OPS.group[op]][2];
    const [top, tall] = thin ? [y + h * 0.3, h * 0.4] : [y, h];
    const gap = wide > 4 ? 0.6 : 0;
    to.fillRect(x0 + gap, top, wide - gap, tall);
    if (row.work[k] > row.start[k]) {
      const wx = Math.min(frame.right, xOf(row.work[k]));
      to.fillStyle = "rgba(0,0,0,.38)";
      if (wx - x0 > 0.5) to.fillRect(x0, top, wx - x0, tall);
    }
    if (wide > 34 && h >= 11 && !thin && kind !== ISSUE) {
      const [task, name] = D.groups[OPS.group[op]];
      to.fillStyle = groupInk[OPS.group[op]];
      to.textAlign = "center";
      to.fillText(cut(`${name || task} ${OPS.tile[op]}`, wide - 6), (x0 + x1) / 2, y + h / 2 + 0.5);
    }
  }
  to.globalAlpha = 1;
}

function paintMeasured(to, row, y, h) {
  let last = -Infinity;
  for (const op of row.measured) {
    const [start, end] = D.measured[op];
    if (end < state.t0 || start > state.t1) continue;
    const x0 = Math.max(frame.left, xOf(start));
    const x1 = Math.min(frame.right, xOf(end));
    if (x1 - x0 < 1 && Math.floor(x0) === last) continue;
    last = Math.floor(x0);
    to.globalAlpha = dimmed(op) ? 0.22 : 1;
    to.fillStyle = errorColour(op);
    to.fillRect(x0 + 0.4, y, Math.max(x1 - x0 - 0.4, 1), h);
  }
  to.globalAlpha = 1;
}

function paintChosen(to) {
  if (state.op < 0) return;
  for (const [r, k] of placesOf[state.op]) {
    const row = rows[r];
    const x0 = Math.max(frame.left, xOf(row.start[k]));
    const x1 = Math.min(frame.right, xOf(row.end[k]));
    if (x1 < frame.left || x0 > frame.right) continue;
    const inHand = r === state.row && k === state.at;
    to.strokeStyle = inHand ? ink.accent : ink.ink;
    to.lineWidth = inHand ? 3 : 1.5;
    to.strokeRect(x0 - 1, row.y - 1, Math.max(x1 - x0, 2) + 2, row.h + 2);
  }
}

function arrow(to, from, on) {
  if (!placesOf[from].length || !placesOf[on].length) return;
  const a = rows[placesOf[from].at(-1)[0]];
  const b = rows[placesOf[on][0][0]];
  const [x0, y0, x1, y1] = [xOf(OPS.end[from]), a.y + a.h / 2, xOf(OPS.start[on]), b.y + b.h / 2];
  to.beginPath();
  to.moveTo(x0, y0);
  to.bezierCurveTo(x0 + 24, y0, x1 - 24, y1, x1, y1);
  to.stroke();
  to.beginPath();
  to.moveTo(x1, y1);
  to.lineTo(x1 - 6, y1 - 4);
  to.lineTo(x1 - 6, y1 + 4);
  to.fill();
}

function paintEdges(to) {
  if (state.op < 0) return;
  to.save();
  to.beginPath();
  to.rect(frame.left, 0, frame.right - frame.left, 1e5);
  to.clip();
  to.lineWidth = 1.4;
  to.strokeStyle = to.fillStyle = ink.accent;
  for (const p of before[state.op]) arrow(to, p, state.op);
  to.strokeStyle = to.fillStyle = ink.muted;
  for (const n of after[state.op]) arrow(to, state.op, n);
  to.restore();
}

function paintLabels(to, row) {
  const { band, lane } = row;
  to.textAlign = "left";
  to.fillStyle = ink.ink;
  const middle = row.y + row.h / 2 + 0.5;
  if (row.first) {
    to.font = "600 11px system-ui, sans-serif";
    to.fillText(cutFront(to, band.engine, frame.left - (band.units > 1 ? 18 : 6)), 4, middle);
    to.font = "11px system-ui, sans-serif";
  }
  if (band.units > 1 && row.h >= 9) {
    to.textAlign = "right";
    to.fillStyle = ink.muted;
    to.font = "9px system-ui, sans-serif";
    to.fillText(String(lane.unit), frame.left - 6, middle);
    to.font = "11px system-ui, sans-serif";
  }
}

function paintTimeline() {
  const height = layout();
  const [to, width] = canvasOf(stage, height);
  frameOf(width);
  for (const row of rows) {
    to.fillStyle = ink.idle;
    to.fillRect(frame.left, row.y, frame.right - frame.left, row.h);
  }
  axis(to, TOP, height - 4, true);
  if (D.entry > state.t0) {
    to.fillStyle = "rgba(128,128,128,.35)";
    const x0 = Math.max(frame.left, xOf(0));
    to.fillRect(x0, TOP, Math.max(0, xOf(D.entry) - x0), height - 4 - TOP);
  }
  for (const row of rows) {
    if (state.measured) {
      paintSlices(to, row, row.y, row.h * 0.58);
      paintMeasured(to, row, row.y + row.h * 0.62, row.h * 0.38);
    } else paintSlices(to, row, row.y, row.h);
    paintLabels(to, row);
  }
  marks(to, TOP - 4, height - 4);
  if (state.deps) paintEdges(to);
  paintChosen(to);
}
painters.push(paintTimeline);

// The slice under a point; of what is narrower than a pixel the nearest one.
function sliceAt(x, y) {
  const r = rows.findIndex((row) => y >= row.y && y < row.y + row.h + 1);
  if (r < 0 || x < frame.left) return null;
  const row = rows[r];
  const t = timeAt(x);
  const reach = ((state.t1 - state.t0) / (frame.right - frame.left)) * 3;
  if (state.measured && y > row.y + row.h * 0.6) {
    const op = row.measured.find((o) => D.measured[o][0] <= t + reach / 3 && D.measured[o][1] >= t - reach / 3);
    if (op !== undefined) return [r, row.op.indexOf(op)];
    return null;
  }
  let best = null;
  let least = reach;
  for (let k = Math.max(0, firstVisible(row) - 1); k < row.op.length && row.start[k] <= state.t1; k++) {
    const off = t < row.start[k] ? row.start[k] - t : t > row.end[k] ? t - row.end[k] : 0;
    if (off < least || (off === 0 && best === null)) [best, least] = [k, off];
    if (row.start[k] > t + reach) break;
  }
  return best === null ? null : [r, best];
}
