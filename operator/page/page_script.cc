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
  const unit = 10 ** Math.floor(Math.log10(total / 6)), tick = [1, 2, 5, 10].map((n) => n * unit).find((t) => total / t <= 6);
  for (let i = 0; i * tick <= total; i++) picture.append(svg('text', {x: x(i * tick), y: 12, 'text-anchor': 'middle'}, +(i * tick).toPrecision(3) + ' s'));
  return [picture, legend(used)];
}

const median = (values) => { const sorted = [...values].sort((a, b) => a - b); return sorted.length ? sorted[Math.floor(sorted.length / 2)] : 0; };

// A heat map: `rows` by name, `columns` cells across. strength(x, y) is 0 to 1, or null for what is not known, whose cell
// stays empty; told(x, y) says a cell in words. Neighbours of equal strength are one rectangle, so that 1,000 ranks draw fast.
// Arrow keys walk through the cells, the pointer tells them.
function grid({id, label, rows, columns, strength, told}) {
  const cell = Math.min(24, 1000 / Math.max(1, columns)), height = 22, left = 150;
  const picture = svg('svg', {viewBox: '0 0 ' + (left + 1060) + ' ' + (rows.length * height + 4), tabindex: 0, role: 'application', id,
    'aria-label': label + '; arrow keys walk through the cells', 'aria-describedby': id + '-told'});
  const words = el('p', {class: 'told', id: id + '-told', role: 'status'}, 'Point at a cell, or use the arrow keys.');
  const level = (x, y) => { const s = strength(x, y); return s === null ? null : Math.round(s * 20) / 20; };
  rows.forEach((row, y) => {
    picture.append(svg('text', {x: left - 6, y: y * height + 15, 'text-anchor': 'end'}, row));
    for (let x = 0; x < columns;) {
      const s = level(x, y);
      let end = x + 1;
      while (end < columns && (cell < 6 || s === null) && level(end, y) === s) end++;
      picture.append(svg('rect', {class: (s === null ? 'cell none' : 'cell heat') + (cell < 6 ? ' fine' : ''), x: left + x * cell, y: y * height,
        width: (end - x) * cell, height: height - 2, 'data-x': x, 'data-y': y, 'data-n': end - x, 'fill-opacity': s === null ? null : s.toFixed(2)}));
      x = end;
    }
  });
  const here = svg('rect', {class: 'here', fill: 'none', width: Math.max(cell, 3), height: height - 2, visibility: 'hidden'});
  picture.append(here);
  let at = null;
  const tell = (x, y) => {
    at = [x, y];
    here.setAttribute('x', left + x * cell);
    here.setAttribute('y', y * height);
    here.setAttribute('visibility', 'visible');
    words.textContent = told(x, y);
  };
  picture.addEventListener('mousemove', (event) => {
    const box = picture.getBoundingClientRect(), scale = (left + 1060) / box.width;
    const x = Math.floor(((event.clientX - box.left) * scale - left) / cell), y = Math.floor((event.clientY - box.top) * scale / height);
    if (x >= 0 && x < columns && y >= 0 && y < rows.length) tell(x, y);
  });
  picture.addEventListener('keydown', (event) => {
    const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (!move || !columns || !rows.length) return;
    event.preventDefault();
    tell(at ? Math.max(0, Math.min(columns - 1, at[0] + move[0])) : 0, at ? Math.max(0, Math.min(rows.length - 1, at[1] + move[1])) : 0);
  });
  return [picture, words];
}

