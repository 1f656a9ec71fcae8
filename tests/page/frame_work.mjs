// The work of a page's main thread for each frame of the daemon, from Chromium's own trace: parsing,
// script, style, layout and painting.

const CATEGORIES = ["blink.user_timing", "toplevel", "devtools.timeline",
  "disabled-by-default-devtools.timeline"];
const SCRIPT = ["EventDispatch", "FunctionCall", "FireAnimationFrame", "TimerFire",
  "RunMicrotasks"];
const LAYOUT = ["UpdateLayoutTree", "RecalculateStyles", "Layout"];
const PAINT = ["PrePaint", "Paint", "Layerize", "Commit", "UpdateLayer", "CompositeLayers"];
// What else a task has is Chromium's own, and that of the trace.
const PARTS = {
  "script": SCRIPT,
  "script, style and layout": [...SCRIPT, ...LAYOUT],
  "with painting": [...SCRIPT, ...LAYOUT, ...PAINT],
  "all tasks": ["RunTask", "ThreadControllerImpl::RunTask"],
};

const byStart = (a, b) => a.ts - b.ts;

/** The processor time of these events that is not within another one of them, in ms. */
function sum(events) {
  let [end, total] = [0, 0];
  for (const { ts, dur, tdur } of events) {
    if (ts < end) continue;
    end = ts + dur;
    total += tdur ?? dur;
  }
  return total / 1e3;
}

/**
 * Waits until the page has shown `count` frames; the processor time that the main thread spent on
 * each, in ms.
 */
export async function frameWork(browser, page, count) {
  await browser.startTracing(page, { categories: CATEGORIES });
  // The page counts its frames: nothing of the test runs in it meanwhile.
  await new Promise((resolve) => setTimeout(resolve, (count + 1) * 1000));
  const { traceEvents: events } = JSON.parse((await browser.stopTracing()).toString());
  const frames = events.filter(({ cat, name, ph }) => {
    return cat === "blink.user_timing" && name === "frame" && (ph === "b" || ph === "X");
  }).sort(byStart);
  const { pid } = frames[0];
  const main = events.find((one) => {
    return one.pid === pid && one.name === "thread_name" && one.args.name === "CrRendererMain";
  });
  const own = events.filter((one) => one.pid === pid && one.tid === main.tid && one.ph === "X")
    .sort(byStart);
  return frames.map(({ ts }) => {
    // Frames are a second apart: half a second to each side is this one's.
    const near = own.filter((one) => Math.abs(one.ts - ts) < 5e5);
    const of = (names) => sum(near.filter(({ name }) => names.includes(name)));
    return Object.fromEntries(Object.entries(PARTS).map(([part, names]) => [part, of(names)]));
  });
}
