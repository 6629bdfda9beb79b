// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every metric there is: name, meaning, labels, and where its samples come
//! from. `docs/metrics.md` shows the same table; a test holds them together.

use super::page::Page;
use super::sample::{Family, Read, Sample, Value, count, known_nanos, sample};
use super::{graphs, kernels, shapes};
use crate::kernel::{LaneFigures, Ledger};
use crate::snapshot::{LaneSnapshot, RecorderHealth, Snapshot};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge, Histogram, Info};

const LANE: &[&str] = &["lane"];
const KERNEL: &[&str] = &["kernel", "kind"];
const KERNEL_LANE: &[&str] = &["kernel", "kind", "lane"];
const GRAPH: &[&str] = &["graph"];
const GRAPH_KERNEL: &[&str] = &["graph", "kernel", "kind"];
const SHAPE: &[&str] = &["lane", "mixed", "most_tokens"];
const RING: &[&str] = &["ring"];

const fn family(
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    labels: &'static [&'static str],
    series: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    Family { name, metric_type, seconds: false, help, labels, series, read: Read::Snapshot(read) }
}

const fn in_seconds(family: Family) -> Family {
    Family { seconds: true, ..family }
}

const fn scalar(
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    family(name, metric_type, help, &[], "1", read)
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    in_seconds(family(name, Histogram, help, LANE, "1 for each lane", read))
}

