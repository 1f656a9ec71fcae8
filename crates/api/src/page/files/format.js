// Figures as text.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)} %`;

/** A whole number, or one with a digit below 100. */
export const count = (value) => (value >= 100 ? Math.round(value).toString() : value.toFixed(1));

/** A number of things: `1 disk`, `2 disks`. */
export const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

export const megabytes = (bytesPerSecond) => (bytesPerSecond / 1e6).toFixed(2);

/** A time, in the unit in which it has three digits. */
export function time(ms) {
  const size = Math.abs(ms);
  if (size >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (size >= 1) return `${ms.toFixed(2)} ms`;
  return `${(ms * 1000).toFixed(0)} µs`;
}

/** A size in binary units. */
export function bytes(size) {
  let [value, unit] = [size, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

/** A length of time in its two largest units. */
export function span(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}
