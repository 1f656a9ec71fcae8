// The pool: its space, its disks, and its relocations.

import { byId, el } from "./dom.js";
import { bytes, percent, span } from "./format.js";
import { request } from "./live.js";

// The size of the volume that the free space of each zone is asked for with.
const PROBE = { name: "page-zone-query", size: "1MiB", disks: undefined };

let before = null;

function share(part, whole) {
  return whole > 0 ? percent(part / whole) : "–";
}

/** The bytes that a relocation moves in a second, by the answer before. */
function rateOf(volume, uptime) {
  const old = before?.volumes.get(volume.name);
  const moved = volume.moving.moved_bytes - (old?.moving?.moved_bytes ?? volume.moving.moved_bytes);
  const seconds = uptime - (before?.uptime ?? uptime);
  return seconds > 0 && moved > 0 ? moved / seconds : null;
}

function relocation(volume, uptime) {
  const { moved_bytes: moved, left_bytes: left, stuck } = volume.moving;
  const rate = rateOf(volume, uptime);
  const when = stuck ? `stuck: ${stuck}`
    : rate ? `${span(left / rate)} left at ${bytes(Math.round(rate))}/s` : "";
  const label = `relocation of ${volume.name}`;
  return el("li", {}, `${volume.name}: `,
    el("progress", { max: moved + left, value: moved, "aria-label": label }),
    ` ${bytes(moved)} of ${bytes(moved + left)} ${when}`);
}

function zones(admission) {
  const rows = (admission?.disks ?? []).map((disk) => el("li", {},
    `${disk.disk}: ${bytes(disk.fast_bytes)} free in its fast part, ` +
    `${bytes(disk.slow_bytes)} in its slow part`));
  return el("ul", {}, ...rows);
}

function copy(volume) {
  const of = volume.snapshot_of ? `snapshot of ${volume.snapshot_of}` : volume.layout;
  const risk = volume.whole ? "" : "; a disk with its blocks is missing";
  const mapped = `${bytes(volume.mapped_bytes)} of ${bytes(volume.bytes)} mapped`;
  return el("li", { class: volume.whole ? "" : "bad" },
    `${volume.name}: ${of}, zone ${volume.zone}, on ${volume.disks.join(", ")}; ${mapped}${risk}`);
}

/** Shows a pool; null if there is none. */
export async function show(pool, uptime) {
  byId("pool").hidden = pool === null;
  if (pool === null) {
    before = null;
    return;
  }
  const asked = await request("POST", "/v1/pool/admission", PROBE).catch(() => null);
  const used = pool.bytes - pool.free_bytes;
  const state = [
    pool.writable ? "" : "It cannot be written: a disk is missing or not healthy.",
    pool.alarm ? "Its use has reached the alarm level." : "",
  ].filter((text) => text);
  const disks = pool.disks.map((disk) => el("li", { class: disk.name ? "" : "bad" },
    `${disk.name ?? `disk ${disk.number} is missing`}: ${bytes(disk.free_bytes)} of ` +
    `${bytes(disk.bytes)} free${disk.leaving ? "; it is being drained" : ""}`));
  const moves = pool.volumes.filter((volume) => volume.moving);
  byId("pool-body").replaceChildren(
    el("p", {}, `${bytes(used)} of ${bytes(pool.bytes)} used (${share(used, pool.bytes)}); thin ` +
      `volumes may still allocate ${bytes(pool.promised_bytes)}.`),
    ...state.map((text) => el("p", { class: "bad" }, text)),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Disks"), el("ul", {}, ...disks),
        el("h3", {}, "Free space by zone"), zones(asked?.admission)),
      el("div", {}, el("h3", {}, "Relocations"),
        moves.length ? el("ul", {}, ...moves.map((volume) => relocation(volume, uptime)))
          : el("p", {}, "none"),
        el("h3", {}, "Volumes and snapshots"), el("ul", {}, ...pool.volumes.map(copy)))));
  before = { uptime, volumes: new Map(pool.volumes.map((volume) => [volume.name, volume])) };
}
