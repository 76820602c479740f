// What all pictures share: the data, which part of the time is seen, which op is chosen, and how things are written.
const D = JSON.parse(document.getElementById("data").textContent);
const OPS = D.ops;
const END = Math.max(D.makespan, D.measuredMakespan || 0) || 1;
const LEAST = END / 1e6;
const state = { t0: 0, t1: END, op: -1, row: 0, at: 0, critical: false, deps: false, measured: D.measured !== null };
const critical = new Set(D.critical);
const painters = [];
let asked = false;
let paintMs = 0;

function repaint() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    const begun = performance.now();
    for (const paint of painters) paint();
    paintMs = performance.now() - begun;
  });
}

// Show [t0, t1), as much of it as there is.
function look(t0, t1) {
  const span = Math.min(Math.max(t1 - t0, LEAST), END * 1.04);
  const edge = END * 0.02;
  state.t0 = Math.min(Math.max(t0, -edge), END + edge - span);
  state.t1 = state.t0 + span;
  repaint();
}

function zoom(by, at) {
  const t = at === undefined ? (state.t0 + state.t1) / 2 : at;
  look(t - (t - state.t0) * by, t + (state.t1 - t) * by);
}

function pan(part) {
  const by = (state.t1 - state.t0) * part;
  look(state.t0 + by, state.t1 + by);
}

function showAll() {
  look(0, END);
}

const decimals = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

function time(t) {
  return `${decimals.format(t)} ${D.unit}`;
}

function bytes(n) {
  if (n >= 1 << 20) return `${decimals.format(n / (1 << 20))} MiB`;
  if (n >= 1 << 10) return `${decimals.format(n / (1 << 10))} KiB`;
  return `${n} B`;
}

function make(tag, attributes, ...inner) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name in found && typeof value !== "string") found[name] = value;
    else found.setAttribute(name, value);
  }
  found.append(...inner);
  return found;
}

// Colours that change with the theme are those of the style sheet.
let ink = {};

function readInk() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "grid", "frame", "paper", "wait", "issue", "bound", "accent", "idle"]) {
    ink[name] = style.getPropertyValue(`--${name}`).trim();
  }
  repaint();
}
themed.push(readInk);

const groupInk = D.groups.map(([, , colour]) => {
  const [r, g, b] = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 140 ? "#fff" : "#1f2328";
});

// Size a canvas to its place and return what paints on it, in CSS pixels.
function canvasOf(canvas, height) {
  const width = Math.max(200, Math.floor(canvas.parentElement.clientWidth));
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const to = canvas.getContext("2d");
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = "11px system-ui, sans-serif";
  to.textBaseline = "middle";
  return [to, width];
}

const frame = { left: 0, right: 0 };

function frameOf(width) {
  frame.left = width < 600 ? 64 : 132;
  frame.right = width - 14;
}

function xOf(t) {
  return frame.left + ((t - state.t0) / (state.t1 - state.t0)) * (frame.right - frame.left);
}

function timeAt(x) {
  return state.t0 + ((x - frame.left) / (frame.right - frame.left)) * (state.t1 - state.t0);
}

function step(span, most) {
  const rough = span / most;
  const ten = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((k) => k * ten).find((k) => k >= rough);
}

// Lines of the grid, numbers above them, and the marks of the end and of the bound.
function axis(to, top, bottom, numbers) {
  const by = step(state.t1 - state.t0, Math.max(2, (frame.right - frame.left) / 90));
  to.lineWidth = 1;
  to.textAlign = "center";
  const digits = { maximumFractionDigits: Math.max(0, Math.min(9, Math.ceil(-Math.log10(by) + 1e-9))) };
  const write = new Intl.NumberFormat("en", digits);
  for (let t = Math.ceil(state.t0 / by) * by; t <= state.t1; t += by) {
    const x = Math.round(xOf(t)) + 0.5;
    to.strokeStyle = ink.grid;
    to.beginPath();
    to.moveTo(x, top);
    to.lineTo(x, bottom);
    to.stroke();
    if (numbers && x < frame.right - 8) {
      to.fillStyle = ink.muted;
      to.fillText(write.format(Math.abs(t) < by / 1e6 ? 0 : t), x, top - 9);
    }
  }
  if (numbers) {
    to.textAlign = "left";
    to.fillStyle = ink.muted;
    to.fillText(`time [${D.unit}]`, 4, top - 9);
  }
}

function mark(to, t, top, bottom, colour, dash) {
  const x = Math.round(xOf(t)) + 0.5;
  if (x < frame.left || x > frame.right + 12) return;
  to.save();
  to.strokeStyle = colour;
  to.lineWidth = 1.5;
  to.setLineDash(dash);
  to.beginPath();
  to.moveTo(x, top);
  to.lineTo(x, bottom);
  to.stroke();
  to.restore();
}

function marks(to, top, bottom) {
  if (D.bound < D.makespan) mark(to, D.bound, top, bottom, ink.bound, [5, 4]);
  mark(to, D.makespan, top, bottom, ink.ink, []);
  if (D.measuredMakespan !== null && state.measured) mark(to, D.measuredMakespan, top, bottom, ink.accent, [2, 3]);
}

// Cut a text to a width, about.
function cut(text, width) {
  const most = Math.floor(width / 6.2);
  if (text.length <= most) return text;
  return most < 3 ? "" : `${text.slice(0, most - 1)}…`;
}

// The end of a text, which is where names of units differ, as it fits.
function cutFront(to, text, width) {
  if (to.measureText(text).width <= width) return text;
  let from = 1;
  while (from < text.length && to.measureText(`…${text.slice(from)}`).width > width) from += 1;
  return `…${text.slice(from)}`;
}

const tip = make("div", { class: "tip", role: "tooltip", hidden: true, "aria-hidden": "true" });
document.body.append(tip);

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map((line, k) => make(k ? "div" : "strong", {}, line)));
  tip.hidden = false;
  const wide = tip.offsetWidth;
  const tall = tip.offsetHeight;
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - wide - 8))}px`;
  tip.style.top = `${y + 18 + tall > window.innerHeight ? Math.max(4, y - tall - 12) : y + 18}px`;
}

function hideTip() {
  tip.hidden = true;
}
