// Draws one board from data that tests/boards/picture has queried: draw({title, about, from, to, panels}). A drawing of our
// own, panel by panel where the board's JSON has it; it is not what Grafana renders.
'use strict';
const SVG = 'http://www.w3.org/2000/svg';
const COLORS = ['#3274d9', '#e0752d', '#3f9e55', '#a352cc', '#c4162a', '#1f8a99', '#b8860b', '#705da0', '#5c6670', '#d6619a'];

function node(space, name, attributes, ...children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const el = (name, attributes, ...children) => node(null, name, attributes, ...children);
const svg = (name, attributes, ...children) => node(SVG, name, attributes, ...children);

function scaled(value, units, step) {
  let i = 0, left = Math.abs(value);
  while (left >= step && i < units.length - 1) { left /= step; i++; }
  return (value < 0 ? '-' : '') + (left < 10 && left % 1 ? left.toPrecision(2) : left < 1000 ? +left.toPrecision(3) : Math.round(left)) + units[i];
}
function format(value, unit) {
  if (value === null || Number.isNaN(value)) return '';
  if (unit === 's') return value === 0 ? '0 s' : value < 1 ? scaled(value * 1000, [' ms', ' s'], 1000) : value < 120 ? +value.toPrecision(3) + ' s' : value < 7200 ? +(value / 60).toPrecision(3) + ' min' : +(value / 3600).toPrecision(3) + ' h';
  if (unit === 'bytes') return scaled(value, [' B', ' KiB', ' MiB', ' GiB', ' TiB'], 1024);
  if (unit === 'Bps') return scaled(value, [' B/s', ' KiB/s', ' MiB/s', ' GiB/s'], 1024);
  if (unit === 'percentunit') return +(value * 100).toPrecision(3) + ' %';
  return scaled(value, ['', ' k', ' M', ' G'], 1000);
}
const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);
const last = (series) => { const known = series.points.filter((p) => p[1] !== null); return known.length ? known[known.length - 1][1] : null; };
const color = (i) => COLORS[i % COLORS.length];

function legend(series) {
  const shown = series.slice(0, 12);
  return el('div', {class: 'legend'}, ...shown.map((s, i) => el('span', {}, el('i', {style: `background:${color(i)}`}), s.name)),
    series.length > shown.length ? el('span', {}, `and ${series.length - shown.length} more`) : null);
}

function axes(picture, box, board, low, high, unit) {
  for (let i = 0; i <= 4; i++) {
    const y = box.y + box.h * (1 - i / 4);
    picture.append(svg('line', {x1: box.x, x2: box.x + box.w, y1: y, y2: y, class: 'grid'}),
      svg('text', {x: box.x - 6, y: y + 4, 'text-anchor': 'end'}, format(low + (high - low) * i / 4, unit)));
  }
  times(picture, box, board);
}
function times(picture, box, board) {
  for (let i = 0; i <= 3; i++) {
    picture.append(svg('text', {x: box.x + box.w * i / 3, y: box.y + box.h + 16, 'text-anchor': i === 0 ? 'start' : i === 3 ? 'end' : 'middle'},
      clock(board.from + (board.to - board.from) * i / 3)));
  }
}

function timeseries(panel, board, width, height) {
  const box = {x: 70, y: 8, w: width - 80, h: height - 60}, picture = svg('svg', {width, height: height - 26});
  const sums = new Map(), at = (series) => series.points.map(([t, v]) => {
    if (!panel.stacked || v === null) return [t, v, 0];
    const below = sums.get(t) || 0;
    sums.set(t, below + v);
    return [t, below + v, below];
  });
  const lines = panel.series.map(at), values = lines.flat().map((p) => p[1]).filter((v) => v !== null);
  let low = panel.min !== undefined ? panel.min : Math.min(0, ...values), high = Math.max(...values);
  if (!(high > low)) high = low + (panel.min === undefined ? 1 : 0.1);
  axes(picture, box, board, low, high, panel.unit);
  const x = (t) => box.x + (t - board.from) / (board.to - board.from) * box.w, y = (v) => box.y + box.h * (1 - (v - low) / (high - low));
  lines.forEach((points, i) => {
    let path = '', open = false;
    for (const [t, v] of points) {
      if (v === null) { open = false; continue; }
      path += `${open ? 'L' : 'M'}${x(t).toFixed(1)} ${y(v).toFixed(1)}`;
      open = true;
    }
    if (panel.stacked) {
      const known = points.filter((p) => p[1] !== null);
      if (known.length) picture.append(svg('polygon', {fill: color(i), opacity: 0.35, points: [...known.map((p) => [x(p[0]), y(p[1])]), ...known.reverse().map((p) => [x(p[0]), y(p[2])])].map((p) => p.map((n) => n.toFixed(1)).join(',')).join(' ')}));
    }
    picture.append(svg('path', {d: path, fill: 'none', stroke: color(i), 'stroke-width': 1.6}));
    const lone = points.filter((p) => p[1] !== null);
    if (lone.length === 1) picture.append(svg('circle', {cx: x(lone[0][0]), cy: y(lone[0][1]), r: 2.5, fill: color(i)}));
  });
  return [picture, legend(panel.series)];
}

