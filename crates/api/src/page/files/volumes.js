// The table of volumes, and the promises that were kept.

import { byId, el, keyed, setAttribute, setText } from "./dom.js";
import { count, megabytes, percent, time } from "./format.js";

const MINUTES_MAX = 60;
// Rows out of view are updated in turn, each once in this many frames.
const HIDDEN_EVERY = 5;
// Below this worth a client has had less than its reserve alone would have given it.
const WORTH_KEPT = 0.95;

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
  { head: "Promise", key: (volume) => volume.promise.order, show: (volume) => volume.promise.words,
    look: (volume) => volume.promise.look },
  { head: "Balance", key: (volume) => volume.balance_s ?? 0,
    show: (volume) => (volume.balance_s === null ? "–" : `${volume.balance_s.toFixed(2)} s`) },
  { head: "Clients", key: clients, text: true },
];

const rows = new Map();
const histories = new Map();
const inView = new WeakSet();
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

const add = (to, { worth, met, missed }) => {
  to.worth = Math.min(to.worth, worth);
  to.met += met;
  to.missed += missed;
};

const nothing = () => ({ worth: Infinity, met: 0, missed: 0 });

/** Adds a frame to the history of a volume's promises, minute by minute; returns its sum. */
function remember(volume, uptime) {
  const minute = Math.floor(uptime / 60);
  let history = histories.get(volume.name);
  // A daemon that has restarted begins anew.
  if (!history || history.minute > minute) history = { minute: -1, minutes: [], sum: nothing() };
  histories.set(volume.name, history);
  if (history.minute !== minute) {
    history.minute = minute;
    history.minutes.push({ minute, ...nothing() });
    history.minutes = history.minutes.filter((one) => one.minute > minute - MINUTES_MAX);
    history.sum = nothing();
    for (const one of history.minutes) add(history.sum, one);
  }
  const met = volume.deadlines_met ?? 0;
  const missed = volume.deadlines_missed ?? 0;
  const now = { worth: volume.worth ?? Infinity, met, missed };
  add(history.minutes[history.minutes.length - 1], now);
  add(history.sum, now);
  return history.sum;
}

/** Whether a volume's promise was kept, in words. */
function promiseOf(volume, { worth: least, met, missed }) {
  if (volume.deadlines_met !== null) {
    const closest = volume.closest_ms === null ? "" : `, closest ${time(volume.closest_ms)}`;
    const words = met + missed === 0 ? `no deadlines${closest}`
      : `${missed} of ${met + missed} missed${closest}`;
    return { words, look: missed > 0 ? "bad" : "good", order: -missed };
  }
  if (least === Infinity) return { words: "–", look: "", order: Infinity };
  const now = volume.worth === null ? "–" : volume.worth.toFixed(2);
  const look = least < WORTH_KEPT ? "warn" : "good";
  return { words: `${now} (least ${least.toFixed(2)})`, look, order: least };
}

function makeRow(name, select) {
  const open = el("button", { type: "button", class: "link" }, name);
  open.addEventListener("click", () => select(name));
  const cells = COLUMNS.slice(1).map((column) => el("td", { class: column.text ? "text" : "" }));
  const row = el("tr", {}, el("th", { scope: "row" }, open), ...cells);
  observer.observe(row);
  return row;
}

/** Shows a volume in its row. */
function fill(row, volume, selected) {
  setAttribute(row, "class", volume.name === selected ? "selected" : "");
  for (let at = 1; at < COLUMNS.length; at += 1) {
    const [column, cell] = [COLUMNS[at], row.children[at]];
    setText(cell, (column.show ?? column.key)(volume));
    if (column.look) setAttribute(cell, "class", column.look(volume));
  }
}

/** Makes the table. `select(name)` is called for the volume that is opened. */
export function setUp(select) {
  const heads = COLUMNS.map((column) => {
    const button = el("button", { type: "button" }, column.head);
    const head = el("th", { scope: "col", class: column.text ? "text" : "" }, button);
    button.addEventListener("click", () => {
      descending = sorted === column ? !descending : !column.text;
      sorted = column;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
    return head;
  });
  const body = el("tbody");
  byId("volumes").append(el("thead", {}, el("tr", {}, ...heads)), body);
  body.select = select;
  const root = byId("volumes").parentElement;
  observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) inView.add(target);
      else inView.delete(target);
    }
  }, { root, rootMargin: "200px" });
}

/** Shows the volumes of a frame. */
export function render(frame, volumes, selected) {
  const names = new Set(volumes.map((volume) => volume.name));
  for (const name of histories.keys()) if (!names.has(name)) histories.delete(name);
  for (const volume of volumes) {
    volume.promise = promiseOf(volume, remember(volume, frame.uptime_s));
  }
  byId("empty").hidden = volumes.length > 0;
  byId("volumes-part").hidden = volumes.length === 0;
  const filter = byId("filter").value.toLowerCase();
  const shown = volumes.filter((volume) => {
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
    const isNew = !row.cells[1].textContent;
    if (isNew || inView.has(row) || (at + frames) % HIDDEN_EVERY === 0) fill(row, volume, selected);
  });
}