/// In the order in which they are written.
#[rustfmt::skip]
pub(super) const FAMILIES: &[Family] = &[
    // Lanes and steps.
    histogram("metrale_gpu_lane", "GPU time of a lane's work, on every step", |snapshot| lanes(snapshot, |lane| Value::Histogram(&lane.gpu))),
    histogram("metrale_gpu_lane_gap", "GPU time between a lane's work and what came before it on its stream", |snapshot| lanes(snapshot, |lane| Value::Histogram(&lane.gap))),
    histogram("metrale_host_lane", "Host time from a lane's begin to its end", |snapshot| lanes(snapshot, |lane| Value::Histogram(&lane.wall))),
    in_seconds(family("metrale_host_step", Histogram, "Host time from a step's begin to its end", &[], "1 histogram", |snapshot| vec![sample([], Value::Histogram(&snapshot.host.step_wall))])),
    scalar("metrale_gpu_lane_gaps_unknown", Counter, "Lane work whose gap is not known", |snapshot| count(snapshot.lane_gap_unknown)),
    scalar("metrale_steps", Counter, "Steps begun", |snapshot| count(snapshot.steps)),
    scalar("metrale_launches", Counter, "Kernel launches, timed or not", |snapshot| count(snapshot.host.launches)),
    scalar("metrale_graph_launches", Counter, "Graph launches, timed or not", |snapshot| count(snapshot.host.graph_launches)),
    // Shapes.
    family("metrale_gpu_lane_tokens", Counter, "Tokens that a lane worked on, of steps that stated their shape: of prompts in `prefill`, of decode in the others, both where the lane did both", LANE, "1 for each lane", |snapshot| lanes(snapshot, |lane| Value::Count(shapes::tokens(lane)))),
    in_seconds(family("metrale_gpu_lane_shape", Counter, "GPU time of a lane on these steps, by the tokens that it worked on: at most `most_tokens`, and more than half as many; the last has all above it too. `mixed`: it did the work of prefill and of decode", SHAPE, "36 for each lane", |snapshot| shapes::series(snapshot, |times| Value::Nanos(times.ns)))),
    family("metrale_gpu_lane_shape_steps", Counter, "How many of these steps had the lane", SHAPE, "36 for each lane", |snapshot| shapes::series(snapshot, |times| Value::Count(times.steps))),
    family("metrale_gpu_lane_shape_tokens", Counter, "Tokens that the lane worked on in them", SHAPE, "36 for each lane", |snapshot| shapes::series(snapshot, |times| Value::Count(times.tokens))),
    // Sampling.
    scalar("metrale_armed_steps", Counter, "Steps of which every launch was to be timed", |snapshot| count(snapshot.armed_steps)),
    scalar("metrale_sampled_launches", Counter, "Launches chosen to be timed", |snapshot| count(snapshot.sampled_launches)),
    scalar("metrale_sampling_every", Gauge, "One step, or launch, in so many is timed", |snapshot| snapshot.config.iter().map(|config| sample([], Value::Count(config.every))).collect()),
    family("metrale_sampling", Info, "What is measured and how it is sampled", &["level", "mode"], "1", sampling),
    // Kernels.
    in_seconds(family("metrale_gpu_kernel_sampled", Counter, "GPU time of timed launches, as it was read and not scaled", KERNEL, "128 rows and `other`", |snapshot| kernels::series(snapshot, |series| Value::Nanos(series.total_ns)))),
    family("metrale_gpu_kernel_samples", Counter, "Launches timed", KERNEL, "128 rows and `other`", |snapshot| kernels::series(snapshot, |series| Value::Count(series.samples))),
    family("metrale_gpu_kernel_busy_start_samples", Gauge, "Launches timed on complete armed steps so far that began while their stream was busy: they read no launch latency", KERNEL, "1 for each kernel", |snapshot| kernels::figures(snapshot, |row| Value::Count(row.busy_start_samples))),
    in_seconds(family("metrale_gpu_kernel_busy_start", Gauge, "GPU time of these", KERNEL, "1 for each kernel", |snapshot| kernels::figures(snapshot, |row| Value::Nanos(row.busy_start_ns)))),
    in_seconds(family("metrale_gpu_region_own", Gauge, "GPU time of regions on complete armed steps so far under no launch within them", KERNEL, "1 for each region", kernels::own)),
    in_seconds(family("metrale_gpu_kernel_estimated", Gauge, "Estimated GPU time of all launches since the sampling last changed, timed or not", KERNEL_LANE, "1 for each kernel and lane", |snapshot| kernels::estimates(snapshot, |estimate| Some(estimate.total_ns / 1e9)))),
    in_seconds(family("metrale_gpu_kernel_estimated_error", Gauge, "Standard error of the estimated GPU time; absent while too few steps were timed", KERNEL_LANE, "1 for each kernel and lane", |snapshot| kernels::estimates(snapshot, |estimate| Some(estimate.error?.total_ns / 1e9)))),
    family("metrale_gpu_kernel_share_ratio", Gauge, "Estimated share of a lane's GPU time", KERNEL_LANE, "1 for each kernel and lane", |snapshot| kernels::estimates(snapshot, |estimate| Some(estimate.share))),
    family("metrale_gpu_kernel_share_error_ratio", Gauge, "Standard error of the estimated share; absent while too few steps were timed", KERNEL_LANE, "1 for each kernel and lane", |snapshot| kernels::estimates(snapshot, |estimate| Some(estimate.error?.share))),
    // Inside graphs.
    in_seconds(family("metrale_gpu_graph_kernel_estimated", Gauge, "Estimated GPU time of a row inside a graph that has a twin, in all launches of the graph since the sampling last changed; part of the time of the graph's own row: never add the two", GRAPH_KERNEL, graphs::ROWS, |snapshot| graphs::rows(snapshot, |estimate| Some(estimate.total_ns / 1e9)))),
    in_seconds(family("metrale_gpu_graph_kernel_estimated_error", Gauge, "Standard error of that time; absent while too few launches of the twin were read", GRAPH_KERNEL, graphs::ROWS, |snapshot| graphs::rows(snapshot, |estimate| Some(estimate.error?.total_ns / 1e9)))),
    family("metrale_gpu_graph_kernel_share_ratio", Gauge, "Estimated share of its graph's GPU time; all of a graph add up to how much of it is explained", GRAPH_KERNEL, graphs::ROWS, |snapshot| graphs::rows(snapshot, |estimate| Some(estimate.share))),
    family("metrale_gpu_graph_kernel_share_error_ratio", Gauge, "Standard error of that share; absent while too few launches of the twin were read", GRAPH_KERNEL, graphs::ROWS, |snapshot| graphs::rows(snapshot, |estimate| Some(estimate.error?.share))),
    family("metrale_gpu_graph_perturbation_ratio", Gauge, "Mean GPU time of a launch of the twin over that of a plain one: what marks do to the launches that have them; absent before both were timed", GRAPH, "1 for each graph", |snapshot| graphs::each(snapshot, |graph| graph.perturbation)),
    in_seconds(family("metrale_gpu_graph_mark", Gauge, "GPU time that a mark takes, by which rows are corrected; absent where it could not be read", GRAPH, "1 for each graph", |snapshot| graphs::each(snapshot, |graph| Some(graph.mark_ns? / 1e9)))),
    family("metrale_graph_replays", Counter, "Replays on armed steps of graphs that were to have a twin, by what was launched: the twin (`launched`), or the plain graph and why", &["outcome"], "9", graphs::replays),
    family("metrale_twin_launches", Counter, "Launches of twins by what became of them: `read` to the last mark, or `lost`; the others are on the GPU", &["outcome"], "2", graphs::launches),
    scalar("metrale_twin_waits", Counter, "Graph launches that waited, on the GPU, for a twin on another stream", |snapshot| count(graphs::ledger(snapshot).waits)),
    scalar("metrale_twin_updates_failed", Counter, "Updates that an executable took and its twin did not: that twin is stale, and is not launched", |snapshot| count(graphs::ledger(snapshot).updates_failed)),
    // Coverage.
    in_seconds(family("metrale_gpu_lane_armed", Counter, "GPU time of lanes on armed steps that were laid out in time", LANE, "1 for each lane", |snapshot| figures(snapshot, |lane| lane.time_ns))),
    in_seconds(family("metrale_gpu_lane_busy", Counter, "Of that, time in which a launch of the lane ran", LANE, "1 for each lane", |snapshot| figures(snapshot, |lane| lane.busy_ns))),
    in_seconds(family("metrale_gpu_lane_idle", Counter, "Of that, time in which none did: before the lane's first launch (`lead`), before a launch that the GPU waited for (`waited`), after the last (`tail`)", &["lane", "cause"], "3 for each lane", idle)),
    in_seconds(family("metrale_gpu_lane_overlap", Counter, "By how much the launches of these lanes took longer than the time that they cover", LANE, "1 for each lane", |snapshot| figures(snapshot, |lane| lane.overlap_ns))),
    in_seconds(family("metrale_gpu_lane_outside", Counter, "GPU time of launches outside their lane's time", LANE, "1 for each lane", |snapshot| figures(snapshot, |lane| lane.outside_ns))),
    family("metrale_gpu_lane_waits", Counter, "Launches that the GPU waited for, on these steps", LANE, "1 for each lane", |snapshot| lanes(snapshot, |lane| Value::Count(lane.figures.unwrap_or_default().waits))),
    in_seconds(family("metrale_gpu_lane_incomplete", Counter, "GPU time of lanes on armed steps that could not be laid out in time", LANE, "1 for each lane", |snapshot| lanes(snapshot, |lane| Value::Nanos(lane.incomplete.ns)))),
    in_seconds(scalar("metrale_gpu_steps_armed", Counter, "Time that any lane took, on armed steps that were laid out in time", |snapshot| device(snapshot, |lanes| lanes.time_ns))),
    in_seconds(scalar("metrale_gpu_steps_busy", Counter, "Of that, time in which any launch ran", |snapshot| device(snapshot, |lanes| lanes.busy_ns))),
    family("metrale_gpu_lane_coverage_ratio", Gauge, "Estimated share of a lane's GPU time in which a launch of it ran; the rest is idle time, copies and launches without a guard", LANE, "1 for each lane", |snapshot| coverage(snapshot, |estimate| Some(estimate.share))),
    family("metrale_gpu_lane_coverage_error_ratio", Gauge, "Standard error of the coverage; absent while too few steps were timed", LANE, "1 for each lane", |snapshot| coverage(snapshot, |estimate| Some(estimate.error?.share))),
    family("metrale_step_losses", Counter, "Steps and spans that timelines or estimates had to leave out", &["reason"], "6", losses),
    // The ledger.
    scalar("metrale_gpu_spans_dropped", Counter, "Spans that found their slot in use", |snapshot| count(snapshot.spans_dropped)),
    scalar("metrale_gpu_span_failures", Counter, "Spans begun whose start, end or reading failed", |snapshot| count(snapshot.span_failures)),
    scalar("metrale_gpu_kernel_table_full", Counter, "Timed launches of kernels that found no row", |snapshot| count(snapshot.table_full)),
    family("metrale_span_attempts", Counter, "Attempts to time something: begun, dropped and refused", RING, "2", |snapshot| ledger(snapshot, |ledger| ledger.attempts)),
    family("metrale_spans_begun", Counter, "Attempts that got a slot: in flight, or over in one of the outcomes from `landed` to `reclaimed`", RING, "2", |snapshot| ledger(snapshot, |ledger| ledger.begun)),
    family("metrale_span_outcomes", Counter, "What became of attempts", &["ring", "outcome"], "12", outcomes),
    family("metrale_spans_in_flight", Gauge, "Slots in use", RING, "2", |snapshot| ledger(snapshot, |ledger| ledger.in_flight)),
    family("metrale_stale_ends", Counter, "Ends of spans that were over already", RING, "2", |snapshot| ledger(snapshot, |ledger| ledger.stale_ends)),
    in_seconds(family("metrale_gpu_oldest_span", Gauge, "Age of the oldest span that has not landed; a `closed` one that grows old is a kernel that hangs, or a driver that does", &["ring", "state"], "4", oldest)),
    family("metrale_harvest_passes", Counter, "Harvest passes; where it stands still nobody harvests", RING, "2", |snapshot| ledger(snapshot, |ledger| ledger.passes)),
    // Floor and own cost.
    in_seconds(scalar("metrale_gpu_floor", Gauge, "What a span with nothing in it reads; absent where it is not known", |snapshot| known_nanos(snapshot.floor.pair_ns))),
    in_seconds(family("metrale_own_cost", Gauge, "Host time that one operation of the measurement takes; absent where it is not known", &["operation"], "4", own_cost)),
    // Recorders.
    in_seconds(scalar("metrale_start_time", Gauge, "When the first recorder was made, in seconds since 1970; it changes where a process starts anew", |snapshot| known_nanos(snapshot.start_unix_ns))),
    scalar("metrale_recorders", Gauge, "Recorders made so far", |snapshot| count(snapshot.recorders.len() as u64)),
    scalar("metrale_recorders_quarantined", Gauge, "Recorders that a driver status stopped for good", |snapshot| count(health(snapshot, |health| u64::from(health.quarantined.is_some())))),
    in_seconds(scalar("metrale_harvest_interval", Gauge, "The least time between two harvests now, of the slowest recorder; 0 at the full rate", |snapshot| known_nanos(snapshot.recorders.iter().map(|recorder| recorder.health.harvest_interval_ns).max()))),
    scalar("metrale_harvests_skipped", Counter, "Harvests that polled nothing, because polls were slow or refused", |snapshot| count(health(snapshot, |health| health.harvests_skipped))),
    scalar("metrale_polls_refused", Counter, "Polls that the driver did not allow", |snapshot| count(health(snapshot, |health| health.polls_refused))),
    scalar("metrale_slow_polls", Counter, "Polls that took over a millisecond", |snapshot| count(health(snapshot, |health| health.slow_polls))),
    scalar("metrale_polling_stops", Counter, "How often slow polls stopped polling for ten seconds", |snapshot| count(health(snapshot, |health| health.polling_stops))),
    scalar("metrale_invalid_times", Counter, "Times that cannot be: negative, infinite, not a number, or longer than there was time for", |snapshot| count(health(snapshot, |health| health.invalid_times))),
    scalar("metrale_names_lost", Counter, "Names of kernels, graphs and regions that found no room", |snapshot| count(health(snapshot, |health| health.names_lost))),
    family("metrale_step_callback_problems", Counter, "Records of steps that the application's callback `missed`, its calls that took over a millisecond (`slow`), and those that `panicked`", &["problem"], "3", callback),
    // The page.
    Family { read: Read::Page(snapshots), ..family(PAGE_FAMILY, Gauge, "Snapshots behind this page: `shown`, `added` to one with the same labels, or left out: `repeated`, of an `other_version`, with a number that is `not_finite`, with `no_gpu`", &["state"], "6 for each page", |_| Vec::new()) },
];

