// Plots on canvases: stacked areas, a line, and a strip of states, all over time. Colours come from
// the style sheet.

const COLORS = ['allowed', 'denied', 'shadow', 'degraded', 'ok', 'muted', 'grid', 'line'];
let colors = null;

/** Reads the colours of the style sheet. Called again when the theme changes. */
export function readColors() {
  const probe = document.createElement('span');
  document.body.append(probe);
  colors = Object.fromEntries(COLORS.map((name) => {
    probe.className = `color-${name}`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
}

function prepare(canvas) {
  if (!colors) readColors();
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  const size = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;

  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  return { context, width, height };
}

/** The span to show in seconds: no longer than the samples reach back, so that the plot of a new service is not empty. */
function visibleSpan(model, span_s) {
  const [last, first] = [model.sample(0), model.sample(model.length - 1)];
  const known_s = last ? (last.t - first.t) / 1000 : 0;
  return Math.min(span_s, Math.max(60, Math.ceil(known_s / 10) * 10));
}

/** The columns of a plot, oldest first: a list of [slot, sample] for each, or null. `width_min` is in pixels. */
function columns(model, span_s, width, width_min) {
  const last = model.sample(0);
  // A column covers at least two seconds, so that a sample that is a little late leaves no gap.
  const amount = Math.max(1, Math.floor(Math.min(width / width_min, span_s / 2)));
  const column_ms = (span_s * 1000) / amount;
  const result = Array.from({ length: amount }, () => null);
  if (!last) return result;

  // Columns start at multiples of their length, so that a sample stays in its column as the plot moves.
  const end = Math.ceil(last.t / column_ms) * column_ms;
  for (let back = 0; back < model.length; back++) {
    const sample = model.sample(back);
    const index = amount - 1 - Math.floor((end - sample.t) / column_ms);
    if (index < 0) break;
    (result[index] ??= []).push([model.slot(back), sample]);
  }
  return result;
}

/** The sample at a position in the plot, from 0 (left) to 1 (right). */
export function sampleAt(model, span_max_s, position) {
  const last = model.sample(0);
  const wanted = last ? last.t - (1 - position) * visibleSpan(model, span_max_s) * 1000 : 0;
  for (let back = 0; back < model.length; back++) {
    const sample = model.sample(back);
    if (sample.t <= wanted + 500) return { slot: model.slot(back), sample };
  }
  return null;
}

/** The next round number, for the top of the axis. */
function roundUp(number) {
  if (number <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= number);
}

/** Decisions per second as stacked areas: allowed, denied, shadow denied. */
export function plotDecisions(canvas, model, series, span_max_s, { has_time_axis = false, format, cursor = null }) {
  const span_s = visibleSpan(model, span_max_s);
  const { context, width, height } = prepare(canvas);
  const bottom = has_time_axis ? height - 16 : height - 1;

  const samples_by_column = columns(model, span_s, width, 3);
  const rates = samples_by_column.map((samples) => {
    if (!samples) return null;
    const seconds = samples.reduce((sum, [, sample]) => sum + sample.seconds, 0);
    return [0, 1, 2].map((outcome) => samples.reduce((sum, [slot]) => sum + series[outcome][slot], 0) / seconds);
  });

  const top = roundUp(Math.max(...rates.map((rate) => (rate ? rate[0] + rate[1] + rate[2] : 0))));
  const column_width = width / samples_by_column.length;
  shadeOutages(context, samples_by_column, column_width, bottom);
  grid(context, width, bottom, format(top));

  let floor = rates.map(() => 0);
  const y = (value) => bottom - (value / top) * (bottom - 14);
  for (const [outcome, color] of [[0, colors.allowed], [1, colors.denied], [2, colors.shadow]]) {
    const ceiling = rates.map((rate, index) => floor[index] + (rate ? rate[outcome] : 0));
    area(context, rates, floor, ceiling, column_width, y, color);
    floor = ceiling;
  }

  if (has_time_axis) timeLabels(context, width, height, span_s);
  if (cursor !== null) {
    context.fillStyle = colors.muted;
    context.fillRect(Math.round(cursor * width), 0, 1, bottom);
  }
}

/** Fills the area between two step functions. Columns without samples are gaps. */
function area(context, rates, floor, ceiling, column_width, y, color) {
  context.fillStyle = color;
  context.globalAlpha = 0.88;
  for (let start = 0; start < rates.length; start++) {
    if (!rates[start]) continue;
    let end = start;
    while (end < rates.length && rates[end]) end++;
    context.beginPath();
    for (let index = start; index < end; index++) {
      context.lineTo(index * column_width, y(ceiling[index]));
      context.lineTo((index + 1) * column_width, y(ceiling[index]));
    }
    for (let index = end - 1; index >= start; index--) {
      context.lineTo((index + 1) * column_width, y(floor[index]));
      context.lineTo(index * column_width, y(floor[index]));
    }
    context.fill();
    start = end;
  }
  context.globalAlpha = 1;
}

function shadeOutages(context, samples_by_column, column_width, bottom) {
  context.fillStyle = colors.degraded;
  context.globalAlpha = 0.16;
  samples_by_column.forEach((samples, index) => {
    const [from, to] = [Math.round(index * column_width), Math.round((index + 1) * column_width)];
    if (samples?.some(([, sample]) => sample.degraded > 0)) context.fillRect(from, 0, to - from, bottom);
  });
  context.globalAlpha = 1;
}

function grid(context, width, bottom, top_label) {
  context.strokeStyle = colors.grid;
  context.lineWidth = 1;
  for (const fraction of [0, 0.5, 1]) {
    const y = Math.round(bottom - fraction * (bottom - 14)) + 0.5;
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
  }
  context.fillStyle = colors.muted;
  context.fillText(top_label, 2, 10);
}

function timeLabels(context, width, height, span_s) {
  context.fillStyle = colors.muted;
  const step_s = [15, 30, 60, 180].find((step) => span_s / step <= 5.5) ?? 300;
  for (let back = 0; back <= span_s; back += step_s) {
    const label = back ? (back % 60 ? `−${back} s` : `−${back / 60} min`) : 'now';
    const label_width = context.measureText(label).width;
    const x = width - (back / span_s) * width;
    context.fillText(label, Math.min(Math.max(x - label_width / 2, 0), width - label_width), height - 3);
  }
}

/** The p99 of decision times as a line, with the threshold of its alert unless that is far above. */
export function plotTimes(canvas, model, span_max_s, threshold_us) {
  const span_s = visibleSpan(model, span_max_s);
  const { context, width, height } = prepare(canvas);

  const p99s = columns(model, span_s, width, 3).map((samples) => {
    const busy = samples?.filter(([, sample]) => sample.n > 0) ?? [];
    return busy.length ? Math.max(...busy.map(([, sample]) => sample.p99)) : null;
  });
  const highest = Math.max(...p99s.map((p99) => p99 ?? 0), 1);
  const top = threshold_us && threshold_us < highest * 4 ? Math.max(highest, threshold_us * 1.1) : highest * 1.15;
  const y = (value) => height - 1 - (value / top) * (height - 4);

  context.strokeStyle = colors.line;
  context.beginPath();
  context.moveTo(0, height - 0.5);
  context.lineTo(width, height - 0.5);
  context.stroke();
  if (threshold_us && threshold_us <= top) {
    context.strokeStyle = colors.denied;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(0, y(threshold_us));
    context.lineTo(width, y(threshold_us));
    context.stroke();
    context.setLineDash([]);
  }

  context.strokeStyle = colors.allowed;
  context.lineWidth = 1.6;
  context.beginPath();
  let is_drawing = false;
  p99s.forEach((value, index) => {
    if (value === null) { is_drawing = false; return; }
    const x = ((index + 0.5) * width) / p99s.length;
    if (is_drawing) context.lineTo(x, y(value)); else context.moveTo(x, y(value));
    is_drawing = true;
  });
  context.stroke();
}

/** The state of the store over time. Times without samples stay empty. */
export function plotStates(canvas, model, span_max_s) {
  const span_s = visibleSpan(model, span_max_s);
  const { context, width, height } = prepare(canvas);
  context.fillStyle = colors.grid;
  context.fillRect(0, 0, width, height);

  const samples_by_column = columns(model, span_s, width, 3);
  const column_width = width / samples_by_column.length;
  samples_by_column.forEach((samples, index) => {
    if (!samples) return;
    const is_unavailable = samples.some(([, sample]) => sample.degraded > 0 || !sample.up);
    context.fillStyle = is_unavailable ? colors.degraded : colors.ok;
    context.globalAlpha = is_unavailable ? 1 : 0.75;
    const [from, to] = [Math.round(index * column_width), Math.round((index + 1) * column_width)];
    context.fillRect(from, is_unavailable ? 0 : 3, to - from, is_unavailable ? height : height - 6);
  });
  context.globalAlpha = 1;
}
