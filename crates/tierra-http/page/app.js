// The page of a database: what its memory holds and what runs.

import { overBytes } from "./chart.js";
import { at, bar, bytes, count, make, percent, say, seconds } from "./format.js";
import { ask, bounds, chart, everySecond, fetchSamples, grown, latest, names, number, rates, samples, steps } from "./samples.js";
import { begin as beginSql } from "./sql.js";

const COLUMNS_FIRST = 20;

let state = null, showsAll = false;

async function update() {
  [state] = await Promise.all([ask("/api/state"), fetchSamples()]);
  show();
}

const status = () => (state.read_only ? `open for reading only: ${state.read_only}` : state.sessions === 1 ? "1 session" : `${state.sessions} sessions`);

// ---- numbers over time

function showReads() {
  const { pairs } = steps();
  const near = rates(pairs, "read_near_bytes"), far = rates(pairs, "read_far_bytes");
  const label = (value) => `${bytes(value)}/s`;
  chart("reads-chart", [{ kind: "near", points: near }, { kind: "far", points: far }], { label, isBytes: true, isStacked: true });
  const [nearBytes, farBytes] = [grown(pairs, "read_near_bytes"), grown(pairs, "read_far_bytes")];
  const [nearCells, farCells] = [grown(pairs, "cells_near"), grown(pairs, "cells_far")];
  const share = (a, b) => (a + b > 0 ? `${percent(a / (a + b))} near` : "none");
  say("reads-words", `Now ${label(latest(near))} near, ${label(latest(far))} far. In this time: ${share(nearBytes, farBytes)} of ${bytes(nearBytes + farBytes)} scanned; single values: ${share(nearCells, farCells)}${nearCells + farCells > 0 ? ` of ${count(nearCells + farCells)}` : ""}.`);
}

function showMoves() {
  const { pairs } = steps();
  const near = rates(pairs, "moved_near_bytes"), far = rates(pairs, "moved_far_bytes");
  const label = (value) => `${bytes(value)}/s`;
  chart("moves-chart", [{ kind: "near", points: near }, { kind: "far", points: far }], { label, isBytes: true });
  say("moves-words", `Since the open: ${bytes(state.moved_near_bytes)} copied near, ${bytes(state.moved_far_bytes)} gave way.`);
}

function showWear() {
  const { pairs } = steps();
  const all = rates(pairs, "written_bytes");
  const label = (value) => `${bytes(value)}/s`;
  chart("wear-chart", [{ kind: "far", points: all }], { label, isBytes: true });
  const [first, last] = [samples[0], samples.at(-1)];
  const written = last ? number(last, "written_bytes") : 0;
  const pace = last ? (written - number(first, "written_bytes")) / Math.max(1, last[0] - first[0]) * 1000 : 0;
  say("wear-words", `${bytes(written)} since the open, ${bytes(Math.max(0, pace) * 86400)} a day at the pace of the last ${Math.max(1, Math.round(((last?.[0] ?? 0) - (first?.[0] ?? 0)) / 60000))} min.`);
  const tiers = state.tiers.filter((tier) => tier.written !== null);
  const cell = (text) => make("td", { className: "number" }, text);
  at("written").tHead.replaceChildren(make("tr", {}, make("th", {}, "written since the open"),
    ...tiers.map((tier) => make("th", { className: "number" }, tier.name))));
  fill("written", [
    ...["extents", "logs", "superblock", "repair"].map((cause) => make("tr", {}, make("td", {}, cause),
      ...tiers.map((tier) => cell(bytes(tier.written[cause].bytes))))),
    make("tr", {}, make("td", {}, "for each byte of rows"), ...tiers.map(({ write_amplification: ratio }) =>
      cell(ratio === null ? "" : `${Number(ratio.toPrecision(3))} B`))),
  ]);
}

// The time that a share of the statements took less than: as Prometheus's histogram_quantile.
function quantile(counts, share) {
  const all = counts.reduce((sum, one) => sum + one, 0);
  if (all === 0) return null;
  let below = 0;
  for (const [place, one] of counts.entries()) {
    if (one > 0 && below + one >= all * share) {
      if (place === bounds.length) return bounds.at(-1);
      const low = place ? bounds[place - 1] : 0;
      return low + (bounds[place] - low) * (all * share - below) / one;
    }
    below += one;
  }
  return bounds.at(-1);
}