function stat(panel, board, width, height) {
  const tiles = panel.series.slice(0, 8).map((series, i) => el('div', {class: 'tile'}, el('b', {style: `color:${color(i)}`}, format(last(series), panel.unit)), el('small', {}, series.name)));
  return [el('div', {class: 'tiles', style: `height:${height - 34}px`}, ...tiles)];
}

function bargauge(panel, board, width, height) {
  const shown = panel.series.map((s) => [s.name, last(s)]).filter((s) => s[1] !== null).slice(0, Math.floor((height - 40) / 20)), most = Math.max(1e-9, ...shown.map((s) => s[1]));
  const rows = shown.map(([name, value], i) => el('div', {class: 'bar'}, el('span', {}, name), el('div', {}, el('i', {style: `width:${(value / most * 100).toFixed(1)}%;background:${color(i)}`})), el('b', {}, format(value, panel.unit))));
  if (panel.series.length > shown.length) rows.push(el('small', {}, `and ${panel.series.length - shown.length} more`));
  return rows;
}

function table(panel, board, width, height) {
  const names = Object.keys(panel.columns), rows = panel.series.slice(0, Math.max(1, Math.floor((height - 66) / 22)));
  const body = rows.map((series) => el('tr', {}, ...names.map((name) => el('td', {}, name === 'Value' ? format(last(series), panel.unit) : series.labels[name] || ''))));
  return [el('table', {}, el('tr', {}, ...names.map((name) => el('th', {}, panel.columns[name]))), ...body),
    panel.series.length > rows.length ? el('small', {}, `and ${panel.series.length - rows.length} more`) : null];
}

// Rows of series over time; `fill` gives the colour of a value.
function history(panel, board, width, height, fill) {
  const label = Math.min(330, width / 2), shown = panel.series.slice(0, Math.max(1, Math.floor((height - 60) / 16)));
  const box = {x: label, y: 6, w: width - label - 12, h: height - 60}, row = Math.min(34, box.h / shown.length), picture = svg('svg', {width, height: height - 34});
  const step = (board.to - board.from) / 120;
  shown.forEach((series, i) => {
    picture.append(svg('text', {x: label - 8, y: box.y + row * (i + 0.5) + 4, 'text-anchor': 'end'}, series.name));
    for (const [t, v] of series.points) {
      if (v === null) continue;
      const x = box.x + (t - board.from) / (board.to - board.from) * box.w;
      picture.append(svg('rect', {x, y: box.y + row * i + 1, width: Math.max(1, step / (board.to - board.from) * box.w + 0.3), height: row - 2, fill: fill(v, i)}));
    }
  });
  times(picture, {...box, h: row * shown.length}, board);
  return [picture, panel.series.length > shown.length ? el('small', {}, `and ${panel.series.length - shown.length} more`) : null];
}

function heatmap(panel, board, width, height) {
  // Buckets are cumulative: what is in one is its count without that of the one below.
  const buckets = panel.series.filter((s) => s.labels.le !== '+Inf').sort((a, b) => Number(a.labels.le) - Number(b.labels.le));
  const below = (i, t) => i === 0 ? 0 : (buckets[i - 1].points.find((p) => p[0] === t) || [t, 0])[1] || 0;
  const rows = buckets.map((s, i) => ({name: 'up to ' + format(Number(s.labels.le), panel.unit), labels: s.labels, points: s.points.map(([t, v]) => [t, v === null ? null : Math.max(0, v - below(i, t))])}));
  const most = Math.max(1e-9, ...rows.flatMap((r) => r.points.map((p) => p[1] || 0)));
  const used = rows.filter((r) => r.points.some((p) => p[1] > 0.01)).reverse();
  return history({...panel, series: used.length ? used : rows.slice(0, 1)}, board, width, height, (v) => v < 0.01 ? 'none' : `rgba(224,117,45,${(0.15 + 0.85 * v / most).toFixed(2)})`);
}

const DRAW = {timeseries, stat, bargauge, table, heatmap,
  'state-timeline': (panel, board, width, height) => history(panel, board, width, height, (v, i) => color(i)),
  'status-history': (panel, board, width, height) => {
    const most = Math.max(1.0001, ...panel.series.flatMap((s) => s.points.map((p) => p[1] || 1)));
    return history(panel, board, width, height, (v) => `hsl(${(120 * (1 - (v - 1) / (most - 1))).toFixed(0)},65%,50%)`);
  }};

function draw(board) {
  const unit = 36, gap = 8, column = (1440 - gap) / 24;
  const panels = board.panels.map((panel) => {
    const width = panel.w * column - gap, height = panel.h * unit - gap;
    const body = panel.series.length ? DRAW[panel.type](panel, board, width - 20, height - 26) : [el('p', {class: 'none'}, 'No data')];
    return el('section', {style: `left:${panel.x * column + gap}px;top:${panel.y * unit}px;width:${width}px;height:${height}px`}, el('h2', {}, panel.title), ...body);
  });
  const tall = Math.max(...board.panels.map((p) => (p.y + p.h) * unit));
  document.body.replaceChildren(el('h1', {}, board.title), el('p', {class: 'about'}, board.about), el('main', {style: `height:${tall}px`}, ...panels));
  return Math.ceil(document.body.getBoundingClientRect().height);
}
