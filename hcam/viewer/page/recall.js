// What a layer recalls at a step, as the frames of the past themselves.

const LEAST = 0.01; // of the weight: a chunk with less has a line of text only
const ATTENDED = 18; // steps shown of a memory of single steps

// Shows what is recalled; `on.peek(step or null)` and `on.jump(step)` are called where a frame is pointed at or chosen.
// Returns the pictures that re-live a chunk: [{canvas, chunk, side, strip}].
function showRecall(rows, episode, step, layer, on) {
  rows.replaceChildren();
  if (!episode.recall || step >= episode.length) return [];
  if (episode.recall.kind === "window") {
    rows.append(attendedSteps(episode, step, layer, on));
    return [];
  }
  const chunks = episode.recall.at(step, layer);
  const most = Math.max(1e-9, ...chunks.flatMap((chunk) => chunk.within));
  const shown = chunks.filter((chunk, k) => k === 0 || chunk.weight >= LEAST);
  const reliving = shown.map((chunk, k) => chunkRow(rows, episode, chunk, k ? 0 : shown.length, most, on));
  const rest = chunks.slice(shown.length);
  if (rest.length) rows.append(restOf(episode, rest, on));
  return reliving;
}

const spanOf = (chunk) => `steps ${chunk.begin}–${chunk.end - 1}`;

const strongest = (chunk) => chunk.begin + chunk.within.indexOf(Math.max(...chunk.within));

// A chunk: a picture that re-lives it, its weight, and its frames with the attention that each gets. `first` is 0, or
// for the first chunk how many there are.
function chunkRow(rows, episode, chunk, first, most, on) {
  const event = eventIn(episode, chunk.begin, chunk.end);
  const loop = make("canvas", {className: "loop"});
  const strip = make("canvas", {className: "strip"});
  const jump = make("button", {className: "jump"}, make("b", {}, percent(chunk.weight)), make("span", {}, spanOf(chunk)));
  if (event) jump.append(make("span", {className: event.matters ? "name matters" : "name"}, named(event)));
  jump.title = "Go to the frame of this chunk that is attended to most";
  jump.setAttribute("aria-label", `${percent(chunk.weight)} of the recall: ${spanOf(chunk)}${event ? `, ${named(event)}` : ""}. Go there`);
  const weight = make("i", {className: "weight"}, make("i"));
  weight.firstChild.style.width = `${100 * chunk.weight}%`;
  jump.append(weight);
  jump.addEventListener("click", () => on.jump(strongest(chunk)));
  const row = make("div", {className: ["row", first && "first", first > 2 && "many"].filter(Boolean).join(" ")}, loop, jump, strip);
  row.dataset.chunk = chunk.number;
  rows.append(row);
  const grid = stripGrid(episode, chunk, strip.parentElement, first);
  drawChunk(strip, episode, chunk, grid, most);
  pointable(strip, (event) => {
    const box = strip.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / grid.width);
    const line = Math.floor((event.clientY - box.top) / (grid.height + grid.bar + 4));
    const c = line * grid.columns + column;
    return column < grid.columns && c >= 0 && c < chunk.within.length ? chunk.begin + c : null;
  }, on);
  const side = first ? grid.loop : 44;
  return {canvas: loop, chunk, side, strip, grid, most};
}

// How the frames of a chunk fill the width that there is: in as few lines as leave them large enough to see.
function stripGrid(episode, chunk, row, first) {
  const narrow = row.clientWidth < 520;
  const loop = narrow || first > 2 ? 96 : 168;
  const room = narrow ? row.clientWidth : row.clientWidth - (first && first <= 2 ? 184 : 230) - 4;
  const [wide, high] = fitted(episode, 100);
  const few = {1: 52, 2: 40}[first] ?? 36;
  const [least, largest] = first ? [narrow ? 30 : few, 110] : [18, 32];
  const count = chunk.within.length;
  let columns = count;
  for (let lines = 1; lines <= count && room / columns < least; lines++) columns = Math.ceil(count / lines);
  const width = Math.max(4, Math.min(largest, Math.floor(room / columns)));
  return {columns, width, height: Math.round((width * high) / wide), bar: first ? 18 : 9, loop, lines: Math.ceil(count / columns)};
}

// The frames of a chunk. The more a frame is attended to, the less it is faded and the higher is the bar above it.
function drawChunk(strip, episode, chunk, grid, most, alive = -1) {
  const {columns, width, height, bar, lines} = grid;
  const context = sized(strip, columns * width, lines * (height + bar + 4));
  const [accent, rule, ink] = [colour("recall"), colour("rule"), colour("ink")];
  chunk.within.forEach((weight, c) => {
    const [x, top] = [(c % columns) * width, Math.floor(c / columns) * (height + bar + 4)];
    const tall = Math.max(weight > 0 ? 1 : 0, bar * (weight / most));
    context.globalAlpha = 1;
    context.fillStyle = rule;
    context.fillRect(x, top + bar, width - 1, 1);
    context.fillStyle = accent;
    context.fillRect(x, top + bar - tall + 1, width - 1, tall);
    context.globalAlpha = 0.28 + 0.72 * Math.sqrt(weight / most);
    drawFrame(context, episode, Math.min(chunk.begin + c, episode.length), x, top + bar + 2, width - 1, height - 1);
    if (c !== alive) return;
    context.globalAlpha = 1;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x + 1, top + bar + 3, width - 3, height - 3);
  });
  context.globalAlpha = 1;
}

