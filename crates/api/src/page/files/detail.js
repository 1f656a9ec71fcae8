// One volume: where the time of its requests goes, what they wait for, and how long they take.

import { byId, el, setAttribute, setText } from "./dom.js";
import { percent, time } from "./format.js";
import { hour, promiseOf, showHour } from "./promises.js";

const SECONDS_MAX = 120;
// The seconds that the breakdown is of.
const RECENT = 30;
// The requests a second that are read; of a busier volume one in several.
const SAMPLES = 200;
// Latencies from 10 µs to 10 s, ten bins to a factor of ten.
const [BINS, BINS_PER_DECADE, LATENCY_MIN_NS] = [60, 10, 1e4];
const BIN_MS = (bin) => (LATENCY_MIN_NS / 1e6) * 10 ** (bin / BINS_PER_DECADE);
// The parts of a request's time, in the order in which it passes through them.
const PARTS = {
  inbox: "until the disk's thread has it",
  queued_behind: "queued behind others",
  throttled: "held by its limit or by deadlines",
  rotational_wait: "the disk waits for the rotation",
  drive: "in the drive's queue",
  overhead: "the drive's overhead",
  seek: "seek",
  rotation: "rotation",
  transfer: "transfer",
  disk: "in the disk",
  late: "completion seen late",
  reply: "reply",
};

let name = null;
let every = 1;
let reading = null;
let seconds = new Map();
let dropped = 0;
let view = null;

const emptyBucket = () => {
  return { count: 0, total: 0, max: 0, parts: {}, served: {}, by: {}, bins: new Uint32Array(BINS) };
};

function bucketOf(second) {
  let bucket = seconds.get(second);
  if (!bucket) {
    bucket = emptyBucket();
    seconds.set(second, bucket);
    for (const old of seconds.keys()) if (old <= second - SECONDS_MAX) seconds.delete(old);
  }
  return bucket;
}

function add(sums, key, value) {
  sums[key] = (sums[key] ?? 0) + value;
}

function note(line) {
  if (line.dropped) {
    dropped += line.dropped;
    return;
  }
  const bucket = bucketOf(Math.floor(line.at_ns / 1e9));
  bucket.count += 1;
  bucket.total += line.total_ns;
  bucket.max = Math.max(bucket.max, line.total_ns);
  for (const [part, ns] of Object.entries(line.breakdown_ns)) add(bucket.parts, part, ns);
  for (const { volume, ns } of line.served) add(bucket.served, volume, ns);
  if (line.throttled_by) add(bucket.by, line.throttled_by, line.breakdown_ns.throttled ?? 0);
  const bin = Math.floor(Math.log10(line.total_ns / LATENCY_MIN_NS) * BINS_PER_DECADE);
  bucket.bins[Math.min(BINS - 1, Math.max(0, bin))] += 1;
}

async function read(of, signal) {
  const query = `volume=${encodeURIComponent(of)}&every=${every}`;
  const reply = await fetch(`/v1/trace?${query}`, { signal, cache: "no-store" });
  if (!reply.ok) {
    const json = await reply.json().catch(() => null);
    throw new Error(json?.error?.message ?? `the reply has ${reply.status}`);
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) note(JSON.parse(line));
  }
}

function start() {
  reading?.abort();
  const own = new AbortController();
  reading = own;
  setText(view.error, "");
  read(name, own.signal).catch((error) => {
    if (!own.signal.aborted) setText(view.error, `no requests can be shown: ${error.message}`);
  }).finally(() => {
    if (reading === own) reading = null;
  });
}

/** Reads requests again after the connection was lost. */
export function resume() {
  if (name !== null && !reading) start();
}

/** Stops reading requests. */
export function pause() {
  reading?.abort();
  reading = null;
}

export function close() {
  pause();
  name = null;
  byId("detail").hidden = true;
}

function makeView(actions) {
  const canvas = el("canvas", { width: SECONDS_MAX, height: BINS, role: "img" });
  canvas.setAttribute("aria-label", "Latency: no requests yet");
  const axis = ["10 s", "1 s", "100 ms", "10 ms", "1 ms", "100 µs", "10 µs"];
  const table = el("table");
  const parts = el("tbody");
  table.append(
    el("caption", { class: "dim text" }, `Mean of the last ${RECENT} s; the parts add up`),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "text" }, "Part"),
      el("th", { scope: "col" }, "Time"), el("th", { scope: "col" }, "Share"))), parts);
  const [facts, waits, summary] = [el("p"), el("ul"), el("p", { class: "dim" })];
  const error = el("p", { class: "bad", role: "status" });
  const kept = hour();
  const heat = el("div", { class: "heat" },
    el("div", { class: "axis", "aria-hidden": "true" },
      ...axis.map((text) => el("span", {}, text))),
    canvas, el("div", { class: "below", "aria-hidden": "true" },
      el("span", {}, `${SECONDS_MAX} s ago`), el("span", {}, "now")));
  const closing = el("button", { type: "button" }, "Close");
  closing.addEventListener("click", () => {
    close();
    byId("volumes").querySelector("tr.selected button")?.focus();
  });
  const body = el("div", {}, facts, error, el("div", { class: "columns" },
    el("div", {}, el("h3", {}, "Where the time of a request goes"), table),
    el("div", {}, el("h3", {}, "What requests wait for"), waits,
      el("h3", {}, "Latency"), heat, summary,
      el("h3", {}, "Promise kept"), kept)), actions, closing);
  return { body, canvas, parts, facts, waits, summary, error, kept };
}

