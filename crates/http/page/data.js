// SPDX-License-Identifier: MIT OR Apache-2.0
// What snapshots say: differences between two, quantiles, shares. No document here.

/** Snapshots that are kept, one a second: the last minute is between two of them. */
const MINUTE = 61;
/** Points of the GPU's chart: ten minutes. */
const POINTS = 600;
/** A point is of so many seconds, as armed steps are few. */
const POINT_SECONDS = 10;

/** Of a snapshot what a difference needs. */
function reduced(snapshot, at, clock_ns) {
  const { lanes, device, steps, armed_steps, host, start_unix_ns, sources } = snapshot;
  const passes = sum(snapshot.recorders, (recorder) => recorder.lane_ledger.passes);
  const { launches, graph_launches } = host;
  return { at, clock_ns, sources, lanes, device, steps, armed_steps, launches, graph_launches, start_unix_ns, passes };
}

const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);
const counted = (buckets) => sum(buckets, (bucket) => bucket.count);
const total = (buckets) => sum(buckets, (bucket) => bucket.sum_ns);

/** The last minute of snapshots, and ten of points; neither grows beyond that. */
class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.kept = [];
    this.points = [];
  }

  add(snapshot, at, clock_ns) {
    const now = reduced(snapshot, at, clock_ns);
    const last = this.kept.at(-1);
    if (last?.clock_ns === clock_ns) return;
    if (last && (last.start_unix_ns !== now.start_unix_ns || now.steps < last.steps)) this.clear();
    this.kept.push(now);
    if (this.kept.length > MINUTE) this.kept.shift();
    const from = this.kept.findLast((one) => at - one.at >= POINT_SECONDS * 1000) ?? this.kept[0];
    if (from !== now) this.points.push({ at, ...shares(difference(now, from)) });
    if (this.points.length > POINTS) this.points.shift();
  }

  /** What there was in the last minute; null: too little is kept. */
  minute() {
    return this.kept.length < 2 ? null : difference(this.kept.at(-1), this.kept[0]);
  }

  /** Milliseconds for which no step began while the server answered. */
  stillFor() {
    const now = this.kept.at(-1);
    const same = this.kept.find((one) => one.steps === now.steps);
    return now.at - same.at;
  }
}

/** What came between two snapshots of one process. */
function difference(now, before) {
  const fields = (a, b) => a && Object.fromEntries(Object.entries(a).map(([name, value]) => [name, value - (b?.[name] ?? 0)]));
  const buckets = (a, b) => {
    const earlier = new Map(b?.buckets.map((bucket) => [bucket.index, bucket]));
    const left = a.buckets.map((bucket) => {
      const was = earlier.get(bucket.index);
      return { index: bucket.index, count: bucket.count - (was?.count ?? 0), sum_ns: bucket.sum_ns - (was?.sum_ns ?? 0) };
    });
    return { buckets: left.filter((bucket) => bucket.count > 0) };
  };
  const lanes = now.lanes.map((lane) => {
    const was = before.lanes.find((other) => other.lane === lane.lane);
    return { lane: lane.lane, gpu: buckets(lane.gpu, was?.gpu), gap: buckets(lane.gap, was?.gap), figures: fields(lane.figures, was?.figures) };
  });
  const { steps, armed_steps, launches, graph_launches } = fields(
    { steps: now.steps, armed_steps: now.armed_steps, launches: now.launches, graph_launches: now.graph_launches }, before);
  const seconds = (now.clock_ns - before.clock_ns) / 1e9;
  return { seconds, sources: now.sources, lanes, device: fields(now.device, before.device), steps, armed_steps, launches, graph_launches };
}

/** How the GPU's time was spent, by the clock where it is known for how long.
 * Lanes are of every step; how much they run side by side, and what is inside
 * of them, is as on armed steps. */
function shares({ seconds, sources, lanes, device }) {
  const isSplit = Boolean(device && device.time_ns > 0);
  const armed = sum(lanes, (lane) => lane.figures?.time_ns ?? 0);
  const sideBySide = isSplit && armed > 0 ? Math.min(1, device.time_ns / armed) : 1;
  const inLanes = sideBySide * sum(lanes, (lane) => total(lane.gpu.buckets));
  const all = Math.max(inLanes, known(seconds) ? 1e9 * seconds * sources : 0);
  if (all === 0) return { all, busy: 0, waited: 0, ends: 0, unknown: 0, between: null };
  const part = (ns) => (isSplit ? (ns / device.time_ns) * (inLanes / all) : 0);
  return {
    all,
    busy: part(device?.busy_ns),
    waited: part(device?.waited_ns),
    ends: part(device?.lead_ns + device?.tail_ns),
    unknown: isSplit ? 0 : inLanes / all,
    between: known(seconds) ? 1 - inLanes / all : null,
  };
}

/** As the library's: the mean of the bucket that holds it. */
function quantile(buckets, q) {
  const rank = Math.max(1, Math.ceil(q * counted(buckets)));
  let seen = 0;
  for (const bucket of buckets) {
    seen += bucket.count;
    if (seen >= rank) return bucket.sum_ns / bucket.count;
  }
  return null;
}

/** Nanoseconds below which everything up to a bucket lies: 2^(index / 32 - 22) s. */
const bound = (index) => 1e9 * 2 ** (index / 32 - 22);

/** A name to show: the label of its series is as its source spells it. */
const nameOf = (row) => row.series ?? row.name ?? "(no name)";

/** Rows by kernel and lane, the longest first. */
function rowsOf(snapshot) {
  const pairs = snapshot.kernels.flatMap((kernel) => {
    const lanes = kernel.lanes.length > 0 ? kernel.lanes : [null];
    return lanes.map((lane) => ({ kernel, lane }));
  });
  const size = ({ lane }) => lane?.total_ns ?? -1;
  return pairs.sort((a, b) => size(b) - size(a) || b.kernel.total_ns - a.kernel.total_ns);
}
