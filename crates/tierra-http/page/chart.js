// Charts as SVG: what is drawn is in the document, so that it can be read, copied and tested.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 20;

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The least of 1, 2, 5 times a power of ten, or of two for bytes, that is not below.
export function roundUp(value, isBytes) {
  if (!(value > 0)) return isBytes ? 1024 : 1;
  if (isBytes) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

function path(points, x, y) {
  let text = "", isOpen = false;
  for (const [at, value] of points) {
    if (value === null) { isOpen = false; continue; }
    text += `${isOpen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
  }
  return text;
}

// Clears `svg` and draws its axes; returns how places become points of the picture.
function frame(svg, { from, to, most, ticks, label }) {
  const width = Math.max(svg.clientWidth, 200), height = Math.max(svg.clientHeight, 100);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const x = (at) => LEFT + (at - from) / (to - from) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - value / most * (height - TOP - BOTTOM);
  for (const share of [0, 0.5, 1]) {
    const at = y(most * share);
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
    svg.append(draw("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, label(most * share)));
  }
  ticks.forEach(([at, text], place) => {
    const anchor = place === 0 ? "start" : place === ticks.length - 1 ? "end" : "middle";
    svg.append(draw("text", { x: x(at), y: height - 5, "text-anchor": anchor }, text));
  });
  return { x, y, width, height };
}

function timeTicks(from, to) {
  const minutes = (to - from) / 60000;
  return [[from, `${minutes} min ago`], [(from + to) / 2, `${minutes / 2} min ago`], [to, "now"]];
}

// Series over time: `points` are pairs of a time and a value, or null where there is none. Stacked ones lie on those before.
export function overTime(svg, series, { from, to, label, isBytes, isStacked }) {
  const sums = new Map();
  const drawn = series.map(({ kind, points }) => {
    if (!isStacked) return { kind, points, base: null };
    const base = points.map(([at]) => [at, sums.get(at) ?? 0]);
    const top = points.map(([at, value]) => {
      sums.set(at, (sums.get(at) ?? 0) + (value ?? 0));
      return [at, sums.get(at)];
    });
    return { kind, points: top, base };
  });
  const values = drawn.flatMap(({ points }) => points.map(([, value]) => value ?? 0));
  const most = roundUp(Math.max(0, ...values), isBytes);
  const { x, y } = frame(svg, { from, to, most, label, ticks: timeTicks(from, to) });
  for (const { kind, points, base } of drawn) {
    if (base !== null && points.length > 1) {
      const back = path([...base].reverse(), x, y).replace("M", "L");
      svg.append(draw("path", { class: `area ${kind}`, d: `${path(points, x, y)}${back}Z` }));
    }
    svg.append(draw("path", { class: `line ${kind}`, d: path(points, x, y) }));
  }
}

// A curve that rises with bytes, and marks at some places of it.
export function overBytes(svg, points, { to, label, xLabel, marks }) {
  const ticks = [[0, "0"], [to / 2, xLabel(to / 2)], [to, xLabel(to)]];
  const { x, y, width } = frame(svg, { from: 0, to, most: 1, label, ticks });
  const line = path(points, x, y);
  const [last] = points.at(-1);
  svg.append(draw("path", { class: "area near", d: `${line}L${x(last)} ${y(0)}L${x(0)} ${y(0)}Z` }));
  svg.append(draw("path", { class: "line near", d: line }));
  marks.forEach(({ at, text }, place) => {
    if (at > to) return;
    const isLeft = x(at) > width * 0.6;
    svg.append(draw("line", { class: "mark", x1: x(at), x2: x(at), y1: y(0), y2: y(1) }));
    svg.append(draw("text", {
      class: "mark-text", x: x(at) + (isLeft ? -6 : 6), y: y(0) - 8 - 15 * place, "text-anchor": isLeft ? "end" : "start",
    }, text));
  });
}
