// The connection to the daemon: requests, and the stream of events with reconnection.

const KINDS = ["volume", "change", "refused", "health", "alarm", "missed", "dropped"];
const PAUSE_MIN_MS = 1000;
const PAUSE_MAX_MS = 10000;
// The daemon sends a frame each second.
const SILENCE_MAX_MS = 6000;

/** What the daemon has refused: its status and its reply's `error`. */
export class Refusal extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.error = error;
  }
}

/** Sends a request, and returns the reply's JSON. */
export async function request(method, path, body) {
  const options = { method, headers: {}, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const reply = await fetch(path, options);
  const json = reply.status === 204 ? null : await reply.json().catch(() => null);
  if (!reply.ok) {
    throw new Refusal(reply.status, json?.error ?? { message: `the reply has ${reply.status}` });
  }
  return json;
}

export const get = (path) => request("GET", path);
export const named = (name) => `/v1/volumes/${encodeURIComponent(name)}`;

/**
 * Reads the events until the page is closed. `told.state(state, reason)` hears of the connection:
 * `connecting`, `live`, `lost`, `login`, `refused` or `paused`.
 */
export class Live {
  constructor(told) {
    this.told = told;
    this.pause = PAUSE_MIN_MS;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.stop("paused");
      else if (this.state === "paused") this.start();
    });
  }

  set(state, reason = "") {
    this.state = state;
    this.told.state(state, reason);
  }

  start() {
    clearTimeout(this.timer);
    this.source?.close();
    const source = new EventSource("/v1/events?client=page&promises=true&history=false");
    this.source = source;
    let isFirst = true;
    this.expectFrame();
    source.addEventListener("frame", (event) => {
      this.expectFrame();
      this.pause = PAUSE_MIN_MS;
      if (this.state !== "live") this.set("live");
      this.told.frame(JSON.parse(event.data));
    });
    source.addEventListener("promises", (event) => {
      this.told.promises(JSON.parse(event.data).volumes, isFirst);
      isFirst = false;
    });
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => this.told.event(kind, JSON.parse(event.data)));
    }
    source.addEventListener("error", () => this.fail());
  }

  stop(state, reason) {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
    this.set(state, reason);
  }

  expectFrame() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.fail(), SILENCE_MAX_MS);
  }

  /** The stream has ended. The reply to another request says why. */
  async fail() {
    this.stop("lost");
    try {
      const reply = await fetch("/v1/disks", { cache: "no-store" });
      if (reply.status === 401) {
        this.set("login");
        return;
      }
      const full = "too many clients read the events";
      if (reply.ok && this.failed) this.set("refused", full);
      this.failed = reply.ok;
    } catch {
      this.failed = false;
    }
    this.timer = setTimeout(() => this.start(), this.pause);
    this.pause = Math.min(this.pause * 2, PAUSE_MAX_MS);
  }
}
