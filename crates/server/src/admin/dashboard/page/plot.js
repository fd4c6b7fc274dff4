// Drawing on canvases: areas over time, a line over time, and a strip of states. Colours come from the style sheet.

const INKS = ['allowed', 'denied', 'shadow', 'degraded', 'ok', 'muted', 'grid', 'line'];
let inks = null;

/** Reads the colours again, after the theme has changed. */
export function readInks() {
  const probe = document.createElement('span');
  document.body.append(probe);
  inks = Object.fromEntries(INKS.map((ink) => {
    probe.className = `ink-${ink}`;
    return [ink, getComputedStyle(probe).color];
  }));
  probe.remove();
}

function prepare(canvas) {
  if (!inks) readInks();
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  const wanted = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) [canvas.width, canvas.height] = wanted;
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  return { context, width, height };
}

/** No longer than there is something to show, so that a service that has just begun does not show an empty plot. */
function fitting(model, span_s) {
  const [last, first] = [model.sample(0), model.sample(model.length - 1)];
  const known_s = last ? (last.t - first.t) / 1000 : 0;
  return Math.min(span_s, Math.max(60, Math.ceil(known_s / 10) * 10));
}

/** Columns from old to new: the sums and seconds of the samples that fall into each. */
function columns(model, span_s, width, least) {
  const last = model.sample(0);
  // Two seconds at least, so that a sample that is a little late leaves no gap.
  const amount = Math.max(1, Math.floor(Math.min(width / least, span_s / 2)));
  const each = (span_s * 1000) / amount;
  const found = Array.from({ length: amount }, () => null);
  if (!last) return found;
  // Columns begin at whole multiples of their length, so that they do not change while they move.
  const end = Math.ceil(last.t / each) * each;
  for (let back = 0; back < model.length; back++) {
    const sample = model.sample(back);
    const place = amount - 1 - Math.floor((end - sample.t) / each);
    if (place < 0) break;
    (found[place] ??= []).push([model.slot(back), sample]);
  }
  return found;
}

/** The sample at a part of the width, from 0 to 1. */
export function sampleAt(model, most_s, part) {
  const last = model.sample(0);
  const wanted = last ? last.t - (1 - part) * fitting(model, most_s) * 1000 : 0;
  for (let back = 0; back < model.length; back++) {
    const sample = model.sample(back);
    if (sample.t <= wanted + 500) return { slot: model.slot(back), sample };
  }
  return null;
}

/** The next round number, for the top of an axis. */
function roundUp(number) {
  if (number <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= number);
}

/** What limits answered per second: allowed, denied on top of it, shadow denials on top of that. */
export function plotAnswers(canvas, model, series, most_s, { labels = false, words, cursor = null }) {
  const span_s = fitting(model, most_s);
  const { context, width, height } = prepare(canvas);
  const bottom = labels ? height - 16 : height - 1;
  const found = columns(model, span_s, width, 3);
  const rates = found.map((samples) => {
    if (!samples) return null;
    const seconds = samples.reduce((sum, [, sample]) => sum + sample.seconds, 0);
    return [0, 1, 2].map((number) => samples.reduce((sum, [slot]) => sum + series[number][slot], 0) / seconds);
  });
  const top = roundUp(Math.max(...rates.map((rate) => (rate ? rate[0] + rate[1] + rate[2] : 0))));
  const each = width / found.length;
  shadeOutages(context, found, each, bottom);
  grid(context, width, bottom, top, words);
  let floor = rates.map(() => 0);
  for (const [number, ink] of [[0, inks.allowed], [1, inks.denied], [2, inks.shadow]]) {
    const ceiling = rates.map((rate, place) => floor[place] + (rate ? rate[number] : 0));
    area(context, rates, floor, ceiling, each, (value) => bottom - (value / top) * (bottom - 14), ink);
    floor = ceiling;
  }
  if (labels) timeLabels(context, width, height, span_s);
  if (cursor !== null) {
    context.fillStyle = inks.muted;
    context.fillRect(Math.round(cursor * width), 0, 1, bottom);
  }
}

