// Tables of many rows: a page of them at a time, filtered and sorted.
const PAGE = 25;

function pagedTable(place, name, columns, count, cell, picked) {
  let order = Array.from({ length: count }, (_, i) => i);
  let page = 0;
  let sorted = -1;
  let down = false;
  const filter = make("input", { type: "search", placeholder: "filter by name", "aria-label": `Filter ${name}` });
  const said = make("span", { class: "small", role: "status" });
  const [back, on] = ["Previous", "Next"].map((words) => make("button", { type: "button" }, words));
  const body = make("tbody");
  const heads = columns.map((column, c) => {
    const button = make("button", { type: "button", class: "sort" }, column);
    const head = make("th", { scope: "col", class: count && typeof cell(0, c) === "number" ? "n" : "" }, button);
    button.addEventListener("click", () => {
      down = sorted === c && !down;
      sorted = c;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      arrange();
    });
    return head;
  });
  const table = make("table", {}, make("caption", {}, name), make("thead", {}, make("tr", {}, ...heads)), body);
  const scroll = make("div", { class: "scroll", role: "region", "aria-label": name, tabindex: "0" }, table);
  place.append(make("div", { class: "controls" }, filter, back, on, said), scroll);

  function arrange() {
    const words = filter.value.toLowerCase();
    order = [];
    for (let i = 0; i < count; i++) if (!words || String(cell(i, 0)).toLowerCase().includes(words)) order.push(i);
    if (sorted >= 0) {
      const keys = order.map((i) => [cell(i, sorted), i]);
      keys.sort(([a, i], [b, j]) => (a < b ? -1 : a > b ? 1 : i - j) * (down ? -1 : 1));
      order = keys.map(([, i]) => i);
    }
    page = 0;
    fill();
  }

  function fill() {
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const lines = order.slice(page * PAGE, page * PAGE + PAGE).map((i) => {
      const cells = columns.map((_, c) => {
        const value = cell(i, c);
        const shown = typeof value === "number" ? decimals.format(value) : value;
        if (c) return make("td", { class: typeof value === "number" ? "n" : "" }, shown);
        const button = make("button", { type: "button", class: "op" }, shown);
        button.addEventListener("click", () => picked(i));
        return make("th", { scope: "row" }, button);
      });
      return make("tr", {}, ...cells);
    });
    body.replaceChildren(...lines);
    said.textContent = `${order.length.toLocaleString("en")} rows, page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    on.disabled = page === pages - 1;
  }

  filter.addEventListener("input", arrange);
  back.addEventListener("click", () => {
    page -= 1;
    fill();
  });
  on.addEventListener("click", () => {
    page += 1;
    fill();
  });
  fill();
}
