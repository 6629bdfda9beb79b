// SPDX-License-Identifier: MIT OR Apache-2.0
// Charts by uPlot, and what it does not have: a cursor by keyboard, zoom by keys,
// touch and wheel, a text for whoever does not see it, and a table of its data.
//
// A chart that is zoomed keeps its data: who looks closely is not interrupted.

const charts = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  patterns.clear();
  charts.forEach((chart) => chart.rebuild());
});

class Chart {
  /** `what`: its name for a screen reader; `keys`: `[name, fill]` of its legend;
   * `options(chart)`: uPlot's own; `read(index)`: the text for a datum;
   * `table()`: `{ head, rows }`; `height`: of the plot, or a function. */
  constructor(figure, config) {
    Object.assign(this, { figure, config, plot: null, data: null, held: null });
    this.reset = el("button", { type: "button", hidden: true, textContent: "Show all, go on" });
    this.legend = el("span");
    this.caption = el("figcaption", {}, el("strong", { textContent: config.title }), this.legend, this.reset);
    this.area = el("div", { className: "plot", tabIndex: 0, role: "application" });
    attribute(this.area, "aria-roledescription", "chart");
    attribute(this.area, "aria-describedby", "keys");
    this.readout = el("output", { className: "readout" });
    this.body = el("tbody");
    this.head = el("tr");
    const table = el("table", {}, el("thead", {}, this.head), this.body);
    const region = el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `${config.title}, as a table` }, table);
    this.details = el("details", {}, el("summary", { textContent: "As a table" }), region);
    figure.append(this.caption, this.area, this.readout, this.details);
    this.details.addEventListener("toggle", () => this.tabulate());
    this.reset.addEventListener("click", () => {
      this.showAll();
      this.area.focus();
    });
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("blur", () => this.plot?.setCursor({ left: -10, top: -10 }));
    new ResizeObserver(() => this.resize()).observe(figure);
    charts.add(this);
  }

  /** New data, and a sentence that sums it up. */
  set(data, sentence) {
    if (this.held) {
      this.held = { data, sentence };
      return;
    }
    this.data = data;
    attribute(this.area, "aria-label", `${this.config.what}. ${sentence}`);
    if (this.plot) this.plot.setData(data);
    else this.rebuild();
    this.tabulate();
  }

  rebuild() {
    if (!this.data || this.figure.clientWidth === 0) return;
    this.plot?.destroy();
    const axis = {
      stroke: colour("--muted"), font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif",
      grid: { stroke: colour("--faint"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 },
    };
    const own = this.config.options(this);
    const hooks = {
      setCursor: [() => this.tell()],
      setScale: [(plot, scale) => scale === "x" && this.zoomed()],
      ...own.hooks,
    };
    this.plot = new uPlot({
      width: this.figure.clientWidth, height: this.height(), legend: { show: false }, ...own, hooks,
      axes: own.axes.map((one, index) => ({ ...axis, ...(index === 0 ? { size: 30 } : {}), ...one })),
      cursor: { drag: { x: true, y: false }, points: { show: false }, y: false, ...own.cursor },
    }, this.data, this.area);
    this.pointers();
    each(this.legend, this.config.keys?.() ?? [], () => el("span", { className: "entry" }, el("i", { className: "key" }), el("span")), (span, [name, fill]) => {
      swatch(span.firstChild, fill);
      text(span.lastChild, name);
    });
  }

  height() {
    const { height } = this.config;
    return typeof height === "function" ? height() : height;
  }

  resize() {
    if (!this.plot) this.rebuild();
    else if (this.figure.clientWidth > 0) this.plot.setSize({ width: this.figure.clientWidth, height: this.height() });
  }

  tabulate() {
    if (!this.details.open || !this.data) return;
    const { head, rows } = this.config.table();
    each(this.head, head, () => el("th", { scope: "col" }), (th, name) => text(th, name));
    fill(this.body, rows);
  }

  tell() {
    const index = this.plot?.cursor.idx;
    text(this.readout, known(index) && this.plot.cursor.left >= 0 ? this.config.read(index) : "");
  }

  /** From the first datum to the last. */
  range() {
    const xs = this.plot.data[0];
    return this.config.range?.() ?? [xs[0], xs.at(-1)];
  }

  zoomed() {
    if (!this.plot) return;
    const [first, last] = this.range();
    const { min, max } = this.plot.scales.x;
    const isZoomed = min > first || max < last;
    this.reset.hidden = !isZoomed;
    if (isZoomed) this.held ??= {};
    else if (this.held) {
      const { data, sentence } = this.held;
      this.held = null;
      if (data) queueMicrotask(() => this.set(data, sentence));
    }
  }

  showAll() {
    this.show(...this.range());
  }

  /** Shows from `min` to `max`, as far as there is something. */
  show(min, max) {
    const [first, last] = this.range();
    const width = Math.min(Math.max(max - min, (last - first) / 1e5), last - first);
    const from = Math.max(first, Math.min(min, last - width));
    this.plot.setScale("x", { min: from, max: from + width });
  }

  /** `factor` below 1 looks closer; `at` stays where it is. */
  zoom(factor, at) {
    const { min, max } = this.plot.scales.x;
    const centre = at ?? (min + max) / 2;
    this.show(centre - (centre - min) * factor, centre + (max - centre) * factor);
  }

  pan(part) {
    const { min, max } = this.plot.scales.x;
    const by = (max - min) * part;
    this.show(min + by, max + by);
  }

  key(event) {
    if (!this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { plot } = this;
    const at = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : undefined;
    const keys = {
      "+": () => this.zoom(0.6, at), "=": () => this.zoom(0.6, at), "-": () => this.zoom(1 / 0.6, at),
      0: () => this.showAll(), Escape: () => this.showAll(),
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.25) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.pan(0.25) : this.step(1)),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      ...this.config.moreKeys?.(),
    };
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act(event);
    }
  }

  /** Moves the cursor by so many data. */
  step(by) {
    const xs = this.plot.data[0];
    const from = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : by > 0 ? -1 : xs.length;
    const index = Math.max(0, Math.min(xs.length - 1, (from ?? 0) + by));
    this.cursorTo(xs[index]);
  }

  /** Puts the cursor on a value, and brings it into view. */
  cursorTo(x, top = 10) {
    const { min, max } = this.plot.scales.x;
    if (x < min || x > max) this.show(x - (max - min) / 2, x + (max - min) / 2);
    requestAnimationFrame(() => {
      // A cursor outside the plot is none.
      const left = Math.max(0, Math.min(this.plot.valToPos(x, "x"), this.plot.over.clientWidth));
      this.plot.setCursor({ left, top });
    });
  }

  /** A wheel with Ctrl, which is also a pinch on a pad; one finger moves, two zoom. */
  pointers() {
    const { over } = this.plot;
    const valueAt = (event) => this.plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
    over.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), valueAt(event));
    }, { passive: false });
    const touches = new Map();
    const spread = () => {
      const xs = [...touches.values()].map((event) => event.clientX);
      return { centre: (Math.min(...xs) + Math.max(...xs)) / 2, width: Math.max(...xs) - Math.min(...xs) };
    };
    over.addEventListener("pointerdown", (event) => event.pointerType === "touch" && touches.set(event.pointerId, event));
    for (const end of ["pointerup", "pointercancel"]) over.addEventListener(end, (event) => touches.delete(event.pointerId));
    over.addEventListener("pointermove", (event) => {
      if (!touches.has(event.pointerId)) return;
      const before = spread();
      touches.set(event.pointerId, event);
      const after = spread();
      this.pan((before.centre - after.centre) / over.clientWidth);
      if (touches.size > 1 && before.width > 0 && after.width > 0) this.zoom(before.width / after.width, valueAt(event));
    });
  }
}

/** Data in layers, each on top of those before it, for series of which the first
 * drawn is the whole. */
function stacked(xs, layers) {
  const sums = xs.map(() => 0);
  const tops = layers.map((layer) => layer.map((value, index) => (sums[index] += value)));
  return [xs, ...tops.reverse()];
}

/** Series for [`stacked`] data, of layers with these fills. */
const layerSeries = (fills, paths) => [...fills].reverse().map((fill) => ({
  fill: (plot) => paint(plot.ctx, fill), width: 0, points: { show: false }, paths,
}));