function area(context, rates, floor, ceiling, each, y, ink) {
  context.fillStyle = ink;
  context.globalAlpha = 0.88;
  for (let start = 0; start < rates.length; start++) {
    if (!rates[start]) continue;
    let end = start;
    while (end < rates.length && rates[end]) end++;
    context.beginPath();
    for (let place = start; place < end; place++) {
      context.lineTo(place * each, y(ceiling[place]));
      context.lineTo((place + 1) * each, y(ceiling[place]));
    }
    for (let place = end - 1; place >= start; place--) {
      context.lineTo((place + 1) * each, y(floor[place]));
      context.lineTo(place * each, y(floor[place]));
    }
    context.fill();
    start = end;
  }
  context.globalAlpha = 1;
}

function shadeOutages(context, found, each, bottom) {
  context.fillStyle = inks.degraded;
  context.globalAlpha = 0.16;
  found.forEach((samples, place) => {
    const [from, to] = [Math.round(place * each), Math.round((place + 1) * each)];
    if (samples?.some(([, sample]) => sample.degraded > 0)) context.fillRect(from, 0, to - from, bottom);
  });
  context.globalAlpha = 1;
}

function grid(context, width, bottom, top, words) {
  context.strokeStyle = inks.grid;
  context.lineWidth = 1;
  for (const part of [0, 0.5, 1]) {
    const y = Math.round(bottom - part * (bottom - 14)) + 0.5;
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
  }
  context.fillStyle = inks.muted;
  context.fillText(words(top), 2, 10);
}

function timeLabels(context, width, height, span_s) {
  context.fillStyle = inks.muted;
  const step_s = [15, 30, 60, 180].find((step) => span_s / step <= 5.5) ?? 300;
  for (let back = 0; back <= span_s; back += step_s) {
    const text = back ? (back % 60 ? `−${back} s` : `−${back / 60} min`) : 'now';
    const size = context.measureText(text).width;
    const x = width - (back / span_s) * width;
    context.fillText(text, Math.min(Math.max(x - size / 2, 0), width - size), height - 3);
  }
}

/** The time within which 99 of 100 decisions were made, with its bound if that is near. */
export function plotTimes(canvas, model, most_s, bound_us) {
  const span_s = fitting(model, most_s);
  const { context, width, height } = prepare(canvas);
  const found = columns(model, span_s, width, 3);
  const tops = found.map((samples) => {
    const busy = samples?.filter(([, sample]) => sample.n > 0) ?? [];
    return busy.length ? Math.max(...busy.map(([, sample]) => sample.p99)) : null;
  });
  const highest = Math.max(...tops.map((top) => top ?? 0), 1);
  const top = bound_us && bound_us < highest * 4 ? Math.max(highest, bound_us * 1.1) : highest * 1.15;
  const y = (value) => height - 1 - (value / top) * (height - 4);
  context.strokeStyle = inks.line;
  context.beginPath();
  context.moveTo(0, height - 0.5);
  context.lineTo(width, height - 0.5);
  context.stroke();
  if (bound_us && bound_us <= top) {
    context.strokeStyle = inks.denied;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(0, y(bound_us));
    context.lineTo(width, y(bound_us));
    context.stroke();
    context.setLineDash([]);
  }
  context.strokeStyle = inks.allowed;
  context.lineWidth = 1.6;
  context.beginPath();
  let is_drawing = false;
  tops.forEach((value, place) => {
    if (value === null) { is_drawing = false; return; }
    const x = ((place + 0.5) * width) / tops.length;
    if (is_drawing) context.lineTo(x, y(value)); else context.moveTo(x, y(value));
    is_drawing = true;
  });
  context.stroke();
}

/** The store's state over time. What is not known stays empty. */
export function plotStates(canvas, model, most_s) {
  const span_s = fitting(model, most_s);
  const { context, width, height } = prepare(canvas);
  context.fillStyle = inks.grid;
  context.fillRect(0, 0, width, height);
  const found = columns(model, span_s, width, 3);
  const each = width / found.length;
  found.forEach((samples, place) => {
    if (!samples) return;
    const is_away = samples.some(([, sample]) => sample.degraded > 0 || !sample.up);
    context.fillStyle = is_away ? inks.degraded : inks.ok;
    context.globalAlpha = is_away ? 1 : 0.75;
    const [from, to] = [Math.round(place * each), Math.round((place + 1) * each)];
    context.fillRect(from, is_away ? 0 : 3, to - from, is_away ? height : height - 6);
  });
  context.globalAlpha = 1;
}
