// The fleet page: keeps what the server sends, and draws what has changed. Everything of a node is set as text.
"use strict";

const LABELS = ["Node", "Role", "Health", "Version", "Upgrade", "Kubernetes", "etcd", "Processors", "Memory"];
const PHASES = {
  idle: ["", "–"],
  staged: ["note", "◷ boots next"],
  trial: ["note", "◷ on trial"],
  blessed: ["good", "✓ kept"],
  reverted: ["bad", "↶ reverted"],
};
const SYMBOLS = { good: "✓", bad: "!", note: "·" };
const MAX_EVENTS = 200;
const MAX_LINES = 1000;
const POINTS = 120;
const KERNEL = "kernel";

const nodes = new Map();
const rows = new Map();
const changed = new Set();
let news = [];
let total = 0;
let order = { key: "", ascending: true };
let opened = "";
let reports = null;
let log = null;
let isDue = false;

const find = (id) => document.getElementById(id);

function make(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

// A status that is written again would be read aloud again.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function describeHealth(node) {
  if (node.error) return ["bad", "✕ no answer"];
  if (node.problems.length || !node.ready) return ["bad", `! ${node.problems.length || 1} ${node.problems.length > 1 ? "problems" : "problem"}`];
  return ["good", "✓ healthy"];
}

function isBad(node) {
  return describeHealth(node)[0] === "bad";
}

function describeUpgrade(node) {
  if (node.stage === "rebooting" || node.stage === "upgrading" || node.stage === "booting") return ["note", `◷ ${node.stage}`];
  return PHASES[node.phase] || ["", node.phase];
}

function formatPercent(value) {
  return `${value} %`;
}

function formatRate(kibibytes) {
  if (kibibytes < 1000) return `${kibibytes} KiB/s`;
  return kibibytes < 1000 * 1024 ? `${(kibibytes / 1024).toPrecision(3)} MiB/s` : `${(kibibytes / 1024 / 1024).toPrecision(3)} GiB/s`;
}

// Percent have a scale of their own; of rates the largest is at the top.
function makePlot(title, points, now, format = formatPercent) {
  const plot = make("div", "", "plot");
  const most = Math.max(0, ...points);
  const top = format === formatPercent ? 100 : Math.max(1, most);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title} over the last hour: now ${format(now)}, at most ${format(most)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  // One point alone is no line.
  const drawn = points.length === 1 ? [points[0], points[0]] : points;
  const first = POINTS - drawn.length;
  line.setAttribute("points", drawn.map((value, at) => `${first + at},${98 - (96 * value) / top}`).join(" "));
  svg.append(line);
  plot.append(svg, make("span", format(now)));
  return plot;
}

function setBadge(cell, [kind, text], below = "") {
  cell.replaceChildren(kind ? make("span", text, `badge ${kind}`) : document.createTextNode(text));
  if (below) cell.append(make("small", below));
}

function makeRow(node) {
  const row = document.createElement("tr");
  row.setAttribute("role", "row");
  for (const label of LABELS) {
    const cell = document.createElement("td");
    cell.setAttribute("role", "cell");
    cell.dataset.label = label;
    row.append(cell);
  }
  const button = make("button", "", "name");
  button.type = "button";
  button.addEventListener("click", () => openDetail(node.node));
  row.cells[0].append(button, make("small"));
  return row;
}

function drawRow(row, node) {
  const [name, role, health, version, upgrade, kubernetes, etcd, busy, memory] = row.cells;
  name.firstChild.textContent = node.name;
  name.lastChild.textContent = node.name === node.node ? "" : node.node;
  role.textContent = { controlplane: "control plane" }[node.role] || node.role || "–";
  setBadge(health, describeHealth(node), node.error || node.problems[0] || "");
  version.textContent = node.version || "–";
  if (node.slot) version.append(make("small", `slot ${node.slot}`));
  const below = node.phase === "reverted" ? `${node.target}: ${node.reason}` : node.pending ? node.target : "";
  setBadge(upgrade, describeUpgrade(node), below);
  setBadge(kubernetes, node.kubernetes ? [node.kubernetes === "Ready" ? "good" : "bad", node.kubernetes] : ["", "–"]);
  setBadge(etcd, [node.alarms.length ? "bad" : "", node.etcd || "–"]);
  busy.replaceChildren(makePlot("Processors", node.plots.busy, node.busy));
  memory.replaceChildren(makePlot("Memory", node.plots.memory, node.memory));
}

function isShown(node) {
  const text = find("search").value.trim().toLowerCase();
  if (text && ![node.name, node.node, node.version].some((value) => value.toLowerCase().includes(text))) return false;
  switch (find("filter").value) {
    case "bad": return isBad(node);
    case "pending": return node.pending;
    case "reverted": return node.phase === "reverted";
    case "controlplane": case "worker": return node.role === find("filter").value;
    default: return true;
  }
}

