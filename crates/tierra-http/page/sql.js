// The box for SQL: rows arrive as CSV, which keeps all digits, and are shown as they come, up to a limit.

import { at, csvReader, make, seconds } from "./format.js";

const ROWS_MOST = 500;

let stop = null;

function say(text, isBad) {
  at("sql-words").textContent = text;
  at("sql-words").className = isBad ? "bad" : "";
}

function cell(value) {
  return value === null ? make("td", { className: "null" }, "NULL") : make("td", {}, value);
}

// Shows rows as they arrive; returns how many, and whether there are more.
async function show(body) {
  const [head, rows] = [at("result").tHead, at("result").tBodies[0]];
  let shown = 0, hasHead = false, hasMore = false;
  const take = csvReader((row) => {
    if (!hasHead) {
      hasHead = true;
      head.replaceChildren(make("tr", {}, ...row.map((name) => make("th", {}, name ?? ""))));
    } else if (shown === ROWS_MOST) {
      hasMore = true;
    } else {
      shown += 1;
      rows.append(make("tr", {}, ...row.map(cell)));
    }
  });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    take(value);
    if (hasMore) {
      // The server stops the statement when nobody reads it.
      await reader.cancel();
      break;
    }
  }
  return { shown, hasMore };
}

async function run(event) {
  event.preventDefault();
  if (stop !== null) return;
  stop = new AbortController();
  at("run").disabled = true;
  at("stop").disabled = false;
  at("result").tHead.replaceChildren();
  at("result").tBodies[0].replaceChildren();
  say("running …");
  const began = performance.now();
  const took = () => seconds((performance.now() - began) / 1000);
  try {
    const answer = await fetch("/sql", {
      method: "POST",
      headers: { "Content-Type": "application/sql", Accept: "text/csv" },
      body: at("sql").value,
      signal: stop.signal,
    });
    if (!answer.ok) {
      const { error } = await answer.json();
      say(`${error.code ?? answer.status}: ${error.message}`, true);
    } else if (answer.headers.get("Content-Type").startsWith("application/json")) {
      const { command, count } = await answer.json();
      say(`${command}${count === undefined ? "" : ` ${count}`}, ${took()}`);
    } else {
      const { shown, hasMore } = await show(answer.body);
      say(hasMore ? `the first ${shown} rows; there are more, ${took()}` : `${shown} rows, ${took()}`);
    }
  } catch (error) {
    say(error.name === "AbortError" ? "stopped" : `the answer broke off: ${error.message}`, true);
  } finally {
    stop = null;
    at("run").disabled = false;
    at("stop").disabled = true;
  }
}

export function begin() {
  at("sql-form").addEventListener("submit", run);
  at("stop").addEventListener("click", () => stop?.abort());
  at("sql").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
  });
}
