// The page of a server of records: what lies near, what moves, what is asked.

import { at, bar, bytes, count, make, percent, say } from "./format.js";
import { chart, everySecond, fetchSamples, grown, latest, number, rates, samples, steps, values } from "./samples.js";

const now = (name) => number(samples.at(-1), name);
const each = (value) => `${count(value)}/s`;
const eachBytes = (value) => `${bytes(value)}/s`;

// Two rates of one section, and how much they grew.
function two(id, near, far, options) {
  const { pairs } = steps();
  const [a, b] = [rates(pairs, near), rates(pairs, far)];
  chart(id, [{ kind: "near", points: a }, { kind: "far", points: b }], options);
  return [grown(pairs, near), grown(pairs, far), latest(a), latest(b)];
}

function showNear() {
  const { pairs } = steps();
  const [near, far] = ["near_used_bytes", "far_used_bytes"];
  chart("near-chart", [{ kind: "near", points: values(pairs, near) }, { kind: "far", points: values(pairs, far) }],
    { label: bytes, isBytes: true, isStacked: true });
  const all = now(near) + now(far);
  say("near-words", all === 0 ? "There are no records."
    : `${percent(now(near) / all)} of ${bytes(all)} of records are near: ${count(now("near_records"))} records; far are ${count(now("far_records"))}.`);
}

function showTiers() {
  const tiers = ["near", "far"].map((speed) => {
    const [held, used, limit] = ["held", "used", "limit"].map((name) => now(`${speed}_${name}_bytes`));
    const words = `${bytes(held)} of ${limit > 0 ? bytes(limit) : "no limit"} in pages, ${bytes(used)} of them used.`;
    return make("div", { className: "tier" },
      make("p", {}, make("b", {}, speed)),
      ...(limit > 0 ? [bar(held / limit, speed, percent(held / limit))] : []),
      make("p", {}, words));
  });
  at("tiers").replaceChildren(...tiers, make("p", {}, `Besides, ${bytes(now("table_bytes"))} of hash tables, orders and queues.`));
}

function showReads() {
  const [near, far] = two("reads-chart", "near_prefetched_records", "far_prefetched_records", { label: each, isStacked: true });
  say("reads-words", near + far === 0 ? "Nothing was fetched ahead in this time."
    : `${percent(near / (near + far))} of ${count(near + far)} records that were fetched in this time were near.`);
}

function showMoves() {
  const [near, far] = two("moves-chart", "near_migrated_records", "far_migrated_records", { label: each });
  const { pairs } = steps();
  const refused = grown(pairs, "migrations_refused");
  say("moves-words", `In this time ${count(near)} records were moved near and ${count(far)} far, ${bytes(grown(pairs, "migrated_bytes"))} in all.${
    refused > 0 ? ` ${count(refused)} hot ones stayed far, because near memory was full or enough had moved.` : ""}`);
}

function showLookups() {
  const { pairs } = steps();
  const [groups, keys] = [rates(pairs, "windows"), rates(pairs, "window_keys")];
  const share = groups.map(([time, rate], place) => [time, rate > 0 && keys[place][1] !== null ? keys[place][1] / rate : null]);
  chart("lookups-chart", [{ kind: "near", points: share }], { label: count });
  const [allGroups, allKeys] = [grown(pairs, "windows"), grown(pairs, "window_keys")];
  say("lookups-words", allGroups === 0 ? "No keys were looked up together in this time."
    : `${count(allKeys)} keys were looked up in ${count(allGroups)} groups: ${count(allKeys / allGroups)} in each.`);
}

function showCommands() {
  const { pairs } = steps();
  const all = rates(pairs, "commands");
  chart("commands-chart", [{ kind: "near", points: all }], { label: each });
  const errors = grown(pairs, "errors"), refused = grown(pairs, "rejected_connections");
  say("commands-words", `Now ${each(latest(all))} commands; in this time ${count(grown(pairs, "commands"))}, ${
    errors === 0 ? "none with an error" : `${count(errors)} with an error`}, over ${count(grown(pairs, "connections"))} new connections${
    refused > 0 ? `; ${count(refused)} more were turned away` : ""}.`);
  at("commands-words").className = refused > 0 ? "words bad" : "words";
}

function showTraffic() {
  const [came, went, comes, goes] = two("traffic-chart", "input_bytes", "output_bytes", { label: eachBytes, isBytes: true });
  say("traffic-words", `Now ${eachBytes(comes)} of requests and ${eachBytes(goes)} of replies; in this time ${bytes(came)} and ${bytes(went)}.`);
}

function showHits() {
  const [hits, misses] = two("hits-chart", "hits", "misses", { label: each, isStacked: true });
  say("hits-words", hits + misses === 0 ? "No key was read in this time."
    : `${percent(hits / (hits + misses))} of ${count(hits + misses)} keys that were read in this time were found.`);
}

function showGone() {
  const [expired, evicted] = two("gone-chart", "expired_keys", "evicted_keys", { label: each });
  say("gone-words", `${count(now("keys"))} keys are there. In this time ${count(expired)} expired, ${count(evicted)} were evicted.`);
}

function show() {
  if (samples.length === 0) return;
  for (const part of [showNear, showTiers, showReads, showMoves, showLookups, showCommands, showTraffic, showHits, showGone]) part();
}

async function update() {
  await fetchSamples();
  show();
}

const status = () => {
  const clients = samples.length ? now("clients") : 0;
  return clients === 1 ? "1 client" : `${count(clients)} clients`;
};

at("range").addEventListener("change", show);
window.addEventListener("resize", show);
everySecond(update, status);