function showTimes() {
  const { pairs } = steps();
  const byTime = ([before, after]) => after[1].slice(names.length).map((one, place) => one - before[1][names.length + place]);
  const points = (share) => pairs.map((pair) => [pair[1][0], quantile(byTime(pair), share)]);
  const [half, most] = [points(0.5), points(0.99)];
  chart("times-chart", [{ kind: "near", points: half }, { kind: "far", points: most }], { label: seconds });
  const statements = pairs.length ? byTime([pairs[0][0], pairs.at(-1)[1]]) : [];
  const ended = statements.reduce((sum, one) => sum + one, 0);
  const failed = grown(pairs, "failed");
  say("times-words", ended === 0 ? "No statement ended in this time."
    : `${count(ended)} statements ended in this time, ${failed} with an error; half within ${seconds(quantile(statements, 0.5))}, 99 of 100 within ${seconds(quantile(statements, 0.99))}.`);
}

function showLookups() {
  const { pairs } = steps();
  const all = rates(pairs, "lookups");
  chart("lookups-chart", [{ kind: "near", points: all }], { label: (value) => `${count(value)}/s` });
  const [lookups, gave] = [grown(pairs, "lookups"), grown(pairs, "suspensions")];
  say("lookups-words", lookups === 0 ? "Nothing was looked up in this time."
    : `${count(lookups)} lookups in this time; each gave way ${Number((gave / lookups).toPrecision(2))} times${gave === 0 ? ": measured, plain ones are faster here" : ""}.`);
}

// ---- the state

function fill(id, rows, empty) {
  const body = at(id).tBodies[0];
  if (rows.length === 0 && empty) rows = [make("tr", {}, make("td", { colSpan: 9, className: "null" }, empty))];
  body.replaceChildren(...rows);
}

const size = (column) => column.bytes + column.index_bytes;
const nearSize = (column) => column.near_bytes + column.index_near_bytes;
const density = (column) => (size(column) > 0 ? column.heat_ms / size(column) : 0);
const byDensity = (a, b) => density(b) - density(a) || size(b) - size(a);

function showHelp() {
  const near = state.tiers.find((tier) => tier.speed === "near");
  const hot = state.columns.filter((column) => column.heat_ms > 0 && size(column) > 0).sort(byDensity);
  const all = hot.reduce((sum, column) => sum + column.heat_ms, 0);
  const svg = at("help-chart");
  svg.style.display = all === 0 ? "none" : "";
  if (all === 0) {
    say("help-words", "Nothing tells yet: no stored rows were read lately, or there are too few to measure what far memory costs.");
    return;
  }
  const points = [[0, 0]];
  for (const column of hot) {
    const [x, y] = points.at(-1);
    points.push([x + size(column), y + column.heat_ms / all]);
  }
  const needed = points.at(-1)[0];
  const saved = (budget) => {
    const place = points.findIndex(([x]) => x > budget);
    if (place < 0) return 1;
    const [[x, y], [nextX, nextY]] = [points[place - 1], points[place]];
    return y + (nextY - y) * (budget - x) / (nextX - x);
  };
  const budget = near.capacity_bytes, to = Math.max(needed, Math.min(budget, needed * 4)) * 1.06;
  points.push([to, 1]);
  overBytes(svg, points, { to, label: percent, xLabel: bytes, marks: [
    { at: budget, text: `budget ${bytes(budget)}` },
    { at: near.used_bytes, text: `used now ${bytes(near.used_bytes)}` },
  ] });
  const twice = saved(budget * 2);
  say("help-words", budget >= needed
    ? `The budget of ${bytes(budget)} holds all that was read lately (${bytes(needed)}): more near memory would not help.`
    : `The budget of ${bytes(budget)} can save ${percent(saved(budget))} of what far memory costs; twice as much, ${percent(twice)}; ${bytes(needed)}, all of it.`);
}

