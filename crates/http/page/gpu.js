// SPDX-License-Identifier: MIT OR Apache-2.0
// Is the GPU working, which lane, which rows.

const STATES = [
  ["busy", "Busy", BUSY], ["waited", "Waited for a launch", WAITED], ["ends", "Ends of lanes", ENDS],
  ["unknown", "In lanes, not laid out", UNKNOWN], ["between", "Between lanes", BETWEEN],
];
const statesIn = (points) => STATES.filter(([name]) => name !== "unknown" || points.some((point) => point.unknown > 0));

let gpuPoints = [];
const gpuChart = new Chart(byId("gpu-chart"), {
  title: "The last ten minutes", what: "How the GPU’s time was spent over the last ten minutes", height: 150,
  keys: () => STATES.filter(([name]) => name !== "unknown").map(([, title, key]) => [title, key]),
  options: () => ({
    scales: { x: { time: true }, y: { range: [0, 100] } },
    axes: [{ values: (plot, ticks) => ticks.map((second) => new Date(1000 * second).toLocaleTimeString("en-GB")), space: 80, incrs: [1, 5, 10, 30, 60, 120, 300] }, { size: 44, values: (plot, ticks) => ticks.map((value) => `${value} %`) }],
    series: [{}, ...layerSeries(STATES.map(([, , key]) => key))],
  }),
  read: (index) => pointText(gpuPoints[index]),
  table: () => ({
    head: ["Time", ...STATES.map(([, title]) => title)],
    rows: gpuPoints.slice(-60).reverse().map((point) => [clock(point.at), ...STATES.map(([name]) => share(point[name]))]),
  }),
});

/** A moment of the page's own clock, as time of day. */
const clock = (at) => new Date(performance.timeOrigin + at).toLocaleTimeString("en-GB");
const pointText = (point) => `${clock(point.at)}: ${statesIn([point]).map(([name, title]) => `${title.toLowerCase()} ${share(point[name])}`).join(", ")}`;

function drawGpu(history, figures, snapshot) {
  const now = shares(figures);
  const states = statesIn([now]);
  const sentence = now.all === 0 ? "No lane has landed" : states.map(([name, title]) => `${title.toLowerCase()} ${share(now[name])}`).join(", ");
  attribute(byId("gpu-bar"), "aria-label", `${spanName(figures)}: ${sentence}.`);
  stack(byId("gpu-bar"), states.map(([name, title, key]) => [now[name], key, `${title} ${share(now[name])}`]));
  const parts = states.map(([name, title, key]) => [title, now.all === 0 ? NONE : share(now[name]), known(now[name]) ? time(now[name] * now.all) : "of the last minute only", key]);
  facts(byId("gpu-shares"), parts);
  const { seconds } = figures;
  const per = (value) => (seconds ? rate(value / seconds) : count(value));
  const wall = snapshot.host.step_wall.buckets;
  facts(byId("gpu-facts"), [
    ["Steps", per(figures.steps), seconds ? "" : "in all"],
    ["Kernel launches", per(figures.launches)],
    ["Graph launches", per(figures.graph_launches)],
    ["GPU time of a step", figures.steps > 0 ? time(sum(figures.lanes, (lane) => total(lane.gpu.buckets)) / figures.steps) : NONE, "mean"],
    ["Host time of a step", time(quantile(wall, 0.5)), `p50, p99 ${time(quantile(wall, 0.99))}, since the start`],
  ]);
  gpuPoints = history.points;
  const xs = gpuPoints.map((point) => (performance.timeOrigin + point.at) / 1000);
  const layers = STATES.map(([name]) => gpuPoints.map((point) => 100 * point[name]));
  gpuChart.set(stacked(xs, layers), gpuPoints.length > 0 ? `Now: ${pointText(gpuPoints.at(-1))}` : "No data yet");
}

const spanName = (figures) => (figures.seconds ? `Of the last ${Math.round(figures.seconds)} seconds` : "Since the start");

function drawLanes(figures) {
  const all = sum(figures.lanes, (lane) => total(lane.gpu.buckets));
  const lanes = figures.lanes.map((lane, index) => ({ ...lane, index })).filter((lane) => lane.gpu.buckets.length > 0);
  fill(byId("lanes-table").tBodies[0], lanes.map(({ lane, gpu, gap, figures: inside, index }) => {
    const part = all > 0 ? total(gpu.buckets) / all : 0;
    const of = (ns) => (inside && inside.time_ns > 0 ? share(ns / inside.time_ns) : NONE);
    return [
      { text: lane, key: fillOf(index) },
      { kind: "wide", draw: (td) => laneBar(td, part, fillOf(index)) },
      figures.seconds ? rate(counted(gpu.buckets) / figures.seconds) : count(counted(gpu.buckets)),
      time(total(gpu.buckets)), time(quantile(gpu.buckets, 0.5)), time(quantile(gpu.buckets, 0.99)), time(quantile(gap.buckets, 0.5)),
      of(inside?.busy_ns), of(inside?.waited_ns), of(inside ? inside.lead_ns + inside.tail_ns : null),
    ];
  }));
  drawDistributions(lanes);
}

