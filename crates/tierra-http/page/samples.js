// The numbers of each second of the last hour, and what they say of the time that the page shows.

import { overTime } from "./chart.js";
import { at, say } from "./format.js";

export let names = [], bounds = [], samples = [];
let nowMs = 0;

export async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return answer.json();
}

export async function fetchSamples() {
  const since = samples.length ? samples.at(-1)[0] : 0;
  const news = await ask(`/api/samples?since=${since}`);
  // A server that was started again has none of the old samples.
  if (news.now_ms < since) samples = [];
  ({ names, time_bounds_s: bounds, now_ms: nowMs } = news);
  samples.push(...news.samples);
  while (samples.length && samples[0][0] < nowMs - 3600e3) samples.shift();
  say("version", news.version);
}

// Updates the page each second while it is looked at. `status` says how the server is once it has answered.
export async function everySecond(update, status) {
  for (;;) {
    if (!document.hidden) {
      try {
        await update();
        at("status").className = "";
        say("status", status());
      } catch (error) {
        at("status").className = "bad";
        say("status", `no answer from the server: ${error.message}`);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

export const number = (sample, name) => sample[1][names.indexOf(name)];

// The samples of the chosen time, a few hundred at most, each with the one before it.
export function steps() {
  const length = Number(at("range").value) * 1000, from = nowMs - length;
  const width = Math.max(1000, Math.ceil(length / 300 / 1000) * 1000);
  const kept = [];
  for (const sample of samples) {
    if (sample[0] < from - width) continue;
    const slot = Math.floor(sample[0] / width);
    if (kept.length && kept.at(-1).slot === slot) kept.at(-1).sample = sample;
    else kept.push({ slot, sample });
  }
  const all = kept.map((one) => one.sample);
  return { from, to: nowMs, pairs: all.slice(1).map((sample, place) => [all[place], sample]) };
}

// A counter's growth in a step; `null` where it was set back.
function growth([before, after], name) {
  const grown = number(after, name) - number(before, name);
  return grown < 0 ? null : grown;
}

// A counter's growth per second in each step.
export function rates(pairs, name) {
  return pairs.map((pair) => {
    const grown = growth(pair, name);
    return [pair[1][0], grown === null ? null : grown / (pair[1][0] - pair[0][0]) * 1000];
  });
}

// A counter's growth in all steps.
export const grown = (pairs, name) => pairs.reduce((sum, pair) => sum + (growth(pair, name) ?? 0), 0);

// A gauge at the end of each step.
export const values = (pairs, name) => pairs.map(([, after]) => [after[0], number(after, name)]);

export const latest = (points) => points.findLast(([, value]) => value !== null)?.[1] ?? 0;

export function chart(id, series, options) {
  const { from, to } = steps();
  overTime(at(id), series, { from, to, ...options });
}