// One frame of a chunk in its large picture.
function relive(one, episode, c) {
  const [width, height] = fitted(episode, one.side);
  drawFrame(sized(one.canvas, width, height), episode, Math.min(one.chunk.begin + c, episode.length), 0, 0, width, height);
  one.canvas.setAttribute("role", "img");
  one.canvas.setAttribute("aria-label", `the recalled ${spanOf(one.chunk)}, again`);
}

function restOf(episode, chunks, on) {
  const line = make("p", {className: "rest"}, `${chunks.length} more with less than 1 % each: `);
  chunks.forEach((chunk, place) => {
    const event = eventIn(episode, chunk.begin, chunk.end);
    const button = make("button", {}, `${chunk.begin}–${chunk.end - 1}${event ? ` ${named(event)}` : ""}`);
    button.addEventListener("click", () => on.jump(strongest(chunk)));
    line.append(place ? ", " : "", button);
  });
  return line;
}

// The steps that a memory of single steps attends to most, in the order of the episode.
function attendedSteps(episode, step, layer, on) {
  const list = make("div", {className: "attended"});
  const found = mostAttended(episode, step, layer, ATTENDED);
  const most = Math.max(1e-9, ...found.map(([, weight]) => weight));
  const [width, height] = fitted(episode, 76);
  for (const [at, weight] of found.sort((one, two) => one[0] - two[0])) {
    const event = eventIn(episode, at, at + 1);
    const canvas = make("canvas");
    const context = sized(canvas, width, height + 20);
    context.fillStyle = colour("recall");
    context.fillRect(0, 18 - 18 * (weight / most), width, Math.max(1, 18 * (weight / most)));
    context.globalAlpha = 0.35 + 0.65 * (weight / most);
    drawFrame(context, episode, at, 0, 20, width, height);
    const when = at === step ? "now" : `step ${at}`;
    const button = make("button", {className: "jump"}, canvas, make("b", {}, percent(weight)), make("span", {}, when));
    if (event) button.append(make("span", {className: event.matters ? "name matters" : "name"}, named(event)));
    button.dataset.step = at;
    button.addEventListener("click", () => on.jump(at));
    pointable(button, () => at, {...on, jump() {}});
    list.append(button);
  }
  return list;
}

// Peeks at the step under the pointer, and jumps to it on a click.
function pointable(element, stepAt, on) {
  element.addEventListener("pointermove", (event) => event.pointerType === "mouse" && on.peek(stepAt(event)));
  element.addEventListener("pointerleave", () => on.peek(null));
  element.addEventListener("click", (event) => {
    const step = stepAt(event);
    if (step !== null) on.jump(step);
  });
}

// What is recalled, in a sentence or two.
function inWords(episode, step, layer, memory) {
  const {recall, events, question} = episode;
  if (step >= episode.length) return `The episode is over: ${episode.outcome}.`;
  if (!recall) return `This memory (${memory}) does not report which moments it uses: the page plays the episode.`;
  const name = `Layer ${layer + 1}`;
  const matters = events.find((event) => event.matters);
  let whole = "";
  if (matters && recall.attended(step, layer).some(([, weight]) => weight > 0)) {
    const when = question !== null && step < question ? "will be asked for" : "is asked for";
    const seen = percent(share(episode, step, layer));
    if (matters.begin <= step) whole = ` In all, ${seen} of its attention is on ★ ${matters.name}, which ${when}.`;
  }
  if (recall.kind === "window") {
    const [[at, weight]] = mostAttended(episode, step, layer, 1);
    const when = at === step ? "this very step" : `step ${at}`;
    return `${name} sees the last ${Math.min(recall.window, step + 1)} steps, and most of all ${when} (${percent(weight)}).${whole}`;
  }
  const chunks = recall.at(step, layer);
  if (!chunks.length) return `Nothing to recall yet: the first chunk is complete after ${recall.length} steps.`;
  const best = chunks[0];
  const event = eventIn(episode, best.begin, best.end);
  const there = Array.from({length: recall.chunks}, (_, n) => n).filter((n) => recall.complete(step, n)).length;
  const part = event ? `: ${named(event)}` : "";
  return `${name} recalls ${chunks.length} of ${there} chunk${there > 1 ? "s" : ""}, and most of all (${percent(best.weight)}) ${spanOf(best)}${part}.${whole}`;
}
