// SPDX-License-Identifier: MIT OR Apache-2.0
// Steps: the last ones by lane, and the slowest.

let source = { gpu: null, lanes: [], steps: [], timeline: null };
let shownLanes = [];

const stepsChart = new Chart(byId("steps-chart"), {
  title: "The last steps, GPU time by lane", what: "GPU time of the last steps by lane", height: 210,
  keys: () => [...shownLanes.map((index) => [source.lanes[index], fillOf(index)])],
  options: () => ({
    scales: { x: { time: false }, y: { range: (plot, min, max) => [0, Math.max(1, max) * 1.12] } },
    axes: [{ values: (plot, ticks) => ticks.map((number) => (Number.isInteger(number) ? count(number) : "")), space: 80 }, { size: 62, values: (plot, ticks) => ticks.map(tick) }],
    series: [{}, ...layerSeries(shownLanes.map(fillOf), uPlot.paths.bars({ size: [0.9, 40] }))],
    hooks: {
      setCursor: [() => stepsChart.tell()], setScale: [(plot, scale) => scale === "x" && stepsChart.zoomed()],
      draw: [markArmed],
    },
  }),
  read: (index) => stepText(stepsShown[index]),
  table: () => ({
    head: ["Step", "Armed", "GPU time", ...shownLanes.map((index) => source.lanes[index]), "Gaps", "Made of"],
    rows: stepsShown.slice(-100).reverse().map((step) => [
      count(step.number), step.armed ? "armed" : "", time(sum(step.gpu_ns, (ns) => ns ?? 0)),
      ...shownLanes.map((index) => time(step.gpu_ns[index])), time(gapsOf(step.gap_ns, step.gpu_ns)), shapeText(step.shape),
    ]),
  }),
});
let stepsShown = [];

/** A triangle over each armed step. */
function markArmed(plot) {
  const { ctx, bbox } = plot;
  const size = 4 * devicePixelRatio;
  ctx.save();
  ctx.fillStyle = colour("--ink");
  for (const [at, step] of stepsShown.entries()) {
    if (!step.armed) continue;
    const x = plot.valToPos(plot.data[0][at], "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + 1.8 * size);
    ctx.fill();
  }
  ctx.restore();
}

/** Null where the gap of a lane that the step had is not known. */
function gapsOf(gaps, lanes) {
  const own = gaps.filter((gap, index) => known(lanes[index]));
  return own.length > 0 && own.every(known) ? sum(own, (ns) => ns) : null;
}

function shapeText(shape) {
  if (!shape) return NONE;
  const parts = [[shape.prompt_tokens, "prompt"], [shape.decode_tokens, "decode"], [shape.requests, "requests"]];
  return parts.filter(([many]) => many > 0).map(([many, name]) => `${count(many)} ${name}`).join(", ") || NONE;
}

function stepText(step) {
  if (!step) return "";
  const lanes = source.lanes.map((lane, index) => [lane, step.gpu_ns[index]]).filter(([, ns]) => known(ns));
  const all = sum(lanes, ([, ns]) => ns);
  const made = step.shape ? `, made of ${shapeText(step.shape)}` : "";
  return `Step ${count(step.number)}${step.armed ? " ▼ armed" : ""}${step.marked ? ", with the marks of a twin" : ""}: ${time(all)} on the GPU: ${lanes.map(([lane, ns]) => `${lane} ${time(ns)}`).join(", ")}; gaps ${time(gapsOf(step.gap_ns, step.gpu_ns))}${made}${step.incomplete ? "; incomplete, it took more" : ""}`;
}

function drawSteps(of) {
  const lanes = of.lanes.map((_, index) => index).filter((index) => of.steps.some((step) => known(step.gpu_ns[index])));
  const isNew = of.gpu !== source.gpu || lanes.join() !== shownLanes.join();
  if (stepsChart.held && !isNew) return;
  source = of;
  shownLanes = lanes;
  stepsShown = of.steps;
  if (isNew && stepsChart.plot) {
    stepsChart.plot.destroy();
    stepsChart.plot = stepsChart.held = null;
  }
  const layers = lanes.map((index) => of.steps.map((step) => step.gpu_ns[index] ?? 0));
  const armed = of.steps.filter((step) => step.armed).length;
  stepsChart.set(stacked(of.steps.map((step) => step.number), layers), `${count(of.steps.length)} steps, ${armed} of them armed, which a triangle marks. ${stepText(of.steps.at(-1))}`);
}

const showSlow = more(byId("slow-more"), 8);

function drawSlow(snapshot) {
  const slowest = Math.max(1, ...snapshot.slowest_steps.map((step) => step.gpu_ns));
  const names = snapshot.lanes.map((lane) => lane.lane);
  const rows = showSlow(snapshot.slowest_steps).map((step) => [
    { text: count(step.number), tag: step.marked ? "twin" : step.armed ? "armed" : "" },
    `${step.incomplete ? "> " : ""}${time(step.gpu_ns)}`,
    { kind: "wide", draw: (td) => slowBar(td, step, slowest, names) },
    { text: step.lanes.map((lane) => `${lane.lane} ${time(lane.gpu_ns)}`).join(", "), kind: "left" },
    time(step.lanes.every((lane) => known(lane.gap_ns)) ? sum(step.lanes, (lane) => lane.gap_ns) : null),
    time(step.wall_ns), shapeText(step.shape), known(step.age_ns) ? `${age(step.age_ns)} ago` : NONE,
  ]);
  fill(byId("slow-table").tBodies[0], rows);
}

function slowBar(td, step, slowest, names) {
  if (td.childElementCount !== 1 || td.firstElementChild.tagName !== "DIV") td.replaceChildren(el("div", { className: "stack" }));
  stack(td.firstElementChild, step.lanes.map((lane) => [lane.gpu_ns / slowest, fillOf(Math.max(0, names.indexOf(lane.lane))), `${lane.lane} ${time(lane.gpu_ns)}`]));
}
