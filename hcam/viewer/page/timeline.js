// The whole episode over time: arcs to what is recalled, frames, events, a strip for each memory layer, value and reward.

const SVG = "http://www.w3.org/2000/svg";
const ARCS = 46; // pixels of each row
const FILM = 34;
const EVENTS = 26;
const STRIP = 15;
const CURVE = 34;
const GAP = 7;

function draw(tag, attributes, parent, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// Builds the timeline of an episode for a width; `show` then brings it to a step.
function buildTimeline(holder, episode, layer) {
  holder.replaceChildren();
  const width = Math.max(200, holder.clientWidth); // 0 where the page is not on show
  const wide = width >= 640;
  const left = wide ? 68 : 16;
  const room = width - left - 8;
  const layers = episode.recall?.layers ?? 0;
  const x = (step) => left + (room * step) / Math.max(1, episode.length);
  const arcs = layers ? ARCS : 14;
  const y = {film: arcs, events: arcs + FILM};
  y.strips = y.events + (episode.events.length ? EVENTS : GAP);
  y.curve = y.strips + layers * (STRIP + 3) + (layers ? GAP : 0);
  const height = y.curve + CURVE + 4;

  const film = make("canvas", {className: "film"});
  holder.append(film);
  const root = draw("svg", {width, height, "aria-hidden": "true"}, holder);
  const line = {holder, episode, root, film, x, y, left, room, wide, width, height, layers, cells: [], strips: []};
  film.style.left = `${left}px`;
  film.style.top = `${y.film}px`;
  drawFilm(line);
  if (wide) label(line, y.film + FILM / 2 + 4, "episode");
  drawEvents(line);
  for (let l = 0; l < layers; l++) drawStrip(line, l, l === layer);
  drawCurve(line);
  if (episode.question !== null) {
    const at = x(episode.question);
    draw("line", {x1: at, x2: at, y1: 12, y2: height, class: "question"}, root);
    const end = at > width - 60 ? "end" : "start";
    draw("text", {x: at + (end === "end" ? -4 : 4), y: 11, "text-anchor": end, class: "asked"}, root, "question");
  }
  line.arcs = draw("g", {class: "arcs"}, root);
  line.peek = draw("line", {y1: y.film, y2: height, class: "peek", visibility: "hidden"}, root);
  line.cursor = draw("g", {class: "cursor"}, root);
  draw("line", {y1: y.film - 4, y2: height}, line.cursor);
  draw("path", {d: `M-5 ${y.film - 8}h10l-5 7z`}, line.cursor);
  return line;
}

function label(line, y, text, bold = false) {
  return draw("text", {x: line.left - 8, y, "text-anchor": "end", class: bold ? "label chosen" : "label"}, line.root, text);
}

// Frames side by side, each of the step under its middle.
function drawFilm(line) {
  const {episode, film, room} = line;
  const context = sized(film, room, FILM);
  const [, high] = fitted(episode, 100);
  const wide = Math.max(8, Math.round((FILM * fitted(episode, 100)[0]) / high));
  const count = Math.max(1, Math.min(Math.floor(room / wide), episode.length + 1)); // no frame twice
  const each = room / count;
  for (let i = 0; i < count; i++) {
    const moment = Math.min(episode.length, Math.round(((i + 0.5) / count) * episode.length));
    drawFrame(context, episode, moment, i * each, 0, Math.min(each, wide * 1.15) - 1, FILM);
  }
}

function drawEvents(line) {
  const {episode, x, y, root, width} = line;
  let free = -Infinity; // where the last label ends
  const room = (event, index) => (index + 1 < episode.events.length ? x(episode.events[index + 1].begin) : width);
  const needed = (event) => 7 * named(event).length + 8;
  const star = episode.events.find((event) => event.matters);
  episode.events.forEach((event, index) => {
    const kind = event.matters ? "event matters" : "event";
    const [from, to] = [x(event.begin), Math.max(x(event.end), x(event.begin) + 2)];
    const mark = draw("rect", {x: from, y: y.events + 3, width: to - from, height: 4, class: kind}, root);
    draw("title", {}, mark, named(event));
    const fits = from + needed(event) <= room(event, index) && from >= free;
    const hides = star && !event.matters && from + needed(event) > x(star.begin) && from < x(star.begin) + needed(star);
    if (!event.matters && (!fits || hides)) return;
    const anchor = from + needed(event) > width ? "end" : "start";
    draw("text", {x: anchor === "end" ? Math.min(to, width) : from, y: y.events + 20, "text-anchor": anchor, class: kind}, root, named(event));
    free = from + needed(event);
  });
  if (line.wide && episode.events.length) label(line, y.events + 20, "events");
}

// A memory of chunks has a cell for each, a memory of steps a line.
function drawStrip(line, layer, chosen) {
  const {episode, root, x, y, wide} = line;
  const top = y.strips + layer * (STRIP + 3);
  label(line, top + STRIP - 3, wide ? `layer ${layer + 1}` : `${layer + 1}`, chosen);
  const ground = {x: x(0), y: top, width: x(episode.length) - x(0), height: STRIP};
  draw("rect", {...ground, class: chosen ? "ground chosen" : "ground"}, root);
  if (episode.recall.kind === "window") {
    line.strips.push(draw("path", {class: "heat"}, root));
    return;
  }
  const {chunks, stride, length} = episode.recall;
  const cells = [];
  for (let n = 0; n < chunks; n++) {
    const end = n === chunks - 1 ? n * stride + length : (n + 1) * stride; // what chunks share is drawn once
    const place = {x: x(n * stride) + 0.5, width: Math.max(1, x(end) - x(n * stride) - 1)};
    const cell = draw("rect", {...place, y: top, height: STRIP, class: "cell"}, root);
    cells.push({cell, top: draw("rect", {...place, y: top + STRIP - 3, height: 3, class: "top"}, root)});
  }
  line.cells.push(cells);
}

function drawCurve(line) {
  const {episode, root, x, y, wide} = line;
  const known = episode.value.filter((value) => value !== null);
  const low = Math.min(0, ...known);
  const high = Math.max(low + 1e-6, ...known);
  const up = (value) => y.curve + CURVE - ((value - low) / (high - low)) * CURVE;
  draw("line", {x1: x(0), x2: x(episode.length), y1: up(0), y2: up(0), class: "zero"}, root);
  let path = "";
  episode.value.forEach((value, step) => {
    if (value !== null) path += `${path ? "L" : "M"}${x(step).toFixed(1)} ${up(value).toFixed(1)}`;
  });
  draw("path", {d: path, class: "value"}, root);
  episode.reward.forEach((reward, step) => {
    if (!reward) return;
    const at = `${x(step + 1).toFixed(1)} ${y.curve + CURVE - 5}`;
    const mark = draw("path", {d: reward > 0 ? `M${at}m-4 4l4 -8l4 8z` : `M${at}m-4 -4l4 8l4 -8z`, class: "reward"}, root);
    draw("title", {}, mark, `reward ${reward}`);
  });
  if (wide) label(line, y.curve + 10, "value");
  if (wide) label(line, y.curve + CURVE, "reward ▲").classList.add("reward");
}

// Brings the timeline to a step.
function showTimeline(line, step, layer) {
  const {episode, x, y} = line;
  line.cursor.setAttribute("transform", `translate(${x(step)} 0)`);
  line.arcs.replaceChildren();
  if (!episode.recall || step >= episode.length) {
    for (const {cell, top} of line.cells.flat()) for (const one of [cell, top]) one.setAttribute("visibility", "hidden");
    for (const strip of line.strips) strip.setAttribute("d", "");
    return;
  }
  if (episode.recall.kind === "chunks") showCells(line, step);
  else showLines(line, step);
  for (const [at, weight] of targets(episode, step, layer)) {
    const [from, to] = [x(step), x(at)];
    const base = y.film - 4;
    const top = base - 1.3 * (base - 6) * Math.sqrt(Math.min(1, Math.abs(from - to) / line.room));
    const path = `M${from} ${base}C${from} ${top} ${to} ${top} ${to} ${base}`;
    draw("path", {d: path, "stroke-width": Math.max(0.6, 7 * weight), class: "arc"}, line.arcs);
    draw("path", {d: `M${to} ${y.film - 1}m-4 -5h8l-4 6z`, class: "tip", opacity: weight > 0.02 ? 1 : 0.4}, line.arcs);
  }
}

function showCells(line, step) {
  const {recall} = line.episode;
  line.cells.forEach((cells, layer) => {
    const recalled = new Set(recall.at(step, layer).map((one) => one.number));
    cells.forEach(({cell, top}, n) => {
      cell.setAttribute("visibility", recall.complete(step, n) ? "visible" : "hidden");
      cell.setAttribute("fill-opacity", (0.06 + 0.94 * Math.sqrt(recall.relevance(step, layer, n))).toFixed(3));
      top.setAttribute("visibility", recalled.has(n) ? "visible" : "hidden");
    });
  });
}

function showLines(line, step) {
  const {x, y, episode} = line;
  line.strips.forEach((strip, layer) => {
    const attended = episode.recall.attended(step, layer);
    const most = Math.max(1e-9, ...attended.map(([, weight]) => weight));
    const base = y.strips + layer * (STRIP + 3) + STRIP;
    const bars = attended.map(([at, weight]) => {
      const width = x(1) - x(0);
      return `M${x(at).toFixed(1)} ${base}v${(-STRIP * (weight / most)).toFixed(1)}h${width.toFixed(2)}V${base}z`;
    });
    strip.setAttribute("d", bars.join(""));
  });
}

// What arcs lead to, as [step, weight]: the chunks that are recalled, or the steps that are attended to most.
function targets(episode, step, layer) {
  if (episode.recall.kind === "chunks") {
    return episode.recall.at(step, layer).map((one) => [(one.begin + one.end) / 2, one.weight]);
  }
  const found = mostAttended(episode, step, layer, 6);
  return found.map(([at, weight]) => [at, (weight / found[0][1]) * 0.5]).filter(([at]) => at !== step);
}

function mostAttended(episode, step, layer, count) {
  return episode.recall.attended(step, layer).sort((one, two) => two[1] - one[1]).slice(0, count);
}

// The step, and the layer whose strip it is if any, under a point of the timeline.
function under(line, event) {
  const box = line.holder.getBoundingClientRect();
  const along = (event.clientX - box.left - line.left) / line.room;
  const step = Math.max(0, Math.min(line.episode.length, Math.floor(along * line.episode.length)));
  const layer = Math.floor((event.clientY - box.top - line.y.strips) / (STRIP + 3));
  return {step, layer: layer >= 0 && layer < line.layers ? layer : null};
}
