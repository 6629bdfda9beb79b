// SPDX-License-Identifier: MIT OR Apache-2.0
// A lane's distribution, and its time against how many tokens it worked on.

/** Buckets of the library in one of a chart: eight to an octave. */
const COARSE = 4;
const distributions = new Map();

function drawDistributions(lanes) {
  for (const { lane, gpu, index } of lanes) {
    if (!distributions.has(lane)) {
      const figure = el("figure");
      byId("distributions").append(figure);
      distributions.set(lane, new Distribution(figure, lane, fillOf(index)));
    }
    distributions.get(lane).draw(gpu.buckets);
  }
}

class Distribution {
  constructor(figure, lane, key) {
    this.rows = [];
    this.chart = new Chart(figure, {
      title: lane, what: `Distribution of the GPU time of ${lane}`, height: 130,
      options: () => ({
        scales: { x: { time: false, distr: 3, log: 2, range: (plot, min, max) => [min, max] }, y: { range: (plot, min, max) => [0, max * 1.3] } },
        axes: [
          { splits: (plot, axis, min, max) => octaves(min, max), values: (plot, ticks) => ticks.map(tick) },
          { size: 44, values: (plot, ticks) => ticks.map((value) => `${value} %`) },
        ],
        series: [{}, { fill: (plot) => paint(plot.ctx, key), stroke: () => colour("--ink"), width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }],
        hooks: {
          setCursor: [() => this.chart.tell()], setScale: [(plot, scale) => scale === "x" && this.chart.zoomed()],
          draw: [(plot) => this.marks(plot)],
        },
      }),
      read: (at) => this.text(at),
      table: () => ({
        head: ["GPU time from", "up to", "Spans", "Share"],
        rows: this.rows.slice(0, -1).map((row, at) => [time(row.from), time(this.rows[at + 1].from), count(row.count), share(row.part)]),
      }),
    });
  }

  draw(buckets) {
    const groups = new Map();
    for (const bucket of buckets) {
      const group = Math.floor((bucket.index - 1) / COARSE);
      groups.set(group, (groups.get(group) ?? 0) + bucket.count);
    }
    const all = counted(buckets);
    const keys = [...groups.keys()];
    const [first, last] = [Math.min(...keys), Math.max(...keys)];
    const length = last - first + 2;
    this.rows = Array.from({ length }, (_, at) => {
      const many = groups.get(first + at) ?? 0;
      return { from: bound((first + at) * COARSE), count: many, part: many / all };
    });
    this.p50 = quantile(buckets, 0.5);
    this.p99 = quantile(buckets, 0.99);
    const data = [this.rows.map((row) => row.from), this.rows.map((row) => 100 * row.part)];
    this.chart.set(data, `${count(all)} spans, p50 ${time(this.p50)}, p99 ${time(this.p99)}`);
  }

  text(at) {
    const row = this.rows[at];
    const next = this.rows[at + 1];
    return next ? `${time(row.from)} to ${time(next.from)}: ${count(row.count)} spans, ${share(row.part)}` : "";
  }

  /** Where p50 and p99 are. */
  marks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = colour("--ink");
    ctx.font = `${Math.round(11 * devicePixelRatio)}px system-ui, sans-serif`;
    for (const [name, ns, side] of [["p50", this.p50, "right"], ["p99", this.p99, "left"]]) {
      const x = plot.valToPos(ns, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.textAlign = side;
      ctx.fillText(name, x + (side === "left" ? 4 : -4), bbox.top + 12 * devicePixelRatio);
    }
    ctx.restore();
  }
}

/** Round times for a logarithmic axis. */
function octaves(min, max) {
  const found = [];
  if (max < 8 * min) {
    const sizes = [0.1, 0.2, 0.5, 1, 2].map((size) => size * 10 ** Math.floor(Math.log10(max - min)));
    const step = sizes.findLast((size) => 3 * size <= max - min);
    for (let ns = Math.ceil(min / step) * step; ns <= max; ns += step) found.push(ns);
    return found;
  }
  const steps = max / min > 100 ? [1] : [1, 2, 5];
  for (let decade = 10 ** Math.floor(Math.log10(min)); decade <= max; decade *= 10) {
    for (const step of steps) {
      const ns = step * decade;
      if (ns >= min && ns <= max && ns > (found.at(-1) ?? 0)) found.push(ns);
    }
  }
  return found;
}