function getKey(node, key) {
  if (key === "health") return isBad(node) ? 0 : 1;
  return node[key];
}

function compare(left, right) {
  if (order.key) {
    const [a, b] = [getKey(left, order.key), getKey(right, order.key)];
    const found = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    if (found) return order.ascending ? found : -found;
  }
  return left.role.localeCompare(right.role) || left.name.localeCompare(right.name, "en", { numeric: true });
}

function arrange() {
  const shown = [...nodes.values()].filter(isShown).sort(compare);
  const body = find("rows");
  const wanted = shown.map((node) => rows.get(node.node));
  // Rows that are in their place stay: focus and scrolling do, too.
  wanted.forEach((row, at) => {
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
  });
  while (body.rows.length > wanted.length) body.lastChild.remove();
  setText(find("shown"), `${shown.length} of ${nodes.size} nodes`);
}

function drawTiles() {
  const all = [...nodes.values()];
  const tiles = [
    ["nodes", total],
    ["healthy", all.filter((node) => !isBad(node)).length],
    ["with problems", all.filter((node) => isBad(node) && !node.error).length],
    ["no answer", all.filter((node) => node.error).length],
    ["in an upgrade", all.filter((node) => node.pending).length],
    ["reverted", all.filter((node) => node.phase === "reverted").length],
    ["Ready in Kubernetes", all.filter((node) => node.kubernetes.startsWith("Ready")).length],
    ["members of etcd", all.filter((node) => node.etcd).length],
  ];
  find("tiles").replaceChildren(...tiles.map(([label, count]) => {
    const tile = make("li");
    tile.append(make("b", String(count)), make("span", label));
    return tile;
  }));
  const alarms = all.flatMap((node) => node.alarms.map((alarm) => `! etcd on ${node.name}: ${alarm}`)).join("\n");
  if (find("alarms").dataset.shown !== alarms) {
    find("alarms").dataset.shown = alarms;
    find("alarms").replaceChildren(...(alarms ? alarms.split("\n") : []).map((alarm) => make("p", alarm)));
  }
}

function drawVersions() {
  const all = [...nodes.values()].filter((node) => node.version);
  const counts = new Map();
  for (const node of all) counts.set(node.version, (counts.get(node.version) || 0) + 1);
  const versions = [...counts].sort(([left], [right]) => right.localeCompare(left, "en", { numeric: true }));
  find("versions").replaceChildren(...versions.map(([version, count]) => {
    const item = make("li");
    const meter = make("meter");
    meter.max = all.length;
    meter.value = count;
    meter.setAttribute("aria-label", `${version}: ${count} of ${all.length} nodes`);
    item.append(make("span", version), meter, make("span", String(count)));
    return item;
  }));
  const names = (phase) => all.filter((node) => node.phase === phase).map((node) => node.name);
  const parts = [["staged", "boots next"], ["trial", "on trial"], ["reverted", "reverted"]]
    .map(([phase, text]) => [names(phase), text])
    .filter(([found]) => found.length)
    .map(([found, text]) => `${text}: ${found.slice(0, 5).join(", ")}${found.length > 5 ? ` and ${found.length - 5} more` : ""}`);
  const text = parts.join("; ") || (versions.length > 1 ? "several versions run" : "no upgrade is under way");
  setText(find("upgrade"), text);
}

function makeTime(seconds) {
  const when = new Date(seconds * 1000);
  const time = make("time", seconds ? when.toLocaleTimeString() : "");
  time.dateTime = when.toISOString();
  return time;
}

function drawEvents() {
  const list = find("events");
  list.prepend(...news.reverse().map((event) => {
    const item = make("li");
    item.append(makeTime(event.at), make("span", `${SYMBOLS[event.kind]} ${event.node}`, `badge ${event.kind}`), document.createTextNode(event.text));
    return item;
  }));
  news = [];
  while (list.children.length > MAX_EVENTS) list.lastChild.remove();
  find("quiet").hidden = list.children.length > 0;
}