// Stages down, workers across; the more a worker lags behind the median of its stage, the stronger the colour.
function stageHeat(rows) {
  const stages = STAGES.filter((s) => rows.some((row) => row.stages.some((e) => e.name === s)));
  const times = stages.map((s) => rows.map((row) => { const e = row.stages.find((e) => e.name === s); return e ? e.to - e.from : null; }));
  const middle = times.map((line) => median(line.filter((t) => t !== null)));
  return grid({id: 'heatmap', label: 'Time of each worker in each stage against the median', rows: stages, columns: rows.length,
    strength: (x, y) => {
      const t = times[y][x];
      if (t === null) return null;
      return t - middle[y] < 0.1 || middle[y] <= 0 ? 0.05 : Math.min(1, 0.15 + (t / middle[y] - 1) / 2);
    },
    told: (x, y) => {
      const worker = rows[x].worker, t = times[y][x];
      return 'Worker ' + worker.rank + ' (' + worker.pod + (worker.node ? ' on ' + worker.node : '') + '), ' + stages[y] + ': ' +
        (t === null ? 'not reached' : seconds(t) + ', median ' + seconds(middle[y]));
    }});
}

// Windows of time down, ranks across: by how much steps would be slower if this rank alone were late; full colour from a half on.
function rankHeat(heat) {
  const windows = heat.windows, at = (y) => new Date(windows[y].at).toLocaleTimeString(), out = [];
  if (heat.slowdown !== undefined) {
    out.push(el('p', {}, heat.slow.length ? 'Steps take ' + heat.slowdown.toFixed(2) + ' times as long as they would without the late ranks below.' :
      'No rank is late by more than what is uncertain (' + percent(heat.error) + ').'));
  } else {
    out.push(el('p', {}, 'What slow ranks cost is not known now: ' + heat.whyNot + '.'));
  }
  if (windows.length) {
    out.push(...grid({id: 'rankmap', label: 'How much slower each rank makes steps, in windows of ' + seconds(heat.windowSeconds), rows: windows.map((_, y) => at(y)),
      columns: heat.ranks.length,
      strength: (x, y) => {
        const lost = windows[y].lost ? windows[y].lost[x] : null;
        return lost === null ? null : lost < 10 ? 0.05 : Math.min(1, 0.15 + lost / 600);
      },
      told: (x, y) => {
        const lost = windows[y].lost ? windows[y].lost[x] : null, who = 'Rank ' + heat.ranks[x] + ' on ' + heat.nodes[heat.nodeOf[x]] + ' at ' + at(y) + ': ';
        if (windows[y].whyNot) return who + 'not known, ' + windows[y].whyNot;
        return who + (lost === null ? 'it has told nothing' : lost < 10 ? 'on time' : 'alone it makes steps ' + (lost / 10).toFixed(1) + ' % slower');
      }}));
    if (heat.omitted) out.push(el('p', {}, 'The ' + heat.ranks.length + ' ranks that cost most; ' + heat.omitted + ' more cost less.'));
    out.push(el('p', {class: 'note'}, 'One hot rank is a sick worker or its link, hot ranks of one node that node; ranks scattered over time have uneven data.'));
  }
  if (heat.slow.length) out.push(table([{title: 'Rank', number: true}, {title: 'Node'}, {title: 'Slowdown of the run by it', number: true}, {title: 'Late for each collective', number: true}],
    heat.slow.map((w) => [w.rank, w.node, w.slowdown.toFixed(3), seconds(w.lateSeconds)])));
  return out;
}

