// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every metric there is: name, meaning, labels, and where its samples come
//! from. `docs/metrics.md` shows the same table; a test holds them together.

use super::kernels;
use super::sample::{Family, Kind, Sample, Value, count, nanos_if, sample};
use crate::kernel::{LaneFigures, Ledger};
use crate::snapshot::{LaneSnapshot, RecorderHealth, Snapshot};

const LANE: &[&str] = &["lane"];
const KERNEL: &[&str] = &["kernel"];
const KERNEL_LANE: &[&str] = &["kernel", "lane"];
const RING: &[&str] = &["ring"];

const fn family(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: &'static [&'static str],
    series: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    Family {
        name,
        kind,
        seconds: false,
        help,
        labels,
        series,
        read,
    }
}

const fn in_seconds(family: Family) -> Family {
    Family {
        seconds: true,
        ..family
    }
}

const fn single(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    family(name, kind, help, &[], "1", read)
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample<'_>>,
) -> Family {
    in_seconds(family(
        name,
        Kind::Histogram,
        help,
        LANE,
        "3 histograms",
        read,
    ))
}

/// In the order in which they are written.
#[rustfmt::skip]
pub(super) const FAMILIES: &[Family] = &[
    // Lanes and steps.
    histogram("metrale_gpu_lane", "GPU time of a lane's work, on every step", |it| lanes(it, |lane| Value::Histogram(&lane.gpu))),
    histogram("metrale_gpu_lane_gap", "GPU time between a lane's work and what came before it on its stream", |it| lanes(it, |lane| Value::Histogram(&lane.gap))),
    histogram("metrale_host_lane", "Host time from a lane's begin to its end", |it| lanes(it, |lane| Value::Histogram(&lane.wall))),
    in_seconds(family("metrale_host_step", Kind::Histogram, "Host time from a step's begin to its end", &[], "1 histogram", |it| vec![sample([], Value::Histogram(&it.host.step_wall))])),
    single("metrale_gpu_lane_gaps_unknown", Kind::Counter, "Lane work whose gap is not known", |it| count(it.lane_gap_unknown)),
    single("metrale_steps", Kind::Counter, "Steps begun", |it| count(it.steps)),
    single("metrale_launches", Kind::Counter, "Kernel launches, timed or not", |it| count(it.host.launches)),
    single("metrale_graph_launches", Kind::Counter, "Graph launches, timed or not", |it| count(it.host.graph_launches)),
    // Sampling.
    single("metrale_armed_steps", Kind::Counter, "Steps of which every launch was to be timed", |it| count(it.armed_steps)),
    single("metrale_sampled_launches", Kind::Counter, "Launches chosen to be timed", |it| count(it.sampled_launches)),
    single("metrale_sampling_every", Kind::Gauge, "One step, or launch, in so many is timed", |it| it.config.iter().map(|config| sample([], Value::Count(config.every))).collect()),
    family("metrale_sampling", Kind::Info, "What is measured and how it is sampled", &["level", "mode"], "1", sampling),
    // Kernels.
    in_seconds(family("metrale_gpu_kernel_sampled", Kind::Counter, "GPU time of timed launches, as it was read and not scaled", KERNEL, "128 kernels and `other`", |it| kernels::series(it, |series| Value::Nanos(series.total_ns)))),
    family("metrale_gpu_kernel_samples", Kind::Counter, "Launches timed", KERNEL, "128 kernels and `other`", |it| kernels::series(it, |series| Value::Count(series.samples))),
    family("metrale_gpu_kernel_busy_start_samples", Kind::Gauge, "Launches timed on complete armed steps so far that began while their stream was busy: they read no launch latency", KERNEL, "1 for each kernel", |it| kernels::figures(it, |it| Value::Count(it.busy_start_samples))),
    in_seconds(family("metrale_gpu_kernel_busy_start", Kind::Gauge, "GPU time of these", KERNEL, "1 for each kernel", |it| kernels::figures(it, |it| Value::Nanos(it.busy_start_ns)))),
    in_seconds(family("metrale_gpu_kernel_estimated", Kind::Gauge, "Estimated GPU time of all launches since the sampling last changed, timed or not", KERNEL_LANE, "3 for each kernel", |it| kernels::estimates(it, |it| Some(it.total_ns / 1e9)))),
    in_seconds(family("metrale_gpu_kernel_estimated_error", Kind::Gauge, "Standard error of the estimated GPU time; absent while too few steps were timed", KERNEL_LANE, "3 for each kernel", |it| kernels::estimates(it, |it| Some(it.error?.total_ns / 1e9)))),
    family("metrale_gpu_kernel_share_ratio", Kind::Gauge, "Estimated share of a lane's GPU time", KERNEL_LANE, "3 for each kernel", |it| kernels::estimates(it, |it| Some(it.share))),
    family("metrale_gpu_kernel_share_error_ratio", Kind::Gauge, "Standard error of the estimated share; absent while too few steps were timed", KERNEL_LANE, "3 for each kernel", |it| kernels::estimates(it, |it| Some(it.error?.share))),
    // Coverage.
    in_seconds(family("metrale_gpu_lane_armed", Kind::Counter, "GPU time of lanes on armed steps that were laid out in time", LANE, "3", |it| figures(it, |it| it.time_ns))),
    in_seconds(family("metrale_gpu_lane_busy", Kind::Counter, "Of that, time in which a launch of the lane ran", LANE, "3", |it| figures(it, |it| it.busy_ns))),
    in_seconds(family("metrale_gpu_lane_idle", Kind::Counter, "Of that, time in which none did: before the lane's first launch (`lead`), before a launch that the GPU waited for (`waited`), after the last (`tail`)", &["lane", "cause"], "9", idle)),
    in_seconds(family("metrale_gpu_lane_overlap", Kind::Counter, "By how much the launches of these lanes took longer than the time that they cover", LANE, "3", |it| figures(it, |it| it.overlap_ns))),
    in_seconds(family("metrale_gpu_lane_outside", Kind::Counter, "GPU time of launches outside their lane's time", LANE, "3", |it| figures(it, |it| it.outside_ns))),
    family("metrale_gpu_lane_waits", Kind::Counter, "Launches that the GPU waited for, on these steps", LANE, "3", |it| lanes(it, |lane| Value::Count(lane.figures.unwrap_or_default().waits))),
    in_seconds(family("metrale_gpu_lane_incomplete", Kind::Counter, "GPU time of lanes on armed steps that could not be laid out in time", LANE, "3", |it| lanes(it, |lane| Value::Nanos(lane.incomplete.ns)))),
    in_seconds(single("metrale_gpu_steps_armed", Kind::Counter, "Time that any lane took, on armed steps that were laid out in time", |it| device(it, |it| it.time_ns))),
    in_seconds(single("metrale_gpu_steps_busy", Kind::Counter, "Of that, time in which any launch ran", |it| device(it, |it| it.busy_ns))),
    family("metrale_gpu_lane_coverage_ratio", Kind::Gauge, "Estimated share of a lane's GPU time in which a launch of it ran; the rest is idle time, copies and launches without a guard", LANE, "3", |it| coverage(it, |it| Some(it.share))),
    family("metrale_gpu_lane_coverage_error_ratio", Kind::Gauge, "Standard error of the coverage; absent while too few steps were timed", LANE, "3", |it| coverage(it, |it| Some(it.error?.share))),
    family("metrale_step_losses", Kind::Counter, "Steps and spans that timelines or estimates had to leave out", &["reason"], "5", losses),
    // The ledger.
    single("metrale_gpu_spans_dropped", Kind::Counter, "Spans that found their slot in use", |it| count(it.spans_dropped)),
    single("metrale_gpu_span_failures", Kind::Counter, "Spans begun whose start, end or reading failed", |it| count(it.span_failures)),
    single("metrale_gpu_kernel_table_full", Kind::Counter, "Timed launches of kernels that found no row", |it| count(it.table_full)),
    family("metrale_span_attempts", Kind::Counter, "Attempts to time something: begun, dropped and refused", RING, "2", |it| ledger(it, |it| it.attempts)),
    family("metrale_spans_begun", Kind::Counter, "Attempts that got a slot: in flight, or over in one of the outcomes from `landed` to `reclaimed`", RING, "2", |it| ledger(it, |it| it.begun)),
    family("metrale_span_outcomes", Kind::Counter, "What became of attempts", &["ring", "outcome"], "12", outcomes),
    family("metrale_spans_in_flight", Kind::Gauge, "Slots in use", RING, "2", |it| ledger(it, |it| it.in_flight)),
    family("metrale_stale_ends", Kind::Counter, "Ends of spans that were over already", RING, "2", |it| ledger(it, |it| it.stale_ends)),
    in_seconds(family("metrale_gpu_oldest_span", Kind::Gauge, "Age of the oldest span that has not landed; a `closed` one that grows old is a kernel that hangs, or a driver that does", &["ring", "state"], "4", oldest)),
    family("metrale_harvest_passes", Kind::Counter, "Harvest passes; where it stands still nobody harvests", RING, "2", |it| ledger(it, |it| it.passes)),
    // Floor and own cost.
    in_seconds(single("metrale_gpu_floor", Kind::Gauge, "What a span with nothing in it reads; absent where it is not known", |it| nanos_if(it.floor.pair_ns))),
    in_seconds(family("metrale_own_cost", Kind::Gauge, "Host time that one operation of the measurement takes; absent where it is not known", &["operation"], "4", own_cost)),
    // Recorders.
    single("metrale_recorders", Kind::Gauge, "Recorders made so far", |it| count(it.recorders.len() as u64)),
    single("metrale_recorders_quarantined", Kind::Gauge, "Recorders that a driver status stopped for good", |it| count(health(it, |it| u64::from(it.quarantined.is_some())))),
    in_seconds(single("metrale_harvest_interval", Kind::Gauge, "The least time between two harvests now, of the slowest recorder; 0 at the full rate", |it| nanos_if(it.recorders.iter().map(|it| it.health.harvest_interval_ns).max()))),
    single("metrale_harvests_skipped", Kind::Counter, "Harvests that polled nothing, because polls were slow or refused", |it| count(health(it, |it| it.harvests_skipped))),
    single("metrale_polls_refused", Kind::Counter, "Polls that the driver did not allow", |it| count(health(it, |it| it.polls_refused))),
    single("metrale_slow_polls", Kind::Counter, "Polls that took over a millisecond", |it| count(health(it, |it| it.slow_polls))),
    single("metrale_polling_stops", Kind::Counter, "How often slow polls stopped polling for ten seconds", |it| count(health(it, |it| it.polling_stops))),
    single("metrale_invalid_times", Kind::Counter, "Times that were negative, infinite or not a number", |it| count(health(it, |it| it.invalid_times))),
    single("metrale_names_lost", Kind::Counter, "Names of kernels and graphs that found no room", |it| count(health(it, |it| it.names_lost))),
];

