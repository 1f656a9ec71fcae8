// The table of volumes.

import { byId, el, keyed, setAttribute, setText } from "./dom.js";
import { count, megabytes, percent, time } from "./format.js";
import { promiseOf } from "./promises.js";

// Rows are updated when they come into view; out of view in turn, each once in this many frames.
const HIDDEN_EVERY = 10;

const COLUMNS = [
  { head: "Volume", key: (volume) => volume.name, text: true },
  { head: "Disk", key: (volume) => volume.disk, text: true },
  { head: "Contract", key: contract, text: true },
  { head: "Share", key: (volume) => volume.share, show: (volume) => percent(volume.share) },
  { head: "IOPS", key: (volume) => volume.iops, show: (volume) => count(volume.iops) },
  { head: "MB/s", key: (volume) => volume.bytes_per_s,
    show: (volume) => megabytes(volume.bytes_per_s) },
  { head: "In flight", key: (volume) => volume.in_flight, show: (volume) => `${volume.in_flight}` },
  { head: "Mean", key: (volume) => volume.mean_ms ?? -1,
    show: (volume) => (volume.mean_ms === null ? "–" : time(volume.mean_ms)) },
  { head: "Promise", key: (volume) => promiseOf(volume).order, isComposed: true,
    show: (volume) => promiseOf(volume).words, look: (volume) => promiseOf(volume).look },
  { head: "Balance", key: (volume) => volume.balance_s ?? 0,
    show: (volume) => (volume.balance_s === null ? "–" : `${volume.balance_s.toFixed(2)} s`) },
  { head: "Clients", key: clients, text: true },
];

const rows = new Map();
const inView = new WeakSet();
// The browser says which rows it does not lay out; an older one is asked which are in view.
const tells = "ContentVisibilityAutoStateChangeEvent" in window;
let observer = null;
let frames = 0;
let [sorted, descending] = [null, false];

function contract(volume) {
  return volume.kind === "reserve" ? `reserve ${percent(volume.reserve)}` : volume.contract;
}

function clients(volume) {
  const all = Object.entries(volume.transports ?? {});
  return all.map(([transport, number]) => `${number} ${transport}`).join(", ") || "none";
}

function makeRow(name, select) {
  const open = el("button", { type: "button", class: "link" }, name);
  open.addEventListener("click", () => select(name));
  const cells = COLUMNS.slice(1).map((column) => {
    return el("td", { class: column.text ? "text" : "", role: "cell" });
  });
  const head = el("th", { scope: "row", role: "rowheader" }, open);
  const row = el("tr", { role: "row" }, head, ...cells);
  row.values = [];
  if (tells) {
    row.addEventListener("contentvisibilityautostatechange", ({ skipped }) => note(row, !skipped));
  } else {
    observer.observe(row);
  }
  return row;
}

/** Shows a volume in its row: the cells of which the value is another one. */
function fill(row, volume, selected) {
  setAttribute(row, "class", volume.name === selected ? "selected" : "");
  for (let at = 1; at < COLUMNS.length; at += 1) {
    const column = COLUMNS[at];
    const value = column.key(volume);
    if (row.values[at] === value && !column.isComposed) continue;
    row.values[at] = value;
    const cell = row.children[at];
    setText(cell, column.show ? column.show(volume) : value);
    if (column.look) setAttribute(cell, "class", column.look(volume));
  }
}

function note(row, isInView) {
  if (!isInView) {
    inView.delete(row);
    return;
  }
  inView.add(row);
  if (row.volume) fill(row, row.volume, row.selected);
}

/** Makes the table. `select(name)` is called for the volume that is opened. */
export function setUp(select) {
  const heads = COLUMNS.map((column) => {
    const button = el("button", { type: "button" }, column.head);
    const head = el("th", { scope: "col", class: column.text ? "text" : "", role: "columnheader" },
      button);
    button.addEventListener("click", () => {
      descending = sorted === column ? !descending : !column.text;
      sorted = column;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
    return head;
  });
  const body = el("tbody", { role: "rowgroup" });
  const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads));
  byId("volumes").append(head, body);
  body.select = select;
  const root = byId("volumes").parentElement;
  observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) note(target, isIntersecting);
  }, { root, rootMargin: "200px" });
}

/** Shows the volumes of a frame. */
export function render(volumes, selected) {
  byId("empty").hidden = volumes.length > 0;
  byId("volumes-part").hidden = volumes.length === 0;
  const filter = byId("filter").value.toLowerCase();
  const shown = filter === "" ? [...volumes] : volumes.filter((volume) => {
    return `${volume.name} ${volume.disk} ${volume.kind}`.toLowerCase().includes(filter);
  });
  if (sorted) {
    const sign = descending ? -1 : 1;
    shown.sort((a, b) => {
      const [left, right] = [sorted.key(a), sorted.key(b)];
      return sign * (left < right ? -1 : left > right ? 1 : 0);
    });
  }
  const body = byId("volumes").tBodies[0];
  keyed(body, rows, shown.map((volume) => volume.name), (name) => makeRow(name, body.select));
  frames += 1;
  shown.forEach((volume, at) => {
    const row = rows.get(volume.name);
    const isNew = !row.volume;
    [row.volume, row.selected] = [volume, selected];
    if (isNew || inView.has(row) || (at + frames) % HIDDEN_EVERY === 0) fill(row, volume, selected);
  });
}