function showColumns() {
  const near = state.tiers.find((tier) => tier.speed === "near");
  const columns = state.columns.filter((column) => size(column) > 0);
  const heat = columns.reduce((sum, column) => sum + column.heat_ms, 0);
  const full = columns.reduce((sum, column) => sum + size(column), 0);
  const held = columns.reduce((sum, column) => sum + nearSize(column), 0);
  // Those that save most for each byte, as far as the budget goes.
  const wanted = new Set();
  let left = near.capacity_bytes;
  for (const column of [...columns].sort(byDensity)) {
    if (column.heat_ms === 0 || size(column) > left) break;
    left -= size(column);
    wanted.add(column);
  }
  const tag = (column) => {
    if (wanted.has(column) && nearSize(column) < 0.5 * size(column)) return "far, though hot";
    return column.heat_ms === 0 && nearSize(column) > 0 && held * 1.05 > near.capacity_bytes ? "near, though cold" : "";
  };
  const order = {
    density: byDensity,
    heat: (a, b) => b.heat_ms - a.heat_ms || size(b) - size(a),
    bytes: (a, b) => size(b) - size(a),
    name: (a, b) => `${a.table}.${a.column}`.localeCompare(`${b.table}.${b.column}`),
  }[at("sort").value];
  columns.sort(order);
  const shown = showsAll ? columns : columns.slice(0, COLUMNS_FIRST);
  fill("columns", shown.map((column) => {
    const share = nearSize(column) / size(column);
    return make("tr", {},
      make("td", { className: "name" }, `${column.table}.${column.column}`),
      make("td", { className: "number" }, bytes(size(column))),
      make("td", {}, bar(share, "near", percent(share))),
      make("td", {}, heat > 0 ? bar(column.heat_ms / heat, "far", percent(column.heat_ms / heat)) : ""),
      make("td", { className: "tag" }, tag(column)));
  }), "There are no sealed rows yet.");
  say("near-words", `${bytes(held)} of ${bytes(full)} in ${columns.length} columns have a near copy.`);
  at("all-columns").hidden = columns.length <= COLUMNS_FIRST;
  say("all-columns", showsAll ? `Show the first ${COLUMNS_FIRST}` : `Show all ${columns.length}`);
}

function showTiers() {
  const tiers = state.tiers.map((tier) => {
    const share = tier.capacity_bytes > 0 ? tier.used_bytes / tier.capacity_bytes : 0;
    const kind = [tier.speed, tier.medium, tier.durability].filter((one) => one !== null).join(", ");
    const always = tier.always_near_bytes === null ? "" : ` Besides the budget, ${bytes(tier.always_near_bytes)} are always near.`;
    return make("div", { className: "tier" },
      make("p", {}, make("b", {}, tier.name), " ", make("small", {}, kind)),
      bar(share, tier.speed === "near" ? "near" : "far", percent(share)),
      make("p", {}, `${bytes(tier.used_bytes)} of ${bytes(tier.capacity_bytes)}.${always}`));
  });
  const missing = state.missing_tiers.map((tier) => make("p", { className: "bad" }, `${tier.name} is missing: ${tier.why}`));
  at("tiers").replaceChildren(...tiers, ...missing);
}

