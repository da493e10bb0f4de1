// The frames of an episode: pieces of its sheets.

function loadSheets(episode, changed) {
  episode.sheets = episode.frames.images.map((address) => {
    const image = new Image();
    image.src = address;
    image.decode().then(changed);
    return image;
  });
}

// The sheet that holds a moment's frame.
function sheetOf(episode, moment) {
  const {numbers, columns, rows} = episode.frames;
  return episode.sheets[Math.floor(numbers[moment] / (columns * rows))];
}

// Draws the frame of a moment; large pixels stay sharp, and small pictures of large frames are averaged.
function drawFrame(context, episode, moment, x, y, width, height) {
  const {numbers, columns, rows, width: wide, height: high} = episode.frames;
  const sheet = sheetOf(episode, moment);
  if (!sheet.complete || !sheet.naturalWidth) return;
  const place = numbers[moment] % (columns * rows);
  const density = context.getTransform().a;
  context.imageSmoothingEnabled = width * density < wide * 1.5;
  context.imageSmoothingQuality = "high";
  const [left, top] = [(place % columns) * wide, Math.floor(place / columns) * high];
  context.drawImage(sheet, left, top, wide, high, x, y, width, height);
}

// A canvas of this size on the page, with as many pixels as the screen has there; returns its cleared context.
function sized(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  const [pixels, lines] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== pixels || canvas.height !== lines) {
    canvas.width = pixels;
    canvas.height = lines;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// A frame's sides inside a square.
function fitted(episode, side) {
  const {width, height} = episode.frames;
  const scale = side / Math.max(width, height);
  return [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function make(tag, options = {}, ...children) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
}