/** Opens a volume. `actions` is the element with its changes. */
export function open(volume, actions) {
  name = volume.name;
  seconds = new Map();
  dropped = 0;
  every = everyOf(volume);
  view = makeView(actions);
  byId("detail").hidden = false;
  setText(byId("detail-head"), `Volume ${name}`);
  byId("detail-body").replaceChildren(view.body);
  byId("detail-head").focus();
  start();
}

const everyOf = (volume) => Math.max(1, Math.ceil(volume.iops / SAMPLES));

/** The sum of the buckets of the last seconds. */
function recent(last, length) {
  const sum = emptyBucket();
  for (const [second, bucket] of seconds) {
    if (second <= last - length) continue;
    sum.count += bucket.count;
    sum.total += bucket.total;
    sum.max = Math.max(sum.max, bucket.max);
    for (const kind of ["parts", "served", "by"]) {
      for (const [key, ns] of Object.entries(bucket[kind])) add(sum[kind], key, ns);
    }
    bucket.bins.forEach((count, bin) => { sum.bins[bin] += count; });
  }
  return sum;
}

function quantile(sum, part) {
  let left = sum.count * part;
  for (let bin = 0; bin < BINS; bin += 1) {
    left -= sum.bins[bin];
    if (left <= 0) return Math.min(BIN_MS(bin + 1), sum.max / 1e6);
  }
  return sum.max / 1e6;
}

function drawHeat(last) {
  const context = view.canvas.getContext("2d");
  const image = context.createImageData(SECONDS_MAX, BINS);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const colour = dark ? [131, 180, 238] : [29, 95, 168];
  let most = 1;
  for (const { bins } of seconds.values()) most = Math.max(most, ...bins);
  for (const [second, bucket] of seconds) {
    const x = SECONDS_MAX - 1 - (last - second);
    if (x < 0 || x >= SECONDS_MAX) continue;
    bucket.bins.forEach((count, bin) => {
      if (count === 0) return;
      const at = ((BINS - 1 - bin) * SECONDS_MAX + x) * 4;
      const weight = 0.2 + 0.8 * Math.sqrt(count / most);
      image.data.set([...colour, Math.round(255 * weight)], at);
    });
  }
  context.putImageData(image, 0, 0);
}

function fillParts(sum) {
  const known = Object.keys(PARTS).filter((part) => sum.parts[part] > 0);
  const others = Object.keys(sum.parts).filter((part) => !(part in PARTS) && sum.parts[part] > 0);
  const row = (head, ns) => el("tr", {}, el("th", { scope: "row" }, head),
    el("td", {}, time(ns / sum.count / 1e6)), el("td", {}, percent(ns / sum.total)));
  const rows = [...known, ...others].map((part) => row(PARTS[part] ?? part, sum.parts[part]));
  view.parts.replaceChildren(...rows, row("all parts", sum.total));
}

/** What the time in the queue was used for, and what has held requests back. */
function fillWaits(sum) {
  const of = (sums, words) => Object.entries(sums).sort((a, b) => b[1] - a[1]).slice(0, 6)
    .map(([key, ns]) => el("li", {}, `${words(key)}: ${time(ns / sum.count / 1e6)} a request`));
  const items = [
    ...of(sum.served, (volume) => (volume === name ? "its own requests" : `volume ${volume}`)),
    ...of(sum.by, (reason) => `throttled by ${reason}`),
  ];
  view.waits.replaceChildren(...(items.length ? items : [el("li", {}, "nothing")]));
}

/** Shows what is known at a frame. */
export function render(frame, volumes) {
  if (name === null) return;
  const volume = volumes.find((one) => one.name === name);
  if (!volume) {
    setText(view.error, "The volume is no longer there.");
    return;
  }
  const wanted = everyOf(volume);
  if (reading && (wanted > every * 4 || wanted * 4 < every)) {
    every = wanted;
    start();
  }
  setText(view.facts, `On ${volume.disk}, ${volume.contract}; share ${percent(volume.share)}, ` +
    `limit ${percent(volume.limit)}; promise: ${promiseOf(volume).words}`);
  showHour(view.kept, name, frame.uptime_s);
  const last = Math.floor(frame.uptime_s);
  const sum = recent(last, RECENT);
  drawHeat(last);
  if (sum.count === 0) {
    view.parts.replaceChildren();
    view.waits.replaceChildren();
    const none = `No request was answered in the last ${RECENT} s.`;
    setText(view.summary, none);
    setAttribute(view.canvas, "aria-label", `Latency: ${none}`);
    return;
  }
  fillParts(sum);
  fillWaits(sum);
  const sample = every > 1 ? `one request in ${every}` : "all requests";
  const lost = dropped > 0 ? `, ${dropped} not read in time` : "";
  const words = `half within ${time(quantile(sum, 0.5))}, 99 % within ` +
    `${time(quantile(sum, 0.99))}, longest ${time(sum.max / 1e6)} ` +
    `(${RECENT} s, ${sample}${lost})`;
  setText(view.summary, words);
  setAttribute(view.canvas, "aria-label", `Latency over ${SECONDS_MAX} s: ${words}`);
}
