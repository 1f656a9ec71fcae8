// The pool: its space, its disks, the copies of its mirrors, and its relocations.

import { byId, el } from "./dom.js";
import { bytes, percent, span } from "./format.js";
import { request } from "./live.js";

// The size of the volume that the free space of each zone is asked for with.
const PROBE = { name: "page-zone-query", size: "1MiB", disks: undefined };

let before = null;

function share(part, whole) {
  return whole > 0 ? percent(part / whole) : "–";
}

/** The bar of something, with the time that is left. */
function progress(label, [done, left], rate, seconds) {
  const when = rate ? `${span(seconds)} left at ${bytes(Math.round(rate))}/s` : "";
  return [el("progress", { max: done + left, value: done, "aria-label": label }),
    ` ${bytes(done)} of ${bytes(done + left)} ${when}`];
}

function relocation(volume, uptime) {
  const { moved_bytes: moved, left_bytes: left, stuck } = volume.moving;
  const old = before?.volumes.get(volume.name)?.moving?.moved_bytes ?? moved;
  const seconds = uptime - (before?.uptime ?? uptime);
  const rate = seconds > 0 && moved > old ? (moved - old) / seconds : null;
  const bar = progress(`relocation of ${volume.name}`, [moved, left], rate, left / rate);
  return el("li", {}, `${volume.name}: `, ...bar, stuck ? ` stuck: ${stuck}` : "");
}

/** The state of the mirrors' copies. */
function copies(pool) {
  const { running, stuck, verifying, left_bytes: left, done_bytes: done } = pool.resync;
  const { bytes_per_s: rate, time_left_s: seconds } = pool.resync;
  const degraded = pool.volumes.filter((volume) => volume.degraded_bytes > 0);
  const lines = degraded.map((volume) => el("li", { class: "bad" },
    `${volume.name}: ${bytes(volume.degraded_bytes)} lack a copy` +
    `${volume.lost_bytes > 0 ? `, ${bytes(volume.lost_bytes)} have no whole one` : ""}`));
  for (const volume of pool.volumes.filter((volume) => volume.stream_kept === false)) {
    lines.push(el("li", { class: "bad" },
      `${volume.name}: its stream is best effort, read from disks that do not keep it`));
  }
  if (running) {
    const bar = progress("copies made equal", [done, left], rate, seconds);
    lines.push(el("li", {}, "copies are made equal: ", ...bar));
  }
  if (stuck) lines.push(el("li", { class: "bad" }, "some copies cannot be made equal yet"));
  if (verifying) {
    lines.push(el("li", {}, "all blocks of mirrors are compared, as the daemon was killed or the " +
      "power failed"));
  }
  return lines.length ? el("ul", {}, ...lines) : el("p", {}, "all equal");
}

function disk(one) {
  const name = one.name ?? `disk ${one.number}`;
  const state = {
    in: one.stale_bytes > 0 ? `; it missed writes to ${bytes(one.stale_bytes)}` : "",
    failing: "; it failed, and is taken out",
    out: `; out, as it failed: spindle disk reopen ${name}, or spindle pool replace ${name} NEW`,
    "out-missing": `; out, and missing: spindle pool replace ${name} NEW, if it stays away`,
    missing: "; missing",
  }[one.state] ?? "";
  const drained = one.leaving ? "; it is being drained" : "";
  const domain = one.domain ? `, of domain ${one.domain}` : "";
  return el("li", { class: one.state === "in" ? "" : "bad" },
    `${name}${domain}: ${bytes(one.free_bytes)} of ${bytes(one.bytes)} free${state}${drained}`);
}

function zones(admission) {
  const rows = (admission?.disks ?? []).map((disk) => el("li", {},
    `${disk.disk}: ${bytes(disk.fast_bytes)} free in its fast part, ` +
    `${bytes(disk.slow_bytes)} in its slow part`));
  return el("ul", {}, ...rows);
}

function volumeOf(volume) {
  const layout = volume.copies ? `${volume.layout} of ${volume.copies} copies` : volume.layout;
  const of = volume.snapshot_of ? `snapshot of ${volume.snapshot_of}` : layout;
  const missing = volume.whole ? "" : "; a disk with its blocks is missing";
  const shared = volume.shares_domain ? "; copies are in one failure domain" : "";
  const mapped = `${bytes(volume.mapped_bytes)} of ${bytes(volume.bytes)} mapped`;
  return el("li", { class: missing || shared ? "bad" : "" },
    `${volume.name}: ${of}, zone ${volume.zone}, on ${volume.disks.join(", ")}; ${mapped}` +
    `${missing}${shared}`);
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
  const moves = pool.volumes.filter((volume) => volume.moving);
  byId("pool-body").replaceChildren(
    el("p", {}, `${bytes(used)} of ${bytes(pool.bytes)} used (${share(used, pool.bytes)}); thin ` +
      `volumes may still allocate ${bytes(pool.promised_bytes)}.`),
    ...state.map((text) => el("p", { class: "bad" }, text)),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Disks"), el("ul", {}, ...pool.disks.map(disk)),
        el("h3", {}, "Free space by zone"), zones(asked?.admission)),
      el("div", {}, el("h3", {}, "Relocations"),
        moves.length ? el("ul", {}, ...moves.map((volume) => relocation(volume, uptime)))
          : el("p", {}, "none"),
        ...(pool.volumes.some((volume) => volume.copies)
          ? [el("h3", {}, "Copies of mirrors"), copies(pool)] : []),
        el("h3", {}, "Volumes and snapshots"), el("ul", {}, ...pool.volumes.map(volumeOf)))));
  const volumes = new Map(pool.volumes.map((volume) => [volume.name, volume]));
  before = { uptime, volumes };
}
