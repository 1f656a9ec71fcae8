// Each disk's time: what is reserved, what is used, what is left to promise.

import { byId, el, keyed, setAttribute, setText, svg } from "./dom.js";
import { count, counted, megabytes, percent, time } from "./format.js";

// The parts of a bar; volumes beyond them are one part.
const PARTS_MAX = 12;
const COLOURS = 8;
const WIDTH = 1000;
// Parts below this share are not drawn; their sum belongs to the last part.
const SHARE_MIN = 0.0005;

const cards = new Map();

/** The parts of a disk's time that are reserved; they add up to 1. */
export function reservedParts(disk, volumes) {
  const of = (key) => volumes.reduce((sum, volume) => sum + volume[key], 0);
  const parts = volumes.map(({ name, colour, reserve, reserved_by_stream: stream }) => {
    return { name, share: reserve + stream, colour };
  });
  const more = [
    ["other (high priority, the pool's own work)", disk.reserved - of("reserve")],
    ["deadlines of several disks", disk.reserved_by_streams - of("reserved_by_stream")],
  ];
  for (const [name, share] of more) parts.push({ name, share: Math.max(0, share), kind: "other" });
  return whole(parts, { name: "left to promise", share: disk.left, kind: "left" }, "not promised");
}

/** The parts of a disk's time that were used in the last second; they add up to 1. */
export function usedParts(disk, volumes) {
  const own = volumes.filter((volume) => volume.disk === disk.name && volume.share > 0);
  const parts = [];
  let sum = 0;
  for (const { name, share, reserve, reserved_by_stream: stream, colour } of own) {
    const promised = Math.min(share, reserve + stream);
    sum += share;
    const part = { name, colour, order: share };
    parts.push({ ...part, share: promised });
    parts.push({ ...part, name: `${name}, slack`, share: share - promised, slack: true });
  }
  const other = Math.max(0, disk.busy_share - sum);
  const name = "other (several disks, the pool's own work)";
  return whole(parts, { name, share: other, kind: "other" }, "idle");
}

/** The parts with the last ones, so that the sum is 1: the largest apart, the others as one. */
function whole(parts, next, rest) {
  const drawn = parts.filter((part) => part.share >= SHARE_MIN);
  // The parts of a volume have one order, and stay beside each other.
  drawn.sort((a, b) => (b.order ?? b.share) - (a.order ?? a.share));
  const all = drawn.slice(0, PARTS_MAX);
  const hidden = drawn.slice(PARTS_MAX);
  const more = hidden.reduce((sum, part) => sum + part.share, 0);
  if (more > 0) all.push({ name: `${hidden.length} more`, share: more, kind: "other" });
  if (next.share >= SHARE_MIN) all.push(next);
  const sum = all.reduce((total, part) => total + part.share, 0);
  if (sum > 1) for (const part of all) part.share /= sum;
  all.push({ name: rest, share: Math.max(0, 1 - sum), kind: "idle" });
  return all;
}

function draw(bar, parts) {
  let x = 0;
  while (bar.childElementCount > parts.length) bar.lastElementChild.remove();
  while (bar.childElementCount < parts.length) bar.append(svg("rect", { y: 0, height: 20 }));
  parts.forEach((part, at) => {
    const rect = bar.children[at];
    const colour = part.kind ? `segment-${part.kind}` : `c${part.colour % COLOURS}`;
    setAttribute(rect, "class", part.slack ? `${colour} slack` : colour);
    setAttribute(rect, "x", (x * WIDTH).toFixed(1));
    setAttribute(rect, "width", Math.max(0, part.share * WIDTH - 1.5).toFixed(1));
    x += part.share;
  });
  const words = parts.filter((part) => part.share >= SHARE_MIN);
  const label = words.map((part) => `${part.name} ${percent(part.share)}`).join(", ");
  setAttribute(bar, "aria-label", label);
}

function bar(label) {
  const viewBox = `0 0 ${WIDTH} 20`;
  const drawn = svg("svg", { viewBox, preserveAspectRatio: "none", role: "img" });
  return { line: el("div", { class: "bar" }, el("span", {}, label), drawn), drawn };
}

function make(name) {
  const [reserved, used] = [bar("Reserved"), bar("Used")];
  const [facts, health] = [el("p"), el("p")];
  const legend = el("ul", { class: "legend" });
  const head = el("div", { class: "card-head" }, el("h3", {}, name), facts, health);
  const card = el("article", { class: "card" }, head, reserved.line, used.line, legend);
  card.parts = { reserved: reserved.drawn, used: used.drawn, facts, health, legend };
  card.items = new Map();
  return card;
}

function legend(card, disk, reserved, used) {
  const shown = new Map();
  const note = (parts, key) => {
    for (const part of parts) {
      const name = part.slack ? part.name.replace(/, slack$/, "") : part.name;
      const entry = shown.get(name) ?? { part, reserved: 0, used: 0 };
      entry[key] += part.share;
      shown.set(name, entry);
    }
  };
  note(reserved, "reserved");
  note(used, "used");
  const names = [...shown].filter(([, entry]) => entry.reserved + entry.used >= SHARE_MIN);
  keyed(card.parts.legend, card.items, names.map(([name]) => name), () => {
    return el("li", {}, el("span", { class: "swatch" }), el("span"));
  });
  for (const [name, { part, reserved: promised, used: taken }] of names) {
    const item = card.items.get(name);
    const colour = part.kind ?? `c${part.colour % COLOURS}`;
    setAttribute(item.firstChild, "class", `swatch ${colour}`);
    const one = { idle: percent(promised + taken), left: percent(promised) }[part.kind];
    const both = `${percent(taken)} used, ${percent(promised)} reserved`;
    setText(item.lastChild, `${name}: ${one ?? both}`);
  }
}

/** Shows the disks of a frame. `details` are those of `/v1/disks`, by name. */
export function render(frame, volumes, details) {
  keyed(byId("disks"), cards, frame.disks.map((disk) => disk.name), make);
  for (const disk of frame.disks) {
    const card = cards.get(disk.name);
    const here = volumes.filter((volume) => volume.disks.includes(disk.name));
    const [reserved, used] = [reservedParts(disk, here), usedParts(disk, here)];
    draw(card.parts.reserved, reserved);
    draw(card.parts.used, used);
    legend(card, disk, reserved, used);
    const detail = details.get(disk.name);
    const policy = detail ? `, policy ${detail.policy}, period ${detail.period}` : "";
    setText(card.parts.facts, `${disk.drive}${policy}; ${counted(here.length, "volume")}; ` +
      `busy ${percent(disk.busy_share)}, ${count(disk.iops)} IOPS, ` +
      `${megabytes(disk.bytes_per_s)} MB/s, ${disk.in_flight} in flight`);
    if (detail) showHealth(card.parts.health, detail);
  }
}

function showHealth(node, detail) {
  const health = detail.health ?? "healthy";
  const failures = detail.read_failures + detail.write_failures;
  const failed = failures > 0 ? `, ${failures} failed commands` : "";
  const old = detail.oldest_command_ms > 1000;
  const oldest = old ? `, a command is in flight for ${time(detail.oldest_command_ms)}` : "";
  setText(node, `${health}${failed}${oldest}`);
  setAttribute(node, "class", health !== "healthy" ? "bad" : failed || oldest ? "warn" : "good");
}
