// The page: which step of which episode is shown, and everything that changes it.

const $ = (id) => document.getElementById(id);
const store = JSON.parse($("data").textContent);
const SPEEDS = [1, 2, 4, 8, 16, 32, 64]; // steps a second
const SLOW = 2; // as fast at most after a question, for as many steps as follow
const SLOW_STEPS = 6;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

const state = {episode: null, number: -1, step: 0, layer: 0, playing: false, speed: 8, history: [], line: null};
state.reliving = [];

async function choose(number) {
  pause();
  const episode = await openEpisode(store.episodes[number]);
  Object.assign(state, {episode, number, step: episode.opening, layer: episode.layer, history: []});
  setSpeed(episode.length > 200 ? 16 : 8);
  loadSheets(episode, () => episode === state.episode && refresh());
  await sheetOf(episode, episode.opening).decode();
  showTitle();
  buildLayers();
  buildPolicy();
  refresh();
  document.documentElement.dataset.ready = number;
  performance.mark("ready");
}

// Everything anew, as after another size of the window.
function refresh() {
  state.line = buildTimeline($("timeline"), state.episode, state.layer);
  show();
}

function show() {
  const {episode, step, layer, line} = state;
  showFrame(step);
  showFacts();
  showTimeline(line, step, layer);
  $("sentence").textContent = inWords(episode, step, layer, store.memory);
  state.reliving = showRecall($("rows"), episode, step, layer, {peek, jump});
  drawReliving(performance.now());
  $("back").disabled = !state.history.length;
  $("back").textContent = state.history.length ? `Back to step ${state.history.at(-1).step}` : "Back";
  const slider = $("timeline");
  slider.setAttribute("aria-valuemax", episode.length);
  slider.setAttribute("aria-valuenow", step);
  slider.setAttribute("aria-valuetext", `step ${step} of ${episode.length}`);
}

// This step ------------------------------------------------------------------------------------------------------------

function showFrame(moment) {
  const {episode} = state;
  const canvas = $("frame");
  const room = $("screen").clientWidth;
  const most = episode.recall ? 250 : 350;
  const [width, height] = fitted(episode, Math.min(room, most));
  drawFrame(sized(canvas, width, height), episode, moment, 0, 0, width, height);
  const text = episode.texts[episode.text[moment]];
  $("instruction").textContent = text;
  $("instruction").hidden = episode.texts.every((one) => !one);
  canvas.setAttribute("aria-label", `What the agent sees at step ${moment}${text ? `: ${text}` : ""}`);
}

function peek(step) {
  $("peek").hidden = step === null || step === state.step;
  state.line.peek.setAttribute("visibility", step === null ? "hidden" : "visible");
  if (step !== null) {
    const event = eventIn(state.episode, step, step + 1);
    $("peek").textContent = `step ${step}${event ? `: ${named(event)}` : ""}`;
    const at = state.line.x(step);
    state.line.peek.setAttribute("x1", at);
    state.line.peek.setAttribute("x2", at);
  }
  showFrame(step ?? state.step);
}

function showFacts() {
  const {episode, step} = state;
  const over = step >= episode.length;
  $("step").textContent = `${step} of ${episode.length}`;
  $("action").textContent = over ? "–" : episode.actions[episode.action[step]];
  $("value").textContent = over ? "–" : (episode.value[step]?.toFixed(2).replace(/^-(0\.00)$/, "$1") ?? "not a number");
  $("reward").textContent = `${Math.round(100 * episode.total[step]) / 100}`;
  const count = episode.actions.length;
  $("policy").childNodes.forEach((bar, action) => {
    const weight = over ? 0 : weightOf(episode.policy[step * count + action]);
    bar.firstChild.style.width = `${100 * weight}%`;
    bar.classList.toggle("taken", !over && episode.action[step] === action);
    bar.lastChild.textContent = over ? "" : percent(weight);
  });
}

function buildPolicy() {
  const bar = (name) => make("li", {}, make("i"), make("span", {}, name), make("em"));
  $("policy").replaceChildren(...state.episode.actions.map(bar));
}

function showTitle() {
  const {episode} = state;
  const trained = `${store.steps.toLocaleString("en-US")} steps of training`;
  $("kicker").textContent = `${store.run} · memory ${store.memory} · ${trained}`;
  $("title").textContent = episode.level ? `${store.task}: ${episode.level}` : store.task;
  $("outcome").textContent = verdict(episode);
  $("outcome").className = episode.success ? "good" : "bad";
  $("standfirst").textContent = {
    chunks: "Orange marks the moments of its past that the agent recalls at this step.",
    window: "Orange marks the steps of its past that the agent attends to at this step.",
    none: "The episode as the agent lived it.",
  }[episode.recall?.kind ?? "none"];
  $("ask").hidden = episode.question === null;
  const kind = episode.recall?.kind ?? "none";
  document.body.dataset.kind = kind;
  $("recalling").textContent = {chunks: "What it recalls now", window: "What it attends to now", none: "No recall to show"}[kind];
  $("explanation").replaceChildren(...explanation(kind).map((line) => make("li", {}, line)));
}

