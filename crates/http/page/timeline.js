// SPDX-License-Identifier: MIT OR Apache-2.0
// An armed step, laid out in time: a row for each stream, its lanes above its
// launches, which are drawn over the regions that they began in. What the marks of
// a graph's twin told is drawn over the graph. The longest rows of the step have
// fills, the others share one.

const NAMED = 5;
const ROW = 46;
const OTHER = { colour: "--rest", hatch: 0 };
let laidOut = null;

const timelineChart = new Chart(byId("timeline-chart"), {
  title: "Streams over time", what: "Timeline of the last armed step", height: () => 44 + ROW * (laidOut?.streams.length ?? 1),
  keys: () => [...laidOut.longest.map((row, index) => [shortened(rowName(row), 34), fillOf(index)]), ...(laidOut.hasOthers ? [["others", OTHER]] : [])],
  options: () => ({
    scales: { x: { time: false, range: (plot, min, max) => [min, max] }, y: { range: () => [0, laidOut.streams.length] } },
    axes: [
      { values: (plot, ticks) => ticks.map(tick), space: 80 },
      { size: 62, splits: () => laidOut.streams.map((_, index) => index + 0.5), values: () => laidOut.streams.map((_, index) => `stream ${laidOut.streams.length - index}`), grid: { show: false } },
    ],
    series: [{}, { points: { show: false }, paths: () => null }],
    cursor: { drag: { x: true, y: false }, points: { show: false } },
    hooks: {
      setCursor: [() => timelineChart.tell()], setScale: [(plot, scale) => scale === "x" && timelineChart.zoomed()],
      draw: [drawSpans],
    },
  }),
  range: () => laidOut.range,
  read: () => spanText(spanAt()),
  table: () => ({
    head: ["Kernel", "Lane", "Launches", "GPU time", "First begins", "Last ends"],
    rows: laidOut.sums.map(({ row, lane, nodes, many, ns, begin, end }) => [
      { text: partName({ row, nodes }), kind: "name", title: partName({ row, nodes }) }, { text: laneName(lane), kind: "left" }, count(many), time(ns), time(begin), time(end),
    ]),
  }),
  moreKeys: () => timelineKeys,
});

const partName = (span) => (known(span.row) || !span.nodes ? rowName(span.row) : `${count(span.nodes)} ${span.nodes === 1 ? "other node" : "nodes"}`) + (span.nodes ? ", in a graph" : "");
const rowName = (row) => (known(row) ? nameOf({ ...laidOut.rows[row], series: laidOut.series.get(laidOut.rows[row].name) }) : "(no row)");
const laneName = (lane) => laidOut.lanes[lane] ?? NONE;
const streamName = (stream) => `stream ${laidOut.streams.length - laidOut.streams.indexOf(stream)}`;

/** The page's own view of a timeline; null: it has no step. */
function viewOf(timeline, snapshot) {
  if (!known(timeline.step)) return null;
  const timed = [...timeline.regions, ...timeline.launches, ...timeline.parts].sort((a, b) => a.start_ns - b.start_ns || b.ns - a.ns);
  const all = [...timeline.lane_spans, ...timed];
  const begin = all.reduce((least, span) => Math.min(least, span.start_ns), 0);
  const end = all.reduce((most, span) => Math.max(most, span.start_ns + span.ns), begin + 1);
  const sums = new Map();
  for (const { row, lane, start_ns, ns, nodes } of timed) {
    const id = `${row} ${lane} ${known(row) ? known(nodes) : nodes}`;
    const own = sums.get(id) ?? { row, lane, nodes, many: 0, ns: 0, begin: start_ns, end: start_ns };
    sums.set(id, { ...own, many: own.many + 1, ns: own.ns + ns, begin: Math.min(own.begin, start_ns), end: Math.max(own.end, start_ns + ns) });
  }
  const inOrder = [...sums.values()].sort((a, b) => b.ns - a.ns);
  const longest = [...new Set(inOrder.map(({ row }) => row).filter(known))].slice(0, NAMED);
  return {
    ...timeline, of: timeline, sums: inOrder, longest, range: [begin, end],
    hasOthers: timed.some(({ row }) => !longest.includes(row)),
    // Streams from the bottom up, so that the first is on top.
    streams: [...new Set(all.map((span) => span.stream))].reverse(),
    timed,
    series: new Map(snapshot.kernels.filter((row) => row.series).map((row) => [row.name, row.series])),
  };
}

function drawTimeline(timeline, snapshot) {
  if (laidOut && laidOut.of === timeline) return;
  // A launch that was chosen by keys stays, until the focus goes.
  if (timelineChart.held || (chosen && document.activeElement === timelineChart.area)) return;
  laidOut = viewOf(timeline, snapshot) ?? laidOut;
  byId("timeline-none").hidden = laidOut !== null;
  byId("timeline-chart").hidden = laidOut === null;
  if (!laidOut) return;
  text(byId("timeline-title"), `The last armed step: step ${count(laidOut.step)}, ${count(laidOut.launches.length)} timed launches in ${time(laidOut.range[1] - laidOut.range[0])}`);
  timelineChart.plot?.destroy();
  timelineChart.plot = null;
  const sentence = `Step ${count(laidOut.step)} of ${time(laidOut.range[1] - laidOut.range[0])}: ${laidOut.lane_spans.map((span) => `${laneName(span.lane)} ${time(span.ns)} on ${streamName(span.stream)}`).join(", ")}. Arrow keys go from launch to launch, up and down from stream to stream.`;
  timelineChart.set([laidOut.range, [0, 0]], sentence);
  timelineChart.rebuild();
}

