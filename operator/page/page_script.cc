#include "operator/page/job_page.h"

namespace paceline::operator_ {

namespace {

// Text from the cluster gets into the page as text only, never as markup.
constexpr char kScript[] = R"js('use strict';
const STAGES = ['Queued', 'Scheduling', 'Image', 'ContainerStart', 'Dependencies', 'Checkpoint', 'CommunicatorReady', 'FirstStep'];
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);
let refreshing = 0;

function make(space, name, attributes, children) {
  const node = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined && value !== null) node.setAttribute(key, value);
  for (const child of children) if (child !== undefined && child !== null) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => make(null, name, attributes, children);
const svg = (name, attributes, ...children) => make(SVG, name, attributes, children);

function seconds(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '';
  if (value < 100) return value.toPrecision(3) + ' s';
  const whole = Math.round(value), minutes = Math.floor(whole / 60);
  if (minutes < 60) return minutes + 'm ' + String(whole % 60).padStart(2, '0') + 's';
  return Math.floor(minutes / 60) + 'h ' + String(minutes % 60).padStart(2, '0') + 'm';
}
const ago = (text) => text ? seconds((Date.now() - Date.parse(text)) / 1000) : '';
const bytes = (value) => value >= 1e9 ? (value / 1e9).toFixed(2) + ' GB' : (value / 1e6).toFixed(1) + ' MB';
const percent = (value) => Math.round(value * 100) + ' %';

async function load(path) {
  const answer = await fetch(path, {headers: {Authorization: 'Bearer ' + (sessionStorage.getItem('token') || '')}, cache: 'no-store'});
  const body = await answer.json().catch(() => ({error: 'the answer is not JSON'}));
  if (!answer.ok) throw Object.assign(new Error(body.error || 'HTTP ' + answer.status), {status: answer.status});
  return body;
}

function table(headings, rows) {
  const head = headings.map((h) => el('th', {scope: 'col', class: h.number ? 'number' : null}, h.title));
  const body = rows.map((row) => el('tr', {}, ...row.map((cell, i) =>
    el('td', {class: (headings[i].number ? 'number ' : '') + (headings[i].wide ? 'wide' : '')}, cell === undefined || cell === null ? '' : cell))));
  return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': headings[0].title}, el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...body)));
}
const phase = (name) => el('span', {class: 'phase-' + name}, name || 'Pending');
const runLink = (ns, name) => el('a', {href: '#/run/' + encodeURIComponent(ns) + '/' + encodeURIComponent(name)}, name);

function showRuns(data) {
  const rows = data.runs.map((run) => [run.namespace, runLink(run.namespace, run.name), run.job, run.kind, String(run.generation ?? ''),
    run.startup ? (run.startup.kind === 'HotRestart' ? 'hot restart' : 'full') : '', phase(run.phase), run.workers ?? '',
    run.firstStepAt ? seconds(run.wallSeconds) : run.wallSeconds ? 'not yet, ' + seconds(run.wallSeconds) : '',
    run.startup && run.startup.gpuSeconds !== undefined ? (run.startup.gpuSeconds / 3600).toFixed(2) : '',
    run.slowdown ? run.slowdown.toFixed(2) : '', (run.incidents || []).length || '', ago(run.created)]);
  const headings = ['Namespace', 'Run', 'Job', 'Kind', 'Start', 'How', 'Phase', 'Workers', 'Startup', 'GPU-hours', 'Slowdown', 'Incidents', 'Age']
    .map((title, i) => ({title, number: i === 4 || (i >= 7 && i <= 11)}));
  const note = data.total > data.runs.length ? el('p', {}, 'The newest ' + data.runs.length + ' of ' + data.total + ' runs.') : null;
  return [el('h1', {}, 'Runs'), rows.length ? table(headings, rows) : el('p', {}, 'No runs here. Annotate a job with paceline.dev/enabled: "true", or create a TrainingJob.'), note];
}

function legend(used) {
  return el('ul', {class: 'legend', 'aria-label': 'Colours'}, ...STAGES.filter((s) => used.has(s)).map((s) =>
    el('li', {}, el('span', {class: 'swatch stage' + STAGES.indexOf(s)}), s)));
}

function spans(run) {
  const status = run.status || {}, origin = Date.parse(status.queuedAt), end = status.finishedAt ? Date.parse(status.finishedAt) : Date.now();
  return (status.workers || []).map((worker) => ({worker, stages: (worker.stages || []).filter((s) => s.start).map((s) => {
    const from = (Date.parse(s.start) - origin) / 1000;
    return {name: s.name, from, to: Math.max(from, ((s.end ? Date.parse(s.end) : end) - origin) / 1000), open: !s.end};
  })}));
}

function waterfall(rows) {
  const total = Math.max(1e-3, ...rows.map((row) => row.stages.length ? row.stages[row.stages.length - 1].to : 0));
  const height = rows.length > 400 ? 2 : rows.length > 64 ? 6 : 16, labels = height >= 16, left = labels ? 150 : 10, width = 1000;
  const picture = svg('svg', {viewBox: '0 0 ' + (left + width + 60) + ' ' + (rows.length * height + 26), role: 'img', id: 'waterfall',
    'aria-label': 'Startup of ' + rows.length + ' workers over ' + seconds(total)});
  const used = new Set(), x = (t) => left + t / total * width;
  rows.forEach((row, i) => {
    if (labels) picture.append(svg('text', {x: left - 6, y: 20 + i * height + 12, 'text-anchor': 'end'}, row.worker.rank + '  ' + (row.worker.node || '')));
    for (const stage of row.stages) {
      used.add(stage.name);
      picture.append(svg('rect', {x: x(stage.from), y: 20 + i * height, width: Math.max(0.5, x(stage.to) - x(stage.from)), height: height > 4 ? height - 1 : height,
        class: 'stage' + STAGES.indexOf(stage.name), opacity: stage.open ? 0.55 : null},
        labels ? svg('title', {}, 'worker ' + row.worker.rank + ', ' + stage.name + ': ' + seconds(stage.to - stage.from) + (stage.open ? ' so far' : '')) : null));
    }
  });
  for (let i = 0; i <= 5; i++) picture.append(svg('text', {x: x(total * i / 5), y: 12, 'text-anchor': 'middle'}, seconds(total * i / 5)));
  return [picture, legend(used)];
}

const median = (values) => { const sorted = [...values].sort((a, b) => a - b); return sorted.length ? sorted[Math.floor(sorted.length / 2)] : 0; };

// Stages down, ranks across; the more a worker lags behind the median of its stage, the stronger the colour. Arrow keys walk.
function heatMap(rows) {
  const stages = STAGES.filter((s) => rows.some((row) => row.stages.some((e) => e.name === s)));
  const times = stages.map((s) => rows.map((row) => { const e = row.stages.find((e) => e.name === s); return e ? e.to - e.from : null; }));
  const middle = times.map((line) => median(line.filter((t) => t !== null)));
  const cell = Math.min(24, 1000 / Math.max(1, rows.length)), height = 22, left = 150, width = left + 1060;
  const picture = svg('svg', {viewBox: '0 0 ' + width + ' ' + (stages.length * height + 4), tabindex: 0, role: 'application', id: 'heatmap',
    'aria-label': 'Time of each worker in each stage against the median; arrow keys walk through the cells', 'aria-describedby': 'told'});
  const told = el('p', {class: 'told', id: 'told', role: 'status'}, 'Point at a cell, or use the arrow keys.');
  stages.forEach((s, y) => {
    picture.append(svg('text', {x: left - 6, y: y * height + 15, 'text-anchor': 'end'}, s));
    times[y].forEach((t, i) => {
      const ratio = t === null || middle[y] <= 0 ? 0 : t / middle[y] - 1, felt = t === null ? 0 : t - middle[y];
      const strength = felt < 0.1 ? 0.06 : Math.min(1, 0.15 + ratio / 2);
      picture.append(svg('rect', {class: t === null ? 'cell none' : 'cell heat', x: left + i * cell, y: y * height, width: cell, height: height - 2,
        'data-x': i, 'data-y': y, 'fill-opacity': strength.toFixed(2)}));
    });
  });
  const here = svg('rect', {class: 'here', fill: 'none', width: cell, height: height - 2, visibility: 'hidden'});
  picture.append(here);
  let at = null;
  const tell = (x, y) => {
    at = [x, y];
    const row = rows[x], t = times[y][x];
    here.setAttribute('x', left + x * cell);
    here.setAttribute('y', y * height);
    here.setAttribute('visibility', 'visible');
    told.textContent = 'Worker ' + row.worker.rank + ' (' + row.worker.pod + (row.worker.node ? ' on ' + row.worker.node : '') + '), ' + stages[y] + ': ' +
      (t === null ? 'not reached' : seconds(t) + ', median ' + seconds(middle[y]));
  };
  picture.addEventListener('mouseover', (event) => { const d = event.target.dataset; if (d && d.x !== undefined) tell(Number(d.x), Number(d.y)); });
  picture.addEventListener('keydown', (event) => {
    const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (!move || !rows.length || !stages.length) return;
    event.preventDefault();
    const from = at || [0, 0];
    tell(at ? Math.max(0, Math.min(rows.length - 1, from[0] + move[0])) : 0, at ? Math.max(0, Math.min(stages.length - 1, from[1] + move[1])) : 0);
  });
  return [picture, told];
}

function incident(object) {
  const status = object.status || {}, verdict = status.verdict || {}, over = status.state === 'Resolved';
  const lines = [['Cause', verdict.cause], ['Ranks', (verdict.ranks || []).join(', ')], ['Pods', (verdict.pods || []).join(', ')], ['Nodes', (verdict.nodes || []).join(', ')],
    ['Confidence', verdict.confidence !== undefined ? percent(verdict.confidence) : ''], ['Seen', object.spec.trigger && object.spec.trigger.at ? object.spec.trigger.at : ''],
    ['Not visible', (status.notVisible || []).join('; ')], ['Done', (status.actions || []).map((a) => a.action + (a.node ? ' ' + a.node : '') + (a.result ? ': ' + a.result : '')).join('; ')]];
  const evidence = (status.evidence || []).map((e) => [e.name, e.value + ' ' + (e.unit || ''), e.usual !== undefined ? e.usual + ' ' + (e.unit || '') : '']);
  return el('section', {class: 'incident' + (over ? ' over' : '')}, el('h3', {}, (verdict.category || 'Being looked into') + (over ? ', over' : '')),
    el('dl', {}, ...lines.filter((l) => l[1]).flatMap((l) => [el('dt', {}, l[0]), el('dd', {}, l[1])])),
    evidence.length ? table([{title: 'Evidence'}, {title: 'Value', number: true}, {title: 'Usual', number: true}], evidence) : null);
}

function advise(run, advice) {
  const stages = (run.status.stages || []).filter((s) => s.maxSeconds !== undefined), sum = stages.reduce((a, s) => a + s.maxSeconds, 0);
  const out = [];
  const largest = stages.reduce((a, s) => !a || s.maxSeconds > a.maxSeconds ? s : a, null);
  if (largest && sum >= 1 && largest.maxSeconds / sum >= 0.4 && advice[largest.name]) {
    out.push(largest.name + ' took ' + seconds(largest.maxSeconds) + ' of the startup (' + percent(largest.maxSeconds / sum) + '): ' + advice[largest.name].happened + '; ' + advice[largest.name].action + '.');
  }
  for (const s of stages) {
    if ((s.workers || 0) < 3 || s.maxSeconds < 1.5 * s.p50Seconds || s.maxSeconds - s.p50Seconds < 1) continue;
    out.push(s.name + ' was uneven: ' + seconds(s.maxSeconds) + ' on ' + (s.slowestNode || s.slowestPod) + ' against a median of ' + seconds(s.p50Seconds) + '; everybody waits for the slowest.');
  }
  return out;
}

function showRun(data) {
  const run = data.run, status = run.status || (run.status = {}), cost = status.startup;
  const facts = [['Job', run.spec.job.kind + ' ' + run.spec.job.name + ', start ' + run.spec.generation], ['Phase', phase(status.phase)],
    ['Workers', (run.spec.workers ?? 'not known') + (status.workersOmitted ? ' (the first ' + (status.workers || []).length + ' are drawn; the table covers all)' : '')],
    ['Nodes', (status.nodes || []).slice(0, 20).join(', ') + ((status.nodes || []).length > 20 ? ' and ' + (status.nodes.length - 20) + ' more' : '')],
    ['Startup', status.firstStepAt ? seconds(status.wallSeconds) + ' to the first step' : 'no first step seen after ' + seconds(status.wallSeconds)],
    ['Cost', cost ? (cost.kind === 'HotRestart' ? 'hot restart' : 'full start') + (cost.gpus ? ', ' + cost.gpus + ' GPUs held for ' + (cost.gpuSeconds / 3600).toFixed(2) + ' GPU-hours' : '') : ''],
    ['Slowdown', status.slowdown ? status.slowdown.toFixed(3) + (status.slowdownError ? ' ± ' + status.slowdownError.toFixed(3) : '') : ''],
    ['Checkpoints', status.bytes ? bytes(status.bytes.checkpointRead || 0) + ' read, ' + bytes(status.bytes.checkpointWritten || 0) + ' written' : '']];
  const rows = spans(run), out = [el('h1', {}, run.metadata.namespace + '/' + run.metadata.name),
    el('dl', {}, ...facts.filter((f) => f[1]).flatMap((f) => [el('dt', {}, f[0]), el('dd', {}, f[1])]))];
  const advice = advise(run, data.advice || {});
  if (advice.length) out.push(el('ul', {class: 'advice'}, ...advice.map((a) => el('li', {}, a))));
  if (rows.length) out.push(el('h2', {}, 'Startup'), ...waterfall(rows));
  if ((status.stages || []).length) out.push(table([{title: 'Stage'}, {title: 'Min', number: true}, {title: 'Median', number: true}, {title: 'Max', number: true}, {title: 'Max/median', number: true}, {title: 'Slowest'}],
    status.stages.map((s) => [s.name, seconds(s.minSeconds), seconds(s.p50Seconds), seconds(s.maxSeconds), s.p50Seconds > 0 ? (s.maxSeconds / s.p50Seconds).toFixed(1) : '',
      (s.slowestPod || '') + (s.slowestNode ? ' on ' + s.slowestNode : '')])));
  if (rows.length) out.push(el('h2', {}, 'Workers against the median'), ...heatMap(rows));
  if ((status.slowWorkers || []).length) out.push(el('h2', {}, 'Slow ranks'), table([{title: 'Rank', number: true}, {title: 'Node'}, {title: 'Slowdown of the run', number: true}, {title: 'Late', number: true}],
    status.slowWorkers.map((w) => [w.rank, w.node, w.slowdown.toFixed(3), seconds(w.lateSeconds)])));
  const incidents = [...data.incidents].sort((a, b) => (b.metadata.creationTimestamp || '').localeCompare(a.metadata.creationTimestamp || ''));
  out.push(el('h2', {}, 'Incidents'), ...(incidents.length ? incidents.map(incident) : [el('p', {}, 'None.')]));
  const conditions = (status.conditions || []).filter((c) => c.message);
  if (conditions.length) out.push(el('h2', {}, 'Conditions'), table([{title: 'Condition'}, {title: 'Reason'}, {title: 'Says', wide: true}], conditions.map((c) => [c.type + '=' + c.status, c.reason, c.message])));
  return out;
}

function showNodes(data) {
  const rows = data.nodes.map((n) => [n.name, n.cordoned ? 'cordoned' : 'takes pods', n.taints.map((t) => t.key + (t.value ? '=' + t.value : '')).join(', '), Object.entries(n.reasons).map(([k, v]) => k + ': ' + v).join('; ')]);
  return [el('h1', {}, 'Cordoned and marked nodes'), rows.length ? table([{title: 'Node'}, {title: 'State'}, {title: 'Taints of Paceline'}, {title: 'Why', wide: true}], rows) : el('p', {}, 'None: every node takes pods.')];
}

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  if (parts[0] === 'run' && parts.length === 3) return {path: '/api/run?namespace=' + encodeURIComponent(parts[1]) + '&name=' + encodeURIComponent(parts[2]), show: showRun, title: parts[2]};
  if (parts[0] === 'nodes') return {path: '/api/nodes', show: showNodes, title: 'nodes'};
  return {path: '/api/runs?namespace=' + encodeURIComponent($('namespace').value.trim()), show: showRuns, title: 'runs'};
}

