// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks once a second, and draws. A server that goes away leaves its last figures,
// marked as such, until it comes back.

const EVERY_MS = 1000;
const PATIENCE_MS = 5000;
/** A timeline stays for so long, so that it can be read. */
const TIMELINE_MS = 5000;
/** Where the router is mounted, with a slash at its end. */
const BASE = location.pathname.replace(/\/?$/, "/");

const history = new History();
let latest = null;
let sources = [];
let timelines = { at: -Infinity, step: null, sources: [] };
let answeredAt = null;
let askedInVain = null;

async function ask(path) {
  const answer = await fetch(BASE + path, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
  return answer;
}
const askJson = async (path) => (await ask(path)).json();

/** Takes in what the server said; drawing is once a frame at most. */
function take(snapshot, clock_ns, steps, at) {
  history.add(snapshot, at, clock_ns);
  latest = snapshot;
  sources = steps;
  answeredAt = at;
  askedInVain = null;
  schedule();
}

async function poll() {
  const began = performance.now();
  try {
    const [answer, steps] = await Promise.all([ask("snapshot.json"), askJson("steps.json")]);
    take(await answer.json(), Number(answer.headers.get("metrale-clock-ns")), steps, performance.now());
    const { timeline } = chosenSource();
    if (known(timeline) && timeline !== timelines.step && began - timelines.at > TIMELINE_MS && !timelineChart.held) {
      timelines = { at: began, step: timeline, sources: await askJson("timeline.json") };
      schedule();
    }
  } catch (error) {
    askedInVain = error.name === "TimeoutError" ? "it does not answer in time" : error.message.startsWith("the server") ? error.message : "it cannot be reached";
    schedule();
  }
  const wait = document.hidden ? 10 * EVERY_MS : EVERY_MS;
  setTimeout(poll, Math.max(0, wait - (performance.now() - began)));
}

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

const chosenSource = () => sources[byId("gpu-choice").selectedIndex] ?? sources[0] ?? { gpu: null, lanes: [], steps: [], timeline: null };

/** Figures of the last minute, or since the start. */
function figures() {
  const isMinute = document.querySelector("input[name=span]:checked").value === "minute";
  const minute = isMinute ? history.minute() : null;
  return minute ?? { ...latest, ...latest.host, seconds: null };
}

function drawState() {
  const isStale = askedInVain !== null;
  document.body.dataset.state = isStale ? "stale" : answeredAt === null ? "" : "live";
  const since = answeredAt === null ? "" : ` Figures are of ${clock(answeredAt)}.`;
  text(byId("state-text"), isStale ? `Stale: ${askedInVain}.${since}` : "Live");
  const alarms = latest ? troubles(latest, history) : [];
  if (isStale) alarms.unshift(["bad", `Stale: the server was asked and ${askedInVain}.${since} The page goes on asking.`]);
  each(byId("alarms"), alarms, () => el("li"), (li, [kind, sentence]) => {
    if (li.className !== kind) li.className = kind;
    text(li, sentence);
  });
}

function draw() {
  drawState();
  if (!latest) return;
  const gpus = sources.map((of) => of.gpu ?? "(no recorder yet)");
  text(byId("source"), gpus.length > 1 ? `${gpus.length} GPUs` : gpus[0] ?? "");
  byId("gpus").hidden = sources.length < 2;
  each(byId("gpu-choice"), gpus, () => el("option"), text);
  const shown = figures();
  drawGpu(history, shown, latest);
  drawLanes(shown);
  drawShapes(latest);
  drawRows(latest);
  drawSteps(chosenSource());
  drawSlow(latest);
  const timeline = timelines.sources[sources.indexOf(chosenSource())];
  if (timeline) drawTimeline(timeline, latest);
  drawSound(latest, history);
}

for (const link of document.querySelectorAll("a[data-path]")) link.href = BASE + link.dataset.path;
for (const input of document.querySelectorAll("input[name=span], #gpu-choice")) input.addEventListener("change", schedule);
document.addEventListener("visibilitychange", () => !document.hidden && schedule());
poll();