function verdict(episode) {
  const reward = `reward ${Math.round(100 * episode.total[episode.length]) / 100}`;
  if (episode.scored === "return") return reward;
  return episode.success ? `✓ solved, ${reward}` : `✗ not solved, ${episode.outcome}`;
}

function explanation(kind) {
  const time = "The timeline is the whole episode, from left to right; ★ marks the moment that matters. Drag it, or use the arrow keys.";
  const curve = "The line at the bottom is the return that the agent expects (its value); triangles are rewards.";
  if (kind === "chunks") {
    const {length, window: seen} = state.episode.recall;
    return [
      `The memory cuts the past into chunks of ${length} steps. At every step, each layer recalls the few that seem relevant, and attends to the steps inside them.`,
      "Arcs lead from now to the recalled chunks: the thicker, the more weight. Below, the chunks are played again, and the bar above a frame is the attention that it gets (the mean over heads).",
      "Each layer has a strip: the darker a chunk, the more relevant (the shade is the root of its weight before the choice); the line under a cell marks those that are recalled.",
      `${time} Point at a recalled frame to see it large, click to go there, and press “Back” to return.`,
      curve + (seen ? ` The last ${seen} steps are always in sight, without any recall.` : ""),
    ];
  }
  if (kind === "window") {
    return [
      `The memory attends to single steps of the last ${state.episode.recall.window}. Each layer has a strip: the higher, the more attention (the mean over heads, highest bar full).`,
      `${time} Click on a frame that is attended to, to go there.`,
      curve,
    ];
  }
  return [time, curve];
}

// Layers ---------------------------------------------------------------------------------------------------------------

function buildLayers() {
  const {episode} = state;
  const count = episode.recall?.layers ?? 0;
  const one = (layer) => {
    const button = make("button", {textContent: `Layer ${layer + 1}`});
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => setLayer(layer));
    return button;
  };
  $("layers").replaceChildren(...Array.from({length: count}, (_, layer) => one(layer)));
  markLayer();
}

function markLayer() {
  $("layers").childNodes.forEach((button, layer) => {
    button.setAttribute("aria-checked", layer === state.layer);
    button.tabIndex = layer === state.layer ? 0 : -1;
  });
}

function setLayer(layer) {
  const count = state.episode.recall?.layers ?? 0;
  if (layer < 0 || layer >= count) return;
  state.layer = layer;
  markLayer();
  if ($("layers").contains(document.activeElement)) $("layers").children[layer].focus();
  refresh();
}

// Time -----------------------------------------------------------------------------------------------------------------

function goTo(step) {
  state.step = Math.max(0, Math.min(state.episode.length, step));
  $("peek").hidden = true;
  show();
}

// As goTo, and `back` returns from there.
function jump(step) {
  pause();
  if (step !== state.step) state.history.push({step: state.step, layer: state.layer});
  goTo(step);
}

function back() {
  const before = state.history.pop();
  if (!before) return;
  pause();
  if (before.layer !== state.layer) setLayer(before.layer);
  goTo(before.step);
}

function play() {
  if (state.step >= state.episode.length) goTo(0);
  Object.assign(state, {playing: true, since: performance.now(), due: 0});
  markPlaying();
}

function pause() {
  state.playing = false;
  markPlaying();
}

function markPlaying() {
  document.body.classList.toggle("playing", state.playing);
  $("playing").textContent = state.playing ? "Pause" : "Play";
  $("sentence").setAttribute("aria-live", state.playing ? "off" : "polite");
}

function pace() {
  const {question} = state.episode;
  const asked = question !== null && state.step >= question && state.step < question + SLOW_STEPS;
  return asked ? Math.min(SLOW, state.speed) : state.speed;
}

function setSpeed(speed) {
  state.speed = speed;
  $("speed").value = speed;
}

function changeSpeed(by) {
  const place = SPEEDS.indexOf(state.speed) + by;
  if (SPEEDS[place]) setSpeed(SPEEDS[place]);
}

function tick(now) {
  if (state.playing) {
    state.due += ((now - state.since) / 1000) * pace();
    state.since = now;
    const steps = Math.floor(state.due);
    if (steps) {
      state.due -= steps;
      goTo(state.step + Math.min(steps, SPEEDS.at(-1)));
      if (state.step >= state.episode.length) pause();
    }
  }
  drawReliving(now);
  requestAnimationFrame(tick);
}