function drawDetail() {
  const node = nodes.get(opened);
  if (!node) return;
  find("detail-title").textContent = node.name;
  const facts = [
    ["Address", node.node],
    ["Role", node.role || "–"],
    ["State", node.error ? `no answer: ${node.error}` : `${node.stage}, ${node.ready ? "ready" : "not ready"}`],
    ["Version", node.slot ? `${node.version}, slot ${node.slot}` : node.version || "–"],
    ["Last upgrade", node.phase === "idle" ? "none" : `${node.target}: ${describeUpgrade(node)[1]}`],
    ["Before it", node.previous || "–"],
    ["Why it was reverted", node.reason || "–"],
    ["Kubernetes", node.kubernetes || "–"],
    ["etcd", node.etcd || "–"],
  ];
  find("facts").replaceChildren(...facts.flatMap(([label, value]) => [make("dt", label), make("dd", value)]));
  const problems = node.problems.length ? node.problems : ["none"];
  find("problems").replaceChildren(...problems.map((text) => make("li", text)));
  const plots = [["Processors", "busy"], ["Memory", "memory"], ["Disks", "disk", formatRate], ["Network", "network", formatRate]];
  find("plots").replaceChildren(...plots.map(([title, key, format]) => {
    const plot = makePlot(title, node.plots[key], node[key], format);
    plot.prepend(make("b", title));
    return plot;
  }));
  find("services").replaceChildren(...node.services.map(([name, state, , isGood, message]) => {
    const item = make("li");
    item.append(make("span", `${isGood ? "✓" : "!"} ${name}`, `badge ${isGood ? "good" : "bad"}`));
    item.append(document.createTextNode(` ${state}${!isGood && message ? `: ${message}` : ""}`));
    return item;
  }));
  offerLogs(["", KERNEL, ...node.services.map(([name]) => name)]);
}

// Options that are made anew would take the selection with them.
function offerLogs(names) {
  const select = find("log-name");
  if (names.join() === [...select.options].map((option) => option.value).join()) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => {
    const option = make("option", name || "none");
    option.value = name;
    return option;
  }));
  select.value = names.includes(chosen) ? chosen : "";
}

function openLog() {
  if (log) log.close();
  log = null;
  const list = find("log");
  list.replaceChildren();
  const name = find("log-name").value;
  if (!name) return;
  log = new EventSource(`nodes/${opened}/logs/${encodeURIComponent(name)}`);
  log.addEventListener("message", (message) => {
    // Who has scrolled up reads.
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
    list.append(...JSON.parse(message.data).lines.slice(-MAX_LINES).map((line) => make("li", line)));
    while (list.children.length > MAX_LINES) list.firstChild.remove();
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  });
  // Another connection would begin with the same lines.
  log.addEventListener("error", (event) => event.target.close());
}

function openDetail(node) {
  opened = node;
  drawDetail();
  find("reports").replaceChildren();
  find("log-name").value = "";
  openLog();
  reports = new EventSource(`nodes/${node}`);
  reports.addEventListener("message", (message) => {
    const event = JSON.parse(message.data);
    const item = make("li");
    item.append(makeTime(event.at), document.createTextNode(` ${event.text}`));
    find("reports").prepend(item);
    while (find("reports").children.length > MAX_EVENTS) find("reports").lastChild.remove();
  });
  // Another connection would begin with the same events.
  reports.addEventListener("error", () => reports.close());
  find("detail").showModal();
}

function draw() {
  isDue = false;
  for (const name of changed) {
    const node = nodes.get(name);
    if (!rows.has(name)) rows.set(name, makeRow(node));
    drawRow(rows.get(name), node);
  }
  arrange();
  drawTiles();
  drawVersions();
  drawEvents();
  if (find("detail").open && changed.has(opened)) drawDetail();
  changed.clear();
}

function drawSoon() {
  if (isDue) return;
  isDue = true;
  setTimeout(draw, 0);
}

function take(message) {
  if (message.all) {
    news = [];
    find("events").replaceChildren();
  }
  total = message.total;
  document.title = `${message.cluster}: nodes`;
  find("cluster").textContent = message.cluster;
  for (const node of message.nodes) {
    nodes.set(node.node, node);
    changed.add(node.node);
  }
  news.push(...message.events);
  drawSoon();
}

for (const header of document.querySelectorAll("th[data-key]")) {
  header.firstElementChild.addEventListener("click", () => {
    const key = header.dataset.key;
    order = { key, ascending: order.key === key ? !order.ascending : true };
    for (const other of document.querySelectorAll("th[data-key]")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order.ascending ? "ascending" : "descending");
    arrange();
  });
}
find("detail").addEventListener("close", () => {
  reports.close();
  if (log) log.close();
});
find("log-name").addEventListener("change", openLog);
find("search").addEventListener("input", arrange);
find("filter").addEventListener("change", arrange);

const source = new EventSource("events");
source.addEventListener("open", () => { find("connection").textContent = "live"; });
source.addEventListener("message", (event) => take(JSON.parse(event.data)));
source.addEventListener("error", () => {
  find("connection").textContent = "the connection to talosctl is lost; what is shown may be old";
});