function drawSpans(plot) {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  const x = (ns) => plot.valToPos(ns, "x", true);
  const top = (stream) => plot.valToPos(laidOut.streams.indexOf(stream) + 1, "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${Math.round(11 * scale)}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const span of laidOut.lane_spans) {
    const [from, to, at] = [x(span.start_ns), x(span.start_ns + span.ns), top(span.stream) + 4 * scale];
    ctx.fillStyle = colour("--faint");
    ctx.fillRect(from, at, to - from, 38 * scale);
    ctx.fillStyle = colour("--ink");
    ctx.fillRect(from, at, Math.max(scale, to - from), 2 * scale);
    const [left, right] = [Math.max(from, bbox.left), Math.min(to, bbox.left + bbox.width)];
    const name = laneName(span.lane);
    if (right - left > ctx.measureText(name).width + 8 * scale) ctx.fillText(name, left + 4 * scale, at + 9 * scale);
  }
  const current = spanAt();
  for (const span of laidOut.timed) {
    const [from, to] = [x(span.start_ns), x(span.start_ns + span.ns)];
    if (to < bbox.left || from > bbox.left + bbox.width) continue;
    const at = top(span.stream) + 19 * scale;
    const place = laidOut.longest.indexOf(span.row);
    ctx.fillStyle = paint(ctx, place < 0 ? OTHER : fillOf(place));
    const gap = to - from > 4 * scale ? scale : 0;
    ctx.fillRect(from, at, Math.max(scale, to - from - gap), 20 * scale);
    if (span === current) {
      ctx.strokeStyle = colour("--ink");
      ctx.lineWidth = 2 * scale;
      ctx.strokeRect(from, at, Math.max(scale, to - from), 20 * scale);
    }
  }
  ctx.restore();
}

/** The launch that was chosen by keys, or is under the pointer. */
let chosen = null;
function spanAt() {
  const { plot, area } = timelineChart;
  if (chosen && document.activeElement === area) return chosen;
  if (!plot || !(plot.cursor.left >= 0)) return null;
  const ns = plot.posToVal(plot.cursor.left, "x");
  const stream = laidOut.streams[Math.floor(plot.posToVal(plot.cursor.top, "y"))];
  const slack = 2 * (plot.posToVal(1, "x") - plot.posToVal(0, "x"));
  const near = (span) => span.stream === stream && ns >= span.start_ns - slack && ns <= span.start_ns + span.ns + slack;
  const far = (span) => Math.max(span.start_ns - ns, ns - span.start_ns - span.ns);
  // Of those that hold the place the innermost.
  return laidOut.timed.filter(near).sort((a, b) => Math.max(0, far(a)) - Math.max(0, far(b)) || a.ns - b.ns)[0] ?? null;
}

function spanText(span) {
  if (!span) {
    const ns = timelineChart.plot.posToVal(timelineChart.plot.cursor.left, "x");
    return `At ${time(ns)}: no timed launch here`;
  }
  return `${partName(span)}: ${time(span.ns)}, from ${time(span.start_ns)} to ${time(span.start_ns + span.ns)} on ${streamName(span.stream)} (${handle(span.stream)}), ${laneName(span.lane)}`;
}

function choose(pick) {
  const current = spanAt();
  const next = pick(laidOut.timed, current);
  if (!next) return;
  chosen = next;
  timelineChart.cursorTo(next.start_ns + next.ns / 2, timelineChart.plot.valToPos(laidOut.streams.indexOf(next.stream) + 0.4, "y"));
  requestAnimationFrame(() => timelineChart.plot.redraw(false));
}

const along = (by) => (all, from) => {
  const own = from ? all.filter((span) => span.stream === from.stream) : all;
  return from ? own[own.indexOf(from) + by] : own[0];
};
const across = (by) => (all, from) => {
  if (!from) return all[0];
  const { streams } = laidOut;
  const own = all.filter((span) => span.stream === streams[streams.indexOf(from.stream) + by]);
  return own.toSorted((a, b) => Math.abs(a.start_ns - from.start_ns) - Math.abs(b.start_ns - from.start_ns))[0];
};
const timelineKeys = {
  ArrowLeft: (event) => (event.shiftKey ? timelineChart.pan(-0.25) : choose(along(-1))),
  ArrowRight: (event) => (event.shiftKey ? timelineChart.pan(0.25) : choose(along(1))),
  ArrowUp: () => choose(across(1)), ArrowDown: () => choose(across(-1)),
  Home: () => choose((all) => all[0]), End: () => choose((all) => all.at(-1)),
};
timelineChart.area.addEventListener("pointerdown", () => (chosen = null));
timelineChart.area.addEventListener("pointermove", () => {
  if (!chosen) timelineChart.plot?.redraw(false);
});
timelineChart.area.addEventListener("blur", () => (chosen = null));
