// A daemon and a browser under test.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";

import { chromium } from "playwright-core";

export const TOKEN = "0123456789abcdef";
const SPINDLE = process.env.SPINDLE ?? path.resolve("../../target/debug/spindle");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Runs `spindle demo` for a while: `body` gets its page's address and token. */
export async function demo(body) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "spindle-page-"));
  const child = spawn(SPINDLE, ["demo", "--seconds", "60"],
    { cwd: directory, env: { ...process.env, TMPDIR: directory },
      stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  try {
    for await (const line of readline.createInterface({ input: child.stderr })) {
      const page = line.match(/^page: http:\/\/(\S+)\/ while it runs; its token is (\S+)$/);
      if (page) {
        child.stderr.resume();
        return await body({ tcp: page[1] }, page[2]);
      }
    }
    throw new Error("the demo has ended without a page");
  } finally {
    child.kill("SIGKILL");
    await ended;
    fs.rmSync(directory, { recursive: true });
  }
}

/** A daemon on a config, in a directory of its own. */
export class Daemon {
  static async start(config, prepare = () => {}) {
    const daemon = new Daemon();
    daemon.directory = fs.mkdtempSync(path.join(os.tmpdir(), "spindle-page-"));
    fs.writeFileSync(daemon.file("plan.toml"), config);
    fs.writeFileSync(daemon.file("token"), TOKEN, { mode: 0o600 });
    daemon.tcp = "127.0.0.1:0";
    prepare(daemon);
    await daemon.serve();
    return daemon;
  }

  file(name) {
    return path.join(this.directory, name);
  }

  /** Serves, again on the same port. When this returns, it listens. */
  async serve() {
    const socket = this.file("spindle-api.sock");
    this.child = spawn(SPINDLE, ["serve", "plan.toml", "--json",
      "--listen", `unix:${this.file("nbd.sock")}`, "--api", `unix:${socket}`, "--api", this.tcp,
      "--api-token-file", "token"],
    { cwd: this.directory, stdio: ["ignore", "ignore", "pipe"] });
    const lines = readline.createInterface({ input: this.child.stderr });
    const said = [];
    for await (const line of lines) {
      said.push(line);
      const tcp = line.match(/^API on (127\.0\.0\.1:\d+)$/);
      if (tcp) this.tcp = tcp[1];
      if (line.startsWith("listening on")) {
        this.child.stderr.resume();
        return;
      }
    }
    throw new Error(`the daemon has ended:\n${said.join("\n")}`);
  }

  /** Runs `spindle` beside the daemon, and returns its output. */
  spindle(...args) {
    return succeed(SPINDLE, args, this.directory);
  }

  uri(volume) {
    return `nbd+unix:///${volume}?socket=${this.file("nbd.sock")}`;
  }

  /** Ends the daemon at once, as a crash does. */
  async kill() {
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    fs.rmSync(this.directory, { recursive: true });
  }
}

/** Runs a program to its end, and returns its output. */
export function succeed(program, args, cwd) {
  const ran = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`${program} ${args.join(" ")}: ${ran.stderr}`);
  return ran.stdout;
}

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

/** The page of a daemon, logged in and live. What it asks of other hosts, or throws, is in it. */
export async function open(browser, daemon, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.failures = [];
  const own = `http://${daemon.tcp}`;
  page.on("pageerror", (error) => page.failures.push(error.stack));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${own}/`)) page.failures.push(request.url());
    if (request.url().includes(TOKEN)) page.failures.push(`the token is in ${request.url()}`);
  });
  page.on("console", (message) => {
    if (/content security policy/i.test(message.text())) page.failures.push(message.text());
  });
  await page.goto(`${own}/`);
  return page;
}

export async function logIn(page, token = TOKEN) {
  await page.fill("#token", token);
  await page.click("#login-form button");
}

export async function live(page) {
  await page.waitForSelector("#connection[data-state=live]");
  await page.waitForSelector("#content:not([hidden])");
}

/**
 * The next frame, and the rows that the page shows of it. Both read the same stream of events, so
 * that the figures are the same ones.
 */
export function nextFrame(page) {
  return page.evaluate(() => new Promise((resolve) => {
    const source = new EventSource("/v1/events?client=test");
    const shows = (frame) => document.body.dataset.uptime === String(frame.uptime_s);
    source.addEventListener("frame", (event) => {
      const frame = JSON.parse(event.data);
      const look = () => {
        if (Number(document.body.dataset.uptime) > frame.uptime_s) return;
        if (!shows(frame)) {
          requestAnimationFrame(look);
          return;
        }
        source.close();
        const rows = [...document.querySelectorAll("#volumes tbody tr")];
        const cells = (row) => [...row.children].map((cell) => cell.textContent);
        const bars = [...document.querySelectorAll("#disks svg")];
        const widths = bars.map((bar) => bar.getAttribute("aria-label"));
        resolve({ frame, rows: rows.map(cells), bars: widths });
      };
      look();
    });
  }));
}