function laneBar(td, part, key) {
  if (td.childElementCount !== 1) td.replaceChildren(el("div", { className: "labelled" }, el("div", { className: "stack" }), el("span")));
  const [bar, label] = td.firstElementChild.children;
  stack(bar, [[part, key, share(part)]]);
  text(label, share(part));
}

const MOST_ROWS = 12;
const showRows = more(byId("rows-more"), MOST_ROWS);

/** What a row is of, unless it is a kernel; of a region, how much is under no launch. */
function kindOf({ kind, figures, total_ns }) {
  if (kind === "kernel") return "";
  return kind === "region" && total_ns > 0 ? `region, ${share(figures.own_ns / total_ns)} its own` : kind;
}

const showInside = more(byId("inside-more"), MOST_ROWS);
const shareText = ({ share: part, error }) => `${share(part)} ${error ? `± ${share(error.share)}` : "(too few)"}`;
const totalText = ({ total_ns, error }) => (error ? `${time(total_ns)} ± ${time(error.total_ns)}` : time(total_ns));

/** What nodes are that are no kernels. */
const NODES = { copy: "copies", set: "memory sets", host: "host calls", child: "child graphs", other: "other nodes" };
const nodeName = (row) => (row.kind === "side_by_side" ? `${count(row.width)} nodes side by side` : NODES[row.kind] ?? nameOf(row));
const graphCell = (name) => ({ text: shortened(name ?? "(no name)", 24), title: name ?? "", kind: "left" });

/** What twins know of the inside of graphs, and what no row of it explains. */
function drawInside(graphs) {
  const rows = graphs.filter((graph) => graph.rows.length > 0).flatMap(({ name, rows: inside, remainder_ns, total_ns }) => [
    ...inside.map((row) => [
      { text: shortened(nodeName(row), 46), title: row.name ?? "", kind: "name" }, graphCell(name),
      { kind: "wide", draw: (td) => meter(td, row.estimate.share, row.estimate.error?.share) },
      shareText(row.estimate), totalText(row.estimate), time(row.samples > 0 ? row.sampled_ns / row.samples : null),
      count(row.nodes), count(row.samples),
    ]),
    [
      { text: "the rest", kind: "name", title: "Not measured yet, or of no node, less what ran side by side" }, graphCell(name),
      { kind: "wide", draw: (td) => meter(td, total_ns > 0 ? remainder_ns / total_ns : 0) },
      share(total_ns > 0 ? remainder_ns / total_ns : null), time(remainder_ns), "", "", "",
    ],
  ]);
  fill(byId("inside-table").tBodies[0], showInside(rows));
  fill(byId("twins-table").tBodies[0], graphs.map(({ name, rows: inside, ...graph }) => [
    { ...graphCell(name), kind: "name" }, share(sum(inside, (row) => row.estimate.share)), count(graph.nodes), count(graph.plans),
    count(graph.twin_launches), count(graph.plain_launches), time(graph.mark_ns), known(graph.perturbation) ? `× ${graph.perturbation.toFixed(3)}` : NONE,
  ]));
}

function drawRows(snapshot) {
  drawInside(snapshot.graphs ?? []);
  const all = rowsOf(snapshot);
  const pair = snapshot.floor.pair_ns;
  const rows = showRows(all).map(({ kernel, lane }) => {
    const mean = kernel.samples > 0 ? kernel.total_ns / kernel.samples : null;
    const isNearFloor = known(pair) && known(mean) && mean < 3 * pair;
    const error = lane?.error;
    const lost = kernel.lost_spans > 0 ? `, ${count(kernel.lost_spans)} lost` : "";
    return [
      { text: shortened(nameOf(kernel), 46), title: kernel.name ?? "", kind: "name", tag: kindOf(kernel), key: null },
      { text: lane?.lane ?? NONE, kind: "left" },
      { kind: "wide", draw: (td) => meter(td, lane?.share ?? 0, error?.share) },
      lane ? shareText(lane) : NONE, lane ? totalText(lane) : NONE,
      { text: `${isNearFloor ? "≈ " : ""}${time(mean)}`, title: isNearFloor ? `Near the floor: an empty span reads ${time(pair)}` : "" },
      `${count(kernel.samples)}${lost}`,
      time(kernel.figures.waited_ns),
    ];
  });
  fill(byId("rows-table").tBodies[0], rows);
  const every = snapshot.config ? `one step in ${count(snapshot.config.every)}` : "sampled steps";
  const floor = all.some(({ kernel }) => kernel.samples > 0 && known(pair) && kernel.total_ns / kernel.samples < 3 * pair);
  text(byId("rows-note"), all.length === 0
    ? "No launch has been timed yet."
    : `Estimates for all steps since the sampling last changed, from ${every}. No error is claimed from fewer than 30 steps.${floor ? ` ≈: the mean is less than three times what an empty span reads (${time(pair)}).` : ""}`);
}
