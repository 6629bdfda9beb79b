// SPDX-License-Identifier: MIT OR Apache-2.0
// Is the measurement sound: what was lost, what stopped, and what that means.

const STUCK_NS = 30e9;
/** Statuses of the driver that stop a recorder, by its own names. */
const STATUSES = {
  4: "deinitialized", 201: "invalid context", 214: "uncorrectable ECC error", 400: "invalid handle", 700: "illegal address",
  702: "launch timed out", 709: "context is destroyed", 710: "assert in a kernel", 715: "illegal instruction", 719: "launch failed", 999: "unknown",
};
const SAMPLINGS = { hashed: "hashed", everynth: "every Nth", spread: "spread over launches" };
const recorderName = (recorder) => `recorder ${recorder.label} of ${recorder.gpu}`;

/** What makes numbers stop or missing, the worst first: `[kind, sentence]`. */
function troubles(snapshot, history) {
  const found = [];
  const bad = (text) => found.push(["bad", text]);
  const warn = (text) => found.push(["warn", text]);
  const level = snapshot.config?.level;
  for (const recorder of snapshot.recorders) {
    const status = recorder.health.quarantined;
    if (known(status)) bad(`Quarantined: ${recorderName(recorder)} measures nothing since the driver answered ${status}${STATUSES[status] ? ` (${STATUSES[status]})` : ""}. Its figures stand still; the application sees the same error.`);
    for (const span of recorder.oldest.filter((one) => !one.is_open && one.age_ns > STUCK_NS)) {
      bad(`Work does not end: ${span.name ?? "(no name)"} has been on ${handle(span.stream)} for ${age(span.age_ns)}: ${recorderName(recorder)}.`);
    }
  }
  if (level === "off") bad("The level is off: nothing is measured, figures stand still.");
  if (level === "basic") warn("The level is basic: steps and lanes on the host only, no GPU time.");
  if (snapshot.recorders.length === 0) warn("No recorder has been made yet: there is nothing to show.");
  const still = history.stillFor();
  if (level !== "off" && snapshot.recorders.length > 0 && still >= 10_000) warn(`No step has begun for ${Math.floor(still / 1000)} s: figures of the last minute run out.`);
  const [last, first] = [history.kept.at(-1), history.kept[0]];
  if (last.at - first.at > 5000 && last.passes === first.passes && last.steps > first.steps) bad("Nobody harvests: spans are begun and none lands.");
  return found;
}

/** What was lost, in sentences. */
function losses(snapshot) {
  const ledgers = snapshot.recorders.flatMap((recorder) => [recorder.lane_ledger, recorder.kernel_ledger]);
  const of = (field) => sum(ledgers, (ledger) => ledger[field]);
  const health = (field) => sum(snapshot.recorders, (recorder) => recorder.health[field]);
  const replays = (field) => sum(snapshot.recorders, (recorder) => recorder.replays[field]);
  const { losses: lost } = snapshot;
  const all = [
    [of("dropped"), "spans dropped: their ring was full. Lanes or kernels are missing from the sums."],
    [of("failed"), "spans failed: they could not be recorded or read."],
    [of("refused"), "spans refused: the stream was capturing, or the recorder quarantined."],
    [of("reclaimed"), "spans were never ended, and taken back."],
    [of("stale_ends"), "ends of spans that were over already."],
    [snapshot.table_full, "samples of kernels that found no row: 512 others came before them."],
    [lost.incomplete_steps, "armed steps lost a span: they are no samples, and their idle time is unknown."],
    [lost.unplaced_steps, "armed steps could not be laid out in time: their idle time is unknown."],
    [lost.late_spans, "spans began after their step was closed."],
    [lost.unpaired_steps, "steps ran kernels in a lane that had no span."],
    [lost.rowless_spans, "launches found no place in the estimates."],
    [lost.unrecorded_steps, "steps left no record."],
    [replays("updates_failed"), "updates that a twin did not take: it is stale, and rows inside its graph stand still."],
    [replays("launch_failed"), "launches of a twin that failed: the plain graph was launched, and the twin is retired."],
    [replays("lost"), "launches of twins could not be read.", "plain"],
    [snapshot.lane_gap_unknown, "lane spans whose gap is not known.", "plain"],
    [health("invalid_times"), "times that cannot be were left out."],
    [health("polling_stops"), "times polling stopped for ten seconds, as the driver was slow."],
    [health("slow_polls"), "polls took over a millisecond.", "plain"],
    [health("polls_refused"), "polls were refused by the driver."],
    [health("names_lost"), "names found no room, or were too long."],
  ];
  const found = all.filter(([many]) => many > 0).map(([many, what, kind]) => [kind ?? "warn", `${count(many)} ${what}`]);
  if (snapshot.saturated) found.push(["warn", "A sum was too large for its number, and stands at the largest."]);
  return found;
}