async function refresh(isNew) {
  const mine = ++refreshing, {path, show, title} = route();
  const hasToken = Boolean(sessionStorage.getItem('token'));
  $('leave').hidden = !hasToken;
  $('login').hidden = hasToken;
  if (!hasToken) { $('content').replaceChildren(); $('token').focus(); return; }
  try {
    const data = await load(path);
    if (mine !== refreshing) return;
    document.title = 'Paceline: ' + title;
    const busy = !isNew && document.activeElement && document.activeElement.id === 'heatmap';
    if (!busy) $('content').replaceChildren(...show(data).filter((n) => n));
    $('problem').hidden = true;
    $('age').textContent = 'As of ' + new Date().toLocaleTimeString() + '.';
    if (isNew) $('main').focus();
  } catch (error) {
    if (mine !== refreshing) return;
    if (error.status === 401) { sessionStorage.removeItem('token'); $('login').hidden = false; $('leave').hidden = true; }
    if (isNew || error.status) $('content').replaceChildren();
    $('problem').textContent = error.message + (error.status === 403 ? ' (choose a namespace that you may read, above)' : '');
    $('problem').hidden = false;
  }
}

$('place').addEventListener('submit', (event) => { event.preventDefault(); sessionStorage.setItem('namespace', $('namespace').value.trim()); if (location.hash.length > 2) location.hash = '#/'; else refresh(true); });
$('login').addEventListener('submit', (event) => { event.preventDefault(); sessionStorage.setItem('token', $('token').value.trim()); $('token').value = ''; refresh(true); });
$('leave').addEventListener('click', () => { sessionStorage.removeItem('token'); refresh(true); });
window.addEventListener('hashchange', () => refresh(true));
$('namespace').value = sessionStorage.getItem('namespace') || '';
refresh(true);
setInterval(() => { if (!document.hidden && sessionStorage.getItem('token')) refresh(false); }, 10000);
)js";

}  // namespace

std::string_view PageScript() { return kScript; }

}  // namespace paceline::operator_