let shapeRows = [];
let shapeSeries = [];
const DASHES = [["solid", []], ["dashed", [8, 4]], ["dotted", [2, 3]], ["dash and dot", [10, 3, 2, 3]], ["short dashes", [5, 2]], ["fine dots", [1, 2]]];
const dashOf = (at) => DASHES[at % DASHES.length];

const shapesChart = new Chart(byId("shapes-chart"), {
  title: "Mean GPU time of a lane in a step, by tokens that it worked on", what: "Mean GPU time of lanes by tokens", height: 220,
  keys: () => shapeSeries.map(({ name, at, key }) => [`${name} (${dashOf(at)[0]})`, key]),
  options: () => ({
    scales: { x: { time: false, range: (plot, min, max) => [min - 0.4, max + 0.4] }, y: { range: (plot, min, max) => [0, max * 1.08] } },
    axes: [
      { values: (plot, ticks) => ticks.map((at) => (Number.isInteger(at) ? tokens(shapeRows[at]?.most) : "")), space: 50 },
      { size: 62, values: (plot, ticks) => ticks.map(tick) },
    ],
    series: [{}, ...shapeSeries.map(({ key, at }) => ({
      stroke: () => colour(key.colour), width: 2, dash: dashOf(at)[1], spanGaps: true,
      points: { show: true, size: 5 + 2 * (at % 3), fill: colour("--raised") },
    }))],
  }),
  range: () => [-0.4, shapeRows.length - 0.6],
  read: (index) => `${tokens(shapeRows[index].most)} tokens: ${shapeSeries.map(({ name }) => [name, shapeRows[index].of[name]]).filter(([, times]) => times).map(([name, times]) => `${name} ${time(times.ns / times.steps)} in ${count(times.steps)} steps`).join(", ")}`,
  table: () => ({
    head: ["Tokens", "Lane", "Steps", "Mean tokens", "Mean GPU time", "Per token"],
    rows: shapeRows.flatMap((row) => shapeSeries.filter(({ name }) => row.of[name]).map(({ name }) => {
      const { steps, ns, tokens: all } = row.of[name];
      return [tokens(row.most), name, count(steps), count(all / steps), time(ns / steps), all > 0 ? time(ns / all) : NONE];
    })),
  }),
});

const tokens = (most) => (most > 0 ? `≤ ${count(most)}` : count(most));

function drawShapes(snapshot) {
  const all = snapshot.lanes.flatMap((lane, index) => lane.shapes.map((times) => ({ ...times, index, name: times.mixed ? `${lane.lane}, mixed steps` : lane.lane })));
  byId("shapes-none").hidden = all.length > 0;
  byId("shapes-chart").hidden = all.length === 0;
  if (all.length === 0) return;
  const mosts = [...new Set(all.map((times) => times.most_tokens))].sort((a, b) => a - b);
  shapeRows = mosts.map((most) => ({ most, of: Object.fromEntries(all.filter((times) => times.most_tokens === most).map((times) => [times.name, times])) }));
  const names = [...new Map(all.map((times) => [times.name, times.index + (times.mixed ? 3 : 0)]))];
  const isNew = names.length !== shapeSeries.length;
  shapeSeries = names.map(([name, index], at) => ({ name, at, key: { ...fillOf(index), hatch: 0 } }));
  const mean = (times) => (times ? times.ns / times.steps : null);
  const data = [shapeRows.map((_, at) => at), ...shapeSeries.map(({ name }) => shapeRows.map((row) => mean(row.of[name])))];
  if (isNew && shapesChart.plot) {
    shapesChart.plot.destroy();
    shapesChart.plot = null;
  }
  shapesChart.set(data, `${mosts.length} buckets of up to ${count(mosts.at(-1))} tokens`);
}