/// The family that every page has.
pub(super) const PAGE_FAMILY: &str = "metrale_export_snapshots";

fn snapshots(page: &Page) -> Vec<Sample<'_>> {
    let of = |(state, count)| sample([("state", state)], Value::Count(count));
    page.states().map(of).into()
}

fn lanes<'a>(
    snapshot: &'a Snapshot,
    value: impl Fn(&'a LaneSnapshot) -> Value<'a>,
) -> Vec<Sample<'a>> {
    let of = |lane: &'a LaneSnapshot| sample([("lane", lane.lane.as_str())], value(lane));
    snapshot.lanes.iter().map(of).collect()
}

fn sampling(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |config: &crate::TelemetryConfig| {
        let labels = [("level", config.level.as_str()), ("mode", config.sampling.as_str())];
        sample(labels, Value::Info)
    };
    snapshot.config.iter().map(of).collect()
}

fn coverage(
    snapshot: &Snapshot,
    value: fn(&crate::kernel::Estimate) -> Option<f64>,
) -> Vec<Sample<'_>> {
    let known = snapshot.lanes.iter().filter_map(|lane| {
        let value = value(lane.estimate.covered.as_ref()?)?;
        Some(sample([("lane", lane.lane.as_str())], Value::Float(value)))
    });
    known.collect()
}

