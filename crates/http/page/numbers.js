// SPDX-License-Identifier: MIT OR Apache-2.0
// Figures as text, each with its unit. What is not known is a dash, never 0.

const NONE = "–";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** Nanoseconds, in the unit that leaves one to three digits before the point. */
function time(ns) {
  if (!known(ns)) return NONE;
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= size * 0.99995) return `${digits(ns / size)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function digits(value) {
  const size = Math.abs(value);
  return size >= 1000 ? count(value) : value.toFixed(size >= 100 ? 1 : 2);
}

/** How long ago, in the largest unit. */
function age(ns) {
  if (!known(ns)) return NONE;
  const seconds = ns / 1e9;
  if (seconds < 10) return time(ns);
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function share(part) {
  if (!known(part)) return NONE;
  const percent = 100 * part;
  if (percent === 0) return "0 %";
  if (percent < 0) return `-${share(-part)}`;
  if (percent < 0.0005) return "< 0.001 %";
  return `${percent < 0.00995 ? percent.toFixed(3) : percent < 0.995 ? percent.toFixed(2) : percent.toFixed(1)} %`;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (value) => (known(value) ? whole.format(value) : NONE);

function rate(perSecond) {
  if (!known(perSecond)) return NONE;
  return `${perSecond >= 100 ? count(perSecond) : perSecond.toPrecision(2)} /s`;
}

/** A name cut in its middle: kernels differ at their ends. */
const shortened = (name, most) => (name.length > most ? `${name.slice(0, Math.ceil(0.55 * most))}…${name.slice(-Math.floor(0.4 * most))}` : name);

/** A stream's handle. */
const handle = (stream) => (known(stream) ? `0x${stream.toString(16)}` : NONE);

/** A label for an axis of nanoseconds. */
function tick(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (Math.abs(ns) >= size) return `${+(ns / size).toPrecision(6)} ${unit}`;
  }
  return `${+ns.toPrecision(6)} ns`.replace(/^0 ns$/, "0");
}
