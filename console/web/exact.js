// JSON whose numbers keep their text: 49.50 stays 49.50, and a large id stays exact.

// Num is a number as it was written.
export class Num {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
  toJSON() { return Number(this.text); }
}

// exact parses JSON. Its numbers are Nums.
export function exact(text) {
  return JSON.parse(text, (key, value, context) => (typeof value === "number" ? new Num(context?.source ?? String(value)) : value));
}

// plain returns a value with ordinary numbers.
export function plain(value) {
  if (value instanceof Num) return Number(value.text);
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  return value;
}

// write returns the JSON of a value, with Nums as they were written.
export function write(value, indent = "", at = "") {
  if (value instanceof Num) return value.text;
  const inner = at + indent, line = indent ? "\n" : "";
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return "[" + line + value.map((v) => inner + write(v, indent, inner)).join("," + line) + line + at + "]";
  }
  if (value && typeof value === "object") {
    const entries = Object.entries(value).filter(([, v]) => v !== undefined);
    if (!entries.length) return "{}";
    const space = indent ? " " : "";
    return "{" + line + entries.map(([k, v]) => inner + JSON.stringify(k) + ":" + space + write(v, indent, inner)).join("," + line) + line + at + "}";
  }
  return JSON.stringify(value) ?? "null";
}

// isNumber reports whether a text is a number of JSON.
export const isNumber = (text) => /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(text);
export const isInteger = (text) => /^-?(0|[1-9][0-9]*)$/.test(text);

// same reports whether two values are the same JSON. A number equals one that is written otherwise.
export function same(a, b) {
  if (a instanceof Num && b instanceof Num) return a.text === b.text || Number(a.text) === Number(b.text) && a.text.length < 16;
  if (a === b) return true;
  if (!a || !b || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((k) => same(a[k], b[k]));
}
