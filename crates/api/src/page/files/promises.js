// What was kept of each volume's contract in the last hour, as the daemon remembers it: a page that
// is opened now shows the hour before.

import { el, setAttribute, setText, svg } from "./dom.js";
import { time } from "./format.js";

const MINUTES_MAX = 60;
const HOUR_S = 3600;
// Below this worth a client has had less than its reserve alone would have given it.
const WORTH_KEPT = 0.95;

// By volume: its minutes by number, the last of them, and their sum.
const kept = new Map();

const nothing = () => ({ worth: Infinity, met: 0, missed: 0, closest: Infinity });

function add(to, { worth, met, missed, closest }) {
  to.worth = Math.min(to.worth, worth);
  to.closest = Math.min(to.closest, closest);
  to.met += met;
  to.missed += missed;
}

function update(history, { first_minute: first, minutes: count, ...lists }) {
  const { minutes } = history;
  for (let at = 0; at < count; at += 1) {
    minutes.set(first + at, {
      worth: lists.worth?.[at] ?? Infinity,
      met: lists.met?.[at] ?? 0,
      missed: lists.missed?.[at] ?? 0,
      closest: lists.closest_ms?.[at] ?? Infinity,
    });
  }
  history.last = first + count - 1;
  history.sum = nothing();
  for (const [number, minute] of minutes) {
    if (number <= history.last - MINUTES_MAX) minutes.delete(number);
    else add(history.sum, minute);
  }
}

/** Takes over what the daemon remembers: all of it at first, then the minutes that have changed. */
export function remember(volumes, isFirst) {
  const names = new Set(volumes.map((volume) => volume.name));
  for (const name of kept.keys()) if (isFirst || !names.has(name)) kept.delete(name);
  for (const volume of volumes) {
    const history = kept.get(volume.name) ?? { minutes: new Map() };
    kept.set(volume.name, history);
    update(history, volume);
  }
}

/** Drops the minutes of a volume: another one has its name now. */
export const forget = (name) => kept.delete(name);

/** Whether a volume's promise was kept, in words. */
export function promiseOf(volume) {
  const { worth, met, missed, closest } = kept.get(volume.name)?.sum ?? nothing();
  if (volume.deadlines_met !== null) {
    // Before the first hour is over, the closest call since the start is that of the hour.
    const since = volume.uptime < HOUR_S ? volume.closest_ms ?? Infinity : Infinity;
    const least = Math.min(closest, since);
    const call = least === Infinity ? "" : `, closest ${time(least)}`;
    const words = met + missed === 0 ? `no deadlines${call}`
      : `${missed} of ${met + missed} missed${call}`;
    return { words, look: missed > 0 ? "bad" : "good", order: -missed };
  }
  const least = Math.min(worth, volume.worth ?? Infinity);
  if (least === Infinity) return { words: "–", look: "", order: Infinity };
  const now = volume.worth === null ? "–" : volume.worth.toFixed(2);
  const look = least < WORTH_KEPT ? "warn" : "good";
  return { words: `${now} (least ${least.toFixed(2)})`, look, order: least };
}

function lookOf({ worth, met, missed }) {
  if (missed > 0) return "bad";
  if (met > 0) return "good";
  if (worth === Infinity) return "none";
  return worth < WORTH_KEPT ? "warn" : "good";
}

/** An element with the minutes of the last hour, one beside the other. */
export function hour() {
  const bar = svg("svg", { viewBox: `0 0 ${MINUTES_MAX} 6`, preserveAspectRatio: "none",
    role: "img", class: "hour" });
  for (let x = 0; x < MINUTES_MAX; x += 1) {
    bar.append(svg("rect", { x, y: 0, width: 0.85, height: 6, class: "none" }));
  }
  const words = el("p", { class: "dim" });
  const ends = el("div", { class: "ends", "aria-hidden": "true" },
    el("span", {}, "an hour ago"), el("span", {}, "now"));
  const box = el("div", {}, bar, ends, words);
  return Object.assign(box, { bar, words });
}

/** Shows a volume's minutes in its element. */
export function showHour(box, name, uptime) {
  const history = kept.get(name);
  const now = Math.floor(uptime / 60);
  const minutes = [...Array(MINUTES_MAX).keys()].map((at) => {
    return history?.minutes.get(now - (MINUTES_MAX - 1 - at)) ?? nothing();
  });
  const looks = minutes.map(lookOf);
  looks.forEach((look, at) => setAttribute(box.bar.children[at], "class", look));
  const count = (look) => looks.filter((one) => one === look).length;
  const known = MINUTES_MAX - count("none");
  const of = known === 1 ? "minute" : "minutes";
  const text = known === 0 ? "Nothing was promised that had requests in the last hour."
    : `Of ${known} ${of} with requests: kept in ${count("good")}, worth below ${WORTH_KEPT} in ` +
      `${count("warn")}, deadlines missed in ${count("bad")}.`;
  setText(box.words, text);
  setAttribute(box.bar, "aria-label", text);
}