fn lanes<'a>(
    snapshot: &'a Snapshot,
    value: impl Fn(&'a LaneSnapshot) -> Value<'a>,
) -> Vec<Sample<'a>> {
    let of = |lane: &'a LaneSnapshot| sample([("lane", lane.lane.as_str())], value(lane));
    snapshot.lanes.iter().map(of).collect()
}

fn sampling(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |config: &crate::TelemetryConfig| {
        let labels = [
            ("level", config.level.as_str()),
            ("mode", config.sampling.as_str()),
        ];
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
    lanes(snapshot, |lane| {
        Value::Nanos(ns(&lane.figures.unwrap_or_default()))
    })
}

fn device(snapshot: &Snapshot, ns: fn(&LaneFigures) -> u64) -> Vec<Sample<'_>> {
    let figures = snapshot.device.unwrap_or_default();
    vec![sample([], Value::Nanos(ns(&figures)))]
}

fn idle(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let of = |lane| {
        let LaneSnapshot { lane, figures, .. }: &LaneSnapshot = lane;
        let figures = figures.unwrap_or_default();
        let causes = [
            ("lead", figures.lead_ns),
            ("waited", figures.waited_ns),
            ("tail", figures.tail_ns),
        ];
        causes.map(|(cause, ns)| {
            sample(
                [("lane", lane.as_str()), ("cause", cause)],
                Value::Nanos(ns),
            )
        })
    };
    snapshot.lanes.iter().flat_map(of).collect()
}

/// The oldest of all recorders; 0 where nothing waits.
fn oldest(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let spans = || snapshot.recorders.iter().flat_map(|it| &it.oldest);
    let of = |(ring, state, is_open)| {
        let ages = spans()
            .filter(|span| span.ring == ring && span.is_open == is_open)
            .filter_map(|span| span.age_ns);
        sample(
            [("ring", ring), ("state", state)],
            Value::Nanos(ages.max().unwrap_or(0)),
        )
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

fn health(snapshot: &Snapshot, count: fn(&RecorderHealth) -> u64) -> u64 {
    snapshot.recorders.iter().map(|it| count(&it.health)).sum()
}