// The recalled chunks pass again, eight frames a second, unless the episode itself moves fast or nothing should move.
function drawReliving(now) {
  const moves = !calm.matches && (!state.playing || pace() <= 4);
  for (const one of state.reliving) {
    const {within} = one.chunk;
    const c = moves ? Math.floor(now / 125) % within.length : within.indexOf(Math.max(...within));
    if (one.shown === c) continue;
    one.shown = c;
    relive(one, state.episode, c);
    drawChunk(one.strip, state.episode, one.chunk, one.grid, one.most, c);
  }
}

// Keyboard, buttons, pointer -------------------------------------------------------------------------------------------

const KEYS = {
  " ": () => (state.playing ? pause() : play()),
  ArrowLeft: (event) => (pause(), goTo(state.step - (event.shiftKey ? 10 : 1))),
  ArrowRight: (event) => (pause(), goTo(state.step + (event.shiftKey ? 10 : 1))),
  Home: () => (pause(), goTo(0)),
  End: () => (pause(), goTo(state.episode.length)),
  ArrowUp: () => setLayer(state.layer - 1),
  ArrowDown: () => setLayer(state.layer + 1),
  "+": () => changeSpeed(1),
  "=": () => changeSpeed(1),
  "-": () => changeSpeed(-1),
  c: () => state.episode.question !== null && jump(state.episode.question),
  b: back,
  Backspace: back,
  "[": () => pick(state.number - 1),
  "]": () => pick(state.number + 1),
  "?": () => $("help").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open || !state.episode) return;
  const {tagName} = event.target;
  if (tagName === "SELECT" || tagName === "SUMMARY" || (tagName === "BUTTON" && event.key === " ")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

function pick(number) {
  if (!store.episodes[number]) return;
  $("episodes").value = number;
  choose(number);
}

function onPointer(line) {
  line.addEventListener("pointerdown", (event) => {
    const {step, layer} = under(state.line, event);
    line.setPointerCapture(event.pointerId);
    state.dragging = true;
    if (layer !== null && layer !== state.layer) setLayer(layer);
    jump(step);
  });
  line.addEventListener("pointermove", (event) => {
    const {step, layer} = under(state.line, event);
    if (state.dragging) return goTo(step);
    if (event.pointerType === "mouse") peek(step);
    readout(step, layer);
  });
  const release = () => (state.dragging = false);
  line.addEventListener("pointerup", release);
  line.addEventListener("pointercancel", release);
  line.addEventListener("pointerleave", () => {
    if (!state.dragging) peek(null);
    $("readout").textContent = "";
  });
}

// What is under the pointer, in numbers.
function readout(step, layer) {
  const {recall, length} = state.episode;
  let text = `step ${step}`;
  if (layer !== null && state.step < length && recall.kind === "chunks") {
    const n = Math.min(Math.floor(step / recall.stride), recall.chunks - 1);
    const known = n >= 0 && recall.complete(state.step, n);
    text = known
      ? `layer ${layer + 1}, chunk ${n} (steps ${n * recall.stride}–${n * recall.stride + recall.length - 1}): relevance ${percent(recall.relevance(state.step, layer, n))}`
      : `layer ${layer + 1}: no complete chunk there yet`;
  }
  $("readout").textContent = text;
}

function begin() {
  const press = {first: "Home", previous: "ArrowLeft", play: " ", next: "ArrowRight", last: "End", ask: "c", back: "b", keys: "?"};
  for (const [id, key] of Object.entries(press)) $(id).addEventListener("click", (event) => KEYS[key](event));
  $("restart").addEventListener("click", () => (goTo(0), play()));
  $("speed").append(...SPEEDS.map((speed) => make("option", {value: speed}, `${speed} steps/s`)));
  $("speed").addEventListener("change", () => setSpeed(Number($("speed").value)));
  $("episodes").append(
    ...store.episodes.map((one, number) => {
      const mark = one.scored === "return" ? "" : one.success ? "✓" : "✗";
      return make("option", {value: number}, `${number + 1} of ${store.episodes.length} ${mark} ${one.level}`);
    }),
  );
  $("episodes").addEventListener("change", () => choose(Number($("episodes").value)));
  $("chooser").hidden = store.episodes.length < 2;
  document.addEventListener("keydown", onKey);
  onPointer($("timeline"));
  let width = 0;
  new ResizeObserver(() => {
    if (state.episode && width !== $("timeline").clientWidth) refresh();
    width = $("timeline").clientWidth;
  }).observe($("timeline"));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.episode && refresh());
  requestAnimationFrame(tick);
  choose(0);
}

begin();
