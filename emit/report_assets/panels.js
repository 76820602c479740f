// Below the timeline, on the same axis of time: where buffers lie, and what channels carry.
const mapTall = () => (window.innerWidth < 600 ? 240 : 320);

function paintMap(canvas, pad) {
  const tall = mapTall();
  const [to] = canvasOf(canvas, tall + 34);
  const [top, bottom] = [TOP, TOP + tall];
  const highest = Math.max(...pad.lives.map(([, address, size]) => address + size));
  const total = Math.max(pad.total, highest);
  const most = highest < total / 4 ? Math.ceil((highest * 9) / 8) : total;
  const y = (address) => bottom - (tall * address) / most;
  canvas.geometry = { y, top, bottom };
  to.fillStyle = ink.idle;
  to.fillRect(frame.left, top, frame.right - frame.left, tall);
  axis(to, top, bottom, true);
  let by = 1;
  while (most > 8 * by) by *= 2;
  to.textAlign = "right";
  for (let address = 0; address <= most; address += by) {
    to.strokeStyle = ink.grid;
    to.beginPath();
    to.moveTo(frame.left, y(address));
    to.lineTo(frame.right, y(address));
    to.stroke();
    to.fillStyle = ink.muted;
    to.fillText(address ? bytes(address) : "0", frame.left - 6, y(address));
  }
  for (const [name, address, size, birth, death, group, users] of pad.lives) {
    if (death < state.t0 || birth > state.t1) continue;
    const x0 = Math.max(frame.left, xOf(birth));
    const wide = Math.max(1, Math.min(frame.right, xOf(death)) - x0);
    const [upper, deep] = [y(address + size), (tall * size) / most];
    const mine = users.includes(state.op);
    to.globalAlpha = state.op >= 0 && !mine ? 0.55 : 1;
    to.fillStyle = group < 0 ? ink.wait : D.groups[group][2];
    to.fillRect(x0, upper, wide - (wide > 4 ? 0.8 : 0), Math.max(1, deep - (deep > 4 ? 0.8 : 0)));
    if (mine) {
      to.globalAlpha = 1;
      to.strokeStyle = ink.accent;
      to.lineWidth = 2;
      to.strokeRect(x0, upper, wide, deep);
    }
    if (deep >= 13 && wide > 40) {
      to.textAlign = "left";
      to.fillStyle = group < 0 ? "#1f2328" : groupInk[group];
      to.fillText(cut(name, wide - 8), x0 + 4, upper + deep / 2);
    }
  }
  to.globalAlpha = 1;
  if (most === total) mark2(to, y(pad.available), ink.ink);
  marks(to, top, bottom);
}

function mark2(to, at, colour) {
  to.strokeStyle = colour;
  to.lineWidth = 1.5;
  to.beginPath();
  to.moveTo(frame.left, at);
  to.lineTo(frame.right, at);
  to.stroke();
}

function lifeAt(canvas, pad, x, y) {
  const t = timeAt(x);
  const reach = ((state.t1 - state.t0) / (frame.right - frame.left)) * 2;
  return pad.lives.find(
    ([, address, size, birth, death]) =>
      t >= birth - reach && t < death + reach && y >= canvas.geometry.y(address + size) && y < canvas.geometry.y(address),
  );
}

for (const pad of D.memory) {
  const words =
    `${pad.name}: addresses over time. At most ${bytes(pad.peak)} of ${bytes(pad.available)} alive at once; ` +
    "all buffers stand in the table below.";
  const canvas = make("canvas", { role: "img", "aria-label": words });
  const note = make("p", { class: "small" }, `At most ${bytes(pad.peak)} alive at once, ${bytes(pad.available)} available.`);
  document.getElementById("maps").append(make("h3", {}, pad.name), note, make("div", { class: "canvas" }, canvas));
  painters.push(() => paintMap(canvas, pad));
  drive(canvas, (x, y) => {
    const life = lifeAt(canvas, pad, x, y);
    if (!life) return null;
    const [name, address, size, birth, death, , users] = life;
    const lines = [name, `${bytes(size)} at ${address.toLocaleString("en")}`, `${time(birth)} to ${time(death)}`];
    return { lines, op: users.length ? users[0] : -1 };
  });
}

function paintLoad(canvas, channel) {
  const [to] = canvasOf(canvas, 112);
  const [top, bottom] = [TOP, 104];
  const most = Math.max(channel.capacity, channel.peak) * 1.06;
  const y = (level) => bottom - ((bottom - top) * level) / most;
  to.fillStyle = ink.idle;
  to.fillRect(frame.left, top, frame.right - frame.left, bottom - top);
  axis(to, top, bottom, true);
  to.save();
  to.beginPath();
  to.rect(frame.left, top, frame.right - frame.left, bottom - top);
  to.clip();
  to.beginPath();
  to.moveTo(xOf(0), bottom);
  const flat = channel.steps;
  for (let k = 0; k < flat.length; k += 2) {
    const next = k + 2 < flat.length ? flat[k + 2] : D.makespan;
    to.lineTo(xOf(flat[k]), y(flat[k + 1]));
    to.lineTo(xOf(next), y(flat[k + 1]));
  }
  to.lineTo(xOf(D.makespan), bottom);
  to.fillStyle = ink.accent;
  to.globalAlpha = 0.55;
  to.fill();
  to.restore();
  mark2(to, y(channel.capacity), ink.bound);
  to.textAlign = "right";
  to.fillStyle = ink.muted;
  to.fillText(rate(channel.capacity), frame.left - 6, y(channel.capacity));
  to.fillText("0", frame.left - 6, bottom - 4);
  marks(to, top, bottom);
}

// Bytes per microsecond are MB/s; a thousand of them a GB/s.
function rate(level) {
  return D.unit === "ticks" ? decimals.format(level) : `${decimals.format(level / 1000)} GB/s`;
}

function levelAt(channel, t) {
  let level = 0;
  for (let k = 0; k < channel.steps.length && channel.steps[k] <= t; k += 2) level = channel.steps[k + 1];
  return level;
}

for (const channel of D.channels) {
  channel.peak = 0;
  let sum = 0;
  for (let k = 0; k < channel.steps.length; k += 2) {
    const next = k + 2 < channel.steps.length ? channel.steps[k + 2] : D.makespan;
    channel.peak = Math.max(channel.peak, channel.steps[k + 1]);
    sum += channel.steps[k + 1] * (next - channel.steps[k]);
  }
  const average = D.makespan ? sum / D.makespan : 0;
  const part = channel.capacity ? average / channel.capacity : 0;
  const words =
    `${channel.name}: ${rate(average)} on average (${(100 * part).toFixed(1)} % of ${rate(channel.capacity)}), ` +
    `${rate(channel.peak)} at most.`;
  const canvas = make("canvas", { role: "img", "aria-label": words });
  const place = document.getElementById("loads");
  place.append(make("p", { class: "small" }, make("strong", {}, channel.name), words.slice(channel.name.length)));
  place.append(make("div", { class: "canvas" }, canvas));
  painters.push(() => paintLoad(canvas, channel));
  drive(canvas, (x) => ({ lines: [channel.name, time(timeAt(x)), rate(levelAt(channel, timeAt(x)))], op: -1 }));
}