/** Both sums hold, but for operations in progress. */
function closes(ledger) {
  const begun = ledger.landed + ledger.failed + ledger.cancelled + ledger.reclaimed + ledger.in_flight;
  const off = Math.abs(ledger.attempts - ledger.begun - ledger.dropped - ledger.refused) + Math.abs(ledger.begun - begun);
  return off === 0 ? "yes" : `off by ${count(off)}`;
}

function drawSound(snapshot, history) {
  const found = troubles(snapshot, history);
  const lost = losses(snapshot);
  const isLossless = lost.every(([kind]) => kind === "plain");
  const good = isLossless && snapshot.recorders.length > 0 ? [["good", "Nothing was lost."]] : [];
  each(byId("verdict"), [...found, ...good, ...lost], () => el("li"), (li, [kind, sentence]) => {
    if (li.className !== kind) li.className = kind;
    text(li, sentence);
  });
  const { config, floor } = snapshot;
  facts(byId("sound-facts"), [
    ["Level", config?.level ?? "differs"],
    ["Sampling", config ? `1 in ${count(config.every)}` : "differs", SAMPLINGS[config?.sampling] ?? config?.sampling],
    ["Steps", count(snapshot.steps), `${count(snapshot.armed_steps)} armed`],
    ["Floor: an empty span reads", time(floor.pair_ns)],
    ["A span costs the host", time(known(floor.begin_ns) && known(floor.end_ns) ? floor.begin_ns + floor.end_ns : null), `and ${time(floor.harvest_ns)} to harvest`],
    ["Oldest span on the GPU", age(oldest(snapshot, false))],
    ["Oldest open span", age(oldest(snapshot, true))],
  ]);
  const ledgers = snapshot.recorders.flatMap((recorder) => [[recorder, "lanes", recorder.lane_ledger], [recorder, "kernels", recorder.kernel_ledger]]);
  fill(byId("ledger-table").tBodies[0], ledgers.map(([recorder, ring, ledger]) => [
    { text: recorder.label, title: recorderName(recorder), tag: known(recorder.health.quarantined) ? "quarantined" : "" }, { text: ring, kind: "left" },
    ...["attempts", "begun", "landed", "dropped", "refused", "failed", "cancelled", "reclaimed", "in_flight"].map((field) => count(ledger[field])), closes(ledger),
  ]));
  const spans = snapshot.recorders.flatMap((recorder) => recorder.oldest.filter((span) => known(span.age_ns)).map((span) => [recorder, span]));
  fill(byId("oldest-table").tBodies[0], spans.map(([recorder, span]) => [
    recorder.label, { text: span.name ?? "(no name)", kind: "left name" }, handle(span.stream), span.is_open ? "open" : "on the GPU", age(span.age_ns),
  ]));
  return found;
}

function oldest(snapshot, isOpen) {
  const ages = snapshot.recorders.flatMap((recorder) => recorder.oldest).filter((span) => span.is_open === isOpen && known(span.age_ns)).map((span) => span.age_ns);
  return ages.length > 0 ? Math.max(...ages) : null;
}