function incident(object, actions) {
  const status = object.status || {}, verdict = status.verdict || {}, over = status.state === 'Resolved';
  const lines = [['Cause', verdict.cause], ['Ranks', (verdict.ranks || []).join(', ')], ['Pods', (verdict.pods || []).join(', ')], ['Nodes', (verdict.nodes || []).join(', ')],
    ['To do', over ? '' : actions[verdict.category]], ['Confidence', verdict.confidence !== undefined ? percent(verdict.confidence) : ''], ['Seen', object.spec.trigger && object.spec.trigger.at ? object.spec.trigger.at : ''],
    ['Not visible', (status.notVisible || []).join('; ')], ['Done', (status.actions || []).map((a) => a.action + (a.node ? ' ' + a.node : '') + (a.result ? ': ' + a.result : '')).join('; ')]];
  const figure = (value, unit) => +value.toPrecision(4) + ' ' + (unit || '');
  const evidence = (status.evidence || []).map((e) => [e.name, figure(e.value || 0, e.unit), e.usual !== undefined ? figure(e.usual, e.unit) : '']);
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
    ['Workers', (run.spec.workers ?? 'not known') + (status.workersOmitted ? ' (' + (status.workers || []).length + ' are drawn: the first ones and the slowest of each stage; numbers and advice cover all)' : '')],
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
  if (rows.length) out.push(el('h2', {}, 'Workers against the median'), ...stageHeat(rows));
  if (data.heat && data.heat.traced) out.push(el('h2', {}, 'Ranks while they train'), ...rankHeat(data.heat));
  const incidents = [...data.incidents].sort((a, b) => (b.metadata.creationTimestamp || '').localeCompare(a.metadata.creationTimestamp || ''));
  out.push(el('h2', {}, 'Incidents'), ...(incidents.length ? incidents.map((i) => incident(i, data.verdicts || {})) : [el('p', {}, 'None.')]));
  const conditions = (status.conditions || []).filter((c) => c.message);
  if (conditions.length) out.push(el('h2', {}, 'Conditions'), table([{title: 'Condition'}, {title: 'Reason'}, {title: 'Says', wide: true}], conditions.map((c) => [c.type + '=' + c.status, c.reason, c.message])));
  return out;
}

// From the annotations of a node that are Paceline's. A StragglerPolicy's mark is JSON, in a sentence here.
function whyOut(node) {
  const words = Object.entries(node.reasons).map(([key, value]) => {
    let mark = null;
    try { mark = key === 'paceline.dev/straggler' ? JSON.parse(value) : null; } catch { /* somebody else's text: shown as it is */ }
    if (!mark || !mark.policy) return key + ': ' + value;
    return 'StragglerPolicy ' + mark.policy + ' took it out (' + mark.action + (mark.at ? ', ' + mark.at : '') + ')' + (mark.incident ? ' for Incident ' + mark.incident : '');
  });
  return words.length ? words.join('; ') : 'cordoned by somebody else; Paceline does not know why';
}

function showNodes(data) {
  const rows = data.nodes.map((n) => [n.name, n.cordoned ? 'cordoned' : 'takes pods', n.taints.map((t) => t.key + (t.value ? '=' + t.value : '')).join(', '), whyOut(n)]);
  return [el('h1', {}, 'Cordoned and marked nodes'), rows.length ? table([{title: 'Node'}, {title: 'State'}, {title: 'Taints of Paceline'}, {title: 'Why', wide: true}], rows) : el('p', {}, 'None: every node takes pods.')];
}

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  if (parts[0] === 'run' && parts.length === 3) return {path: '/api/run?namespace=' + encodeURIComponent(parts[1]) + '&name=' + encodeURIComponent(parts[2]), show: showRun, heat: true, title: parts[2]};
  if (parts[0] === 'nodes') return {path: '/api/nodes', show: showNodes, title: 'nodes'};
  return {path: '/api/runs?namespace=' + encodeURIComponent($('namespace').value.trim()), show: showRuns, title: 'runs'};
}

async function refresh(isNew) {
  const mine = ++refreshing, {path, show, heat, title} = route();
  const hasToken = Boolean(sessionStorage.getItem('token'));
  $('leave').hidden = !hasToken;
  $('login').hidden = hasToken;
  if (!hasToken) { $('content').replaceChildren(); $('token').focus(); return; }
  try {
    // Without the ranks the rest is worth showing.
    const [data, ranks] = await Promise.all([load(path), heat ? load(path.replace('/api/run?', '/api/ranks?')).catch(() => null) : null]);
    if (heat) data.heat = ranks;
    if (mine !== refreshing) return;
    document.title = 'Paceline: ' + title;
    const busy = !isNew && document.activeElement && ['heatmap', 'rankmap'].includes(document.activeElement.id);
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
