// The page: what the daemon's frames and replies say, shown part by part.

import * as detail from "./detail.js";
import * as disks from "./disks.js";
import { byId, el, setText } from "./dom.js";
import { counted, span } from "./format.js";
import * as forms from "./forms.js";
import { Live, Refusal, get, named, request } from "./live.js";
import * as pool from "./pool.js";
import * as promises from "./promises.js";
import * as volumes from "./volumes.js";

// The replies about disks and the pool are read again after this time, and after each change.
const REFRESH_MS = 10000;
const EVENTS_MAX = 30;
const MEASURES_MAX = 600;

const WORDS = {
  connecting: "connecting",
  live: "live",
  lost: "not connected: reconnecting",
  login: "not logged in",
  refused: "not connected",
  paused: "paused while it is not visible",
};

const details = new Map();
let frame = null;
let shown = [];
let selected = null;
let measures = 0;

/** Reads what frames do not have: policies, health, the pool. */
async function refresh() {
  try {
    const { disks: all } = await get("/v1/disks");
    details.clear();
    for (const disk of all) details.set(disk.name, disk);
    const there = await get("/v1/pool").catch((error) => {
      if (error instanceof Refusal && error.status === 409) return { pool: null };
      throw error;
    });
    forms.setDisks(all, there.pool);
    await pool.show(there.pool, all[0]?.uptime_s ?? 0);
    problems(all, there.pool);
  } catch {
    // The stream of events notices a lost connection, and says so.
  }
}

function problems(all, there) {
  const found = all.filter((disk) => (disk.health ?? "healthy") !== "healthy")
    .map((disk) => `Disk ${disk.name} is ${disk.health}.`);
  if (there && !there.writable) found.push("The pool cannot be written.");
  const degraded = (there?.volumes ?? []).filter((volume) => volume.degraded_bytes > 0);
  if (degraded.length > 0) {
    found.push(`Blocks lack a copy: ${degraded.map((volume) => volume.name).join(", ")}.`);
  }
  const unkept = (there?.volumes ?? []).filter((volume) => volume.stream_kept === false);
  if (unkept.length > 0) {
    found.push(`Streams are best effort: ${unkept.map((volume) => volume.name).join(", ")}.`);
  }
  if (there?.alarm) found.push("The pool's use has reached the alarm level.");
  byId("problems").hidden = found.length === 0;
  setText(byId("problems"), found.join(" "));
}

function render() {
  const start = performance.now();
  disks.render(frame, shown, details);
  volumes.render(shown, selected);
  detail.render(frame, shown);
  document.body.dataset.uptime = frame.uptime_s;
  setText(byId("summary"), `up ${span(frame.uptime_s)}; ` +
    `${counted(frame.disks.length, "disk")}, ${counted(shown.length, "volume")}`);
  if (measures >= MEASURES_MAX) {
    performance.clearMeasures("frame");
    measures = 0;
  }
  performance.measure("frame", { start, end: performance.now() });
  measures += 1;
}

async function select(name) {
  try {
    const { volume } = await get(named(name));
    selected = name;
    const live = shown.find((one) => one.name === name);
    detail.open(live, forms.actionsOf(volume, changed));
    render();
  } catch (error) {
    log("error", error.message);
  }
}

function changed() {
  refresh();
}

function log(kind, words) {
  const list = byId("events");
  const at = frame ? span(frame.uptime_s) : "";
  list.prepend(el("li", {}, `${at} – ${kind}: ${words}`));
  while (list.childElementCount > EVENTS_MAX) list.lastElementChild.remove();
}

function words(fields) {
  const all = Object.entries(fields).filter(([key]) => key !== "schema");
  return all.map(([key, value]) => `${key} ${value}`).join(", ");
}

const told = {
  state(state, reason) {
    const line = byId("connection");
    line.dataset.state = state;
    setText(line, reason ? `${WORDS[state]}: ${reason}` : WORDS[state]);
    document.body.classList.toggle("stale", state !== "live");
    byId("login").hidden = state !== "login";
    byId("log-out").hidden = state !== "live" || !document.body.dataset.session;
    if (state === "login") {
      byId("content").hidden = true;
      byId("token").focus();
    }
    if (state === "live") {
      refresh();
      detail.resume();
    } else {
      detail.pause();
    }
  },
  frame(next) {
    frame = next;
    shown = next.volumes;
    shown.forEach((volume, colour) => {
      Object.assign(volume, { colour, disks: volume.disk.split("+"), uptime: next.uptime_s });
    });
    byId("content").hidden = false;
    requestAnimationFrame(render);
  },
  promises: promises.remember,
  event(kind, fields) {
    log(kind, words(fields));
    if (kind === "volume" && fields.change === "created") promises.forget(fields.volume);
    if (kind !== "missed") refresh();
  },
};

const live = new Live(told);

byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = byId("token");
  try {
    await request("POST", "/v1/session", { token: token.value });
    token.value = "";
    setText(byId("login-error"), "");
    document.body.dataset.session = "yes";
    live.start();
  } catch (error) {
    setText(byId("login-error"), error.message);
  }
});

byId("log-out").addEventListener("click", async () => {
  await request("DELETE", "/v1/session").catch(() => null);
  delete document.body.dataset.session;
  live.stop("login");
});

byId("filter").addEventListener("input", () => { if (frame) render(); });

volumes.setUp(select);
forms.setUp(changed);
setInterval(() => { if (live.state === "live") refresh(); }, REFRESH_MS);
live.start();