fn figures(snapshot: &Snapshot, ns: fn(&LaneFigures) -> u64) -> Vec<Sample<'_>> {
    lanes(snapshot, |lane| Value::Nanos(ns(&lane.figures.unwrap_or_default())))
}

fn device(snapshot: &Snapshot, ns: fn(&LaneFigures) -> u64) -> Vec<Sample<'_>> {
    let figures = snapshot.device.unwrap_or_default();
    vec![sample([], Value::Nanos(ns(&figures)))]
}

fn idle(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |lane| {
        let LaneSnapshot { lane, figures, .. }: &LaneSnapshot = lane;
        let figures = figures.unwrap_or_default();
        let causes =
            [("lead", figures.lead_ns), ("waited", figures.waited_ns), ("tail", figures.tail_ns)];
        causes.map(|(cause, ns)| {
            sample([("lane", lane.as_str()), ("cause", cause)], Value::Nanos(ns))
        })
    };
    snapshot.lanes.iter().flat_map(of).collect()
}

/// The oldest of all recorders; 0 where nothing waits.
fn oldest(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let spans = || snapshot.recorders.iter().flat_map(|recorder| &recorder.oldest);
    let of = |(ring, state, is_open)| {
        let ages = spans()
            .filter(|span| span.ring == ring && span.is_open == is_open)
            .filter_map(|span| span.age_ns);
        sample([("ring", ring), ("state", state)], Value::Nanos(ages.max().unwrap_or(0)))
    };
    let kinds = [
        ("lanes", "open", true),
        ("lanes", "closed", false),
        ("kernels", "open", true),
        ("kernels", "closed", false),
    ];
    kinds.map(of).into()
}

