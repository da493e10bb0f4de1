// The data of the page, and an episode with its arrays unpacked.

// Compressed bytes as text -> a typed array.
async function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Kind(await new Response(plain).arrayBuffer());
}

// A weight is stored as a number of two bytes: 65535 times its root.
const weightOf = (stored) => (stored / 65535) ** 2;

const percent = (weight) => (weight > 0 && weight < 0.01 ? "< 1 %" : `${Math.round(100 * weight)} %`);

async function openEpisode(raw) {
  const episode = {...raw, policy: await unpack(raw.policy, Uint16Array), recall: null};
  if (raw.recall?.kind === "chunks") episode.recall = await openChunks(raw.recall);
  if (raw.recall?.kind === "window") episode.recall = await openWindow(raw.recall);
  let sum = 0;
  episode.total = [0, ...raw.reward.map((reward) => (sum += reward ?? 0))];
  return episode;
}

// A memory of chunks: chunk n holds the steps from n * stride on, `length` of them.
async function openChunks(raw) {
  const {layers, top, length, stride, chunks} = raw;
  const [number, weight, within, relevance] = await Promise.all([
    unpack(raw.number, Int16Array),
    unpack(raw.weight, Uint16Array),
    unpack(raw.within, Uint16Array),
    unpack(raw.relevance, Uint16Array),
  ]);
  // What a layer recalled at a step, best chunk first.
  function at(step, layer) {
    const found = [];
    for (let k = 0; k < top; k++) {
      const place = (step * layers + layer) * top + k;
      if (number[place] < 0) continue;
      const begin = number[place] * stride;
      const parts = within.subarray(place * length, (place + 1) * length);
      found.push({
        number: number[place],
        weight: weightOf(weight[place]),
        begin,
        end: begin + length,
        within: Array.from(parts, weightOf),
      });
    }
    return found;
  }
  return {
    ...raw,
    at,
    relevance: (step, layer, chunk) => weightOf(relevance[(step * layers + layer) * chunks + chunk]),
    // A chunk is complete, and can be recalled, from the step after its last one on.
    complete: (step, chunk) => chunk * stride + length <= step,
    // [step, weight] of everything that was attended to.
    attended: (step, layer) =>
      at(step, layer).flatMap((one) => one.within.map((part, c) => [one.begin + c, part * one.weight])),
  };
}

// A memory of single steps: the weight of each by its age.
async function openWindow(raw) {
  const weight = await unpack(raw.weight, Uint16Array);
  function attended(step, layer) {
    const place = (step * raw.layers + layer) * raw.window;
    const ages = Math.min(raw.window, step + 1);
    return Array.from({length: ages}, (_, age) => [step - age, weightOf(weight[place + age])]);
  }
  return {...raw, attended};
}

// The part of a layer's attention at a step that falls on the steps that matter.
function share(episode, step, layer) {
  const matters = episode.events.filter((event) => event.matters);
  const inside = (at) => matters.some((event) => event.begin <= at && at < event.end);
  return episode.recall.attended(step, layer).reduce((sum, [at, weight]) => sum + (inside(at) ? weight : 0), 0);
}

// The event that has most of its steps between two others, if any has.
function eventIn(episode, begin, end) {
  let best = null;
  let most = 0;
  for (const event of episode.events) {
    const common = Math.min(end, event.end) - Math.max(begin, event.begin);
    if (common > most) [best, most] = [event, common];
  }
  return best;
}

const named = (event) => (event.matters ? `★ ${event.name}` : event.name);
