// Numbers as people read them, and elements of the page. Text is only ever set as text: a name with markup in it stays a name.

export const at = (id) => document.getElementById(id);
export const say = (id, text) => { at(id).textContent = text; };

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}

export function count(value) {
  if (value >= 1e9) return `${Number((value / 1e9).toPrecision(3))} G`;
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
  return String(value >= 100 ? Math.round(value) : Number(value.toPrecision(3)));
}

export function seconds(value) {
  if (value === 0) return "0";
  if (value < 0.001) return `${Number((value * 1e6).toPrecision(2))} µs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))} ms`;
  if (value < 120) return `${Number(value.toPrecision(3))} s`;
  return `${Math.round(value / 60)} min`;
}

export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 1 ? "< 1" : value < 100 && value > 99 ? "> 99" : Math.round(value)} %`;
}

// An element with properties and children; a child that is no element is text.
export function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

// A bar with a share of it filled, and a text beside it.
export function bar(share, kind, text) {
  const filled = make("i", { className: kind });
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make("div", { className: "bar" }, make("span", {}, filled), make("b", {}, text));
}

// The values of CSV as it arrives, row by row: `null` for an empty field, a text otherwise.
export function csvReader(take) {
  let row = [], text = "", isQuoted = false, wasQuoted = false, isMaybeEnd = false;
  const end = () => {
    row.push(wasQuoted || text !== "" ? text : null);
    text = "";
    wasQuoted = false;
  };
  return (part) => {
    for (const letter of part) {
      if (isMaybeEnd) {
        isMaybeEnd = false;
        if (letter === '"') { text += letter; continue; }
        isQuoted = false;
      }
      if (isQuoted) {
        if (letter === '"') isMaybeEnd = true; else text += letter;
      } else if (letter === '"') {
        isQuoted = wasQuoted = true;
      } else if (letter === ",") {
        end();
      } else if (letter === "\n") {
        end();
        take(row);
        row = [];
      } else {
        text += letter;
      }
    }
  };
}