fn losses(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |(reason, count)| sample([("reason", reason)], Value::Count(count));
    snapshot.losses.each().map(of).into()
}

fn rings(snapshot: &Snapshot) -> [(&'static str, Ledger); 2] {
    let (lanes, kernels) = snapshot.ledgers();
    [("lanes", lanes), ("kernels", kernels)]
}

fn ledger(snapshot: &Snapshot, count: fn(&Ledger) -> u64) -> Vec<Sample<'_>> {
    let of = |(ring, ledger)| sample([("ring", ring)], Value::Count(count(&ledger)));
    rings(snapshot).map(of).into()
}

fn outcomes(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |(ring, ledger): (&'static str, Ledger)| {
        ledger.outcomes().map(move |(outcome, count)| {
            sample([("ring", ring), ("outcome", outcome)], Value::Count(count))
        })
    };
    rings(snapshot).into_iter().flat_map(of).collect()
}

fn own_cost(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let floor = snapshot.floor;
    let operations = [
        ("begin", floor.begin_ns),
        ("end", floor.end_ns),
        ("harvest", floor.harvest_ns),
        ("poll", floor.poll_ns),
    ];
    let known = operations
        .into_iter()
        .filter_map(|(operation, ns)| Some(sample([("operation", operation)], Value::Nanos(ns?))));
    known.collect()
}

fn callback(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |(problem, count)| sample([("problem", problem)], Value::Count(count));
    let problems = [
        ("missed", health(snapshot, |health| health.records_missed)),
        ("slow", health(snapshot, |health| health.slow_callbacks)),
        ("panicked", health(snapshot, |health| health.callback_panics)),
    ];
    problems.map(of).into()
}

fn health(snapshot: &Snapshot, count: fn(&RecorderHealth) -> u64) -> u64 {
    let counts = snapshot.recorders.iter().map(|recorder| count(&recorder.health));
    counts.fold(0, u64::saturating_add)
}