function showLost() {
  const { faults, scrub, copies } = state;
  const pass = scrub.running && scrub.pass_total_bytes > 0
    ? `A check of everything is ${percent(scrub.pass_bytes / scrub.pass_total_bytes)} done, at ${bytes(scrub.bytes_per_s)}/s.`
    : scrub.bytes_per_s === 0 ? "Checks in the background are off." : `${scrub.passes} checks of everything ended since the open.`;
  const found = faults.found === 0 ? "No fault was found since the open." : `${faults.found} faults found since the open, ${faults.repaired} repaired, ${faults.lost} lost.`;
  const missing = (copies ?? []).filter((copy) => !copy.complete).length;
  say("lost-words", `${found} ${copies === null ? "" : missing === 0 ? "Every copy is complete. " : `${missing === 1 ? "A copy is" : `${missing} copies are`} not complete. `}${pass}`);
  at("lost-words").className = faults.lost > 0 || missing > 0 ? "words bad" : "words";

  const tiers = [...new Set((copies ?? []).map((copy) => copy.tier))];
  const of = new Map();
  for (const copy of copies ?? []) {
    const name = copy.column === null ? copy.table : `${copy.table}.${copy.column}`;
    of.set(name, [...(of.get(name) ?? []), copy]);
  }
  at("copies").tHead.replaceChildren(make("tr", {}, make("th", {}, "copies of"), ...tiers.map((tier) => make("th", {}, tier))));
  fill("copies", [...of].map(([name, its]) => make("tr", {}, make("td", { className: "name" }, name), ...tiers.map((tier) => {
    const copy = its.find((one) => one.tier === tier);
    if (!copy) return make("td", {}, "");
    const word = copy.missing ? "missing" : copy.complete ? "complete" : "not complete";
    return make("td", { className: copy.complete ? "good" : "bad" }, `${word}, ${bytes(copy.bytes)}`);
  }))), copies === null ? "The writer has not told yet." : "There are no tables.");

  at("faults").hidden = faults.newest.length === 0;
  fill("faults", faults.newest.map((fault) => make("tr", {},
    make("td", { className: "number" }, new Date(fault.found_ms).toLocaleTimeString()),
    make("td", {}, fault.tier),
    make("td", { className: "name" }, [fault.table, fault.column].filter((one) => one !== null).join(".")),
    make("td", {}, fault.kind),
    make("td", { className: fault.outcome === "lost" ? "bad" : "" }, fault.outcome))));
}

const who = (one) => [one.user, one.application].filter((name) => name !== "").join(", ");

function cells(one) {
  return [
    make("td", { className: "number" }, seconds(one.elapsed_ms / 1000)),
    make("td", { className: one.error === null ? "" : "bad" }, one.state),
    make("td", { className: "number" }, count(one.rows)),
    make("td", { className: "number" }, bytes(one.bytes_near)),
    make("td", { className: "number" }, bytes(one.bytes_far)),
    make("td", { className: "name" }, who(one)),
    make("td", { className: "text" }, one.error === null ? one.text : `${one.text}\n${one.error}`),
  ];
}

async function cancel(id, button) {
  button.disabled = true;
  try {
    const answer = await fetch(`/api/queries/${id}/cancel`, { method: "POST", headers: { "Content-Type": "application/sql" } });
    const fate = { 200: "was cancelled", 403: "is another user's", 404: "has ended already" }[answer.status];
    say("now-words", `Statement ${id} ${fate ?? "could not be cancelled"}.`);
  } catch (error) {
    say("now-words", `Statement ${id} could not be cancelled: ${error.message}`);
  }
}

// Rows stay in the document as long as their statements run, so that a button is not replaced under the pointer.
const runningRows = new Map();

function showNow() {
  for (const id of runningRows.keys()) {
    if (!state.running.some((one) => one.id === id)) runningRows.delete(id);
  }
  const rows = state.running.map((one) => {
    let row = runningRows.get(one.id);
    if (!row) {
      const button = make("button", { type: "button" }, "Cancel");
      button.addEventListener("click", () => cancel(one.id, button));
      row = make("tr", {}, make("td", {}, button));
      row.dataset.id = one.id;
      runningRows.set(one.id, row);
    }
    row.replaceChildren(row.firstChild, ...cells(one));
    return row;
  });
  fill("running", rows, "Nothing runs.");
  fill("slow", state.slow.map((one) => make("tr", {},
    make("td", { className: "number" }, new Date(one.began_ms).toLocaleTimeString()), ...cells(one))), "None yet.");
}

function show() {
  if (state === null) return;
  for (const part of [showHelp, showColumns, showReads, showMoves, showTiers, showWear, showLost, showNow, showTimes, showLookups]) part();
}

at("range").addEventListener("change", show);
at("sort").addEventListener("change", show);
at("all-columns").addEventListener("click", () => { showsAll = !showsAll; show(); });
window.addEventListener("resize", show);
beginSql();
everySecond(update, status);
