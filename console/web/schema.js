// JSON Schemas as forms need them: which field a schema asks for, whether a value fits it, and what was changed.

import { Num, isInteger, isNumber, same, write } from "./exact.js";

// Draft is text that a field holds but that is not a value of its schema yet.
export class Draft {
  constructor(text, error) {
    this.text = text;
    this.error = error;
  }
}

// resolve follows references and returns a schema without them. An optional value has nullable set.
export function resolve(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 20) return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#")) {
    const target = schema.$ref.slice(1).split("/").filter(Boolean)
      .reduce((at, key) => at?.[decodeURIComponent(key).replace(/~1/g, "/").replace(/~0/g, "~")], root);
    return resolve({ ...target, ...schema, $ref: undefined }, root, depth + 1);
  }
  const all = schema.allOf;
  if (Array.isArray(all) && all.length === 1) return resolve({ ...all[0], ...schema, allOf: undefined }, root, depth + 1);
  const some = schema.oneOf || schema.anyOf;
  if (Array.isArray(some)) {
    const real = some.filter((s) => s?.type !== "null");
    if (real.length === 1) return { ...resolve({ ...real[0], ...schema, oneOf: undefined, anyOf: undefined }, root, depth + 1), nullable: real.length < some.length };
  }
  if (Array.isArray(schema.type)) {
    const real = schema.type.filter((t) => t !== "null");
    if (real.length === 1) return { ...schema, type: real[0], nullable: real.length < schema.type.length };
  }
  return schema;
}

// kind is the field that a resolved schema asks for.
export function kind(s) {
  const some = s.oneOf || s.anyOf;
  if (Array.isArray(some)) return some.every((o) => o && "const" in o) ? "choice" : "variant";
  if (Array.isArray(s.enum)) return s.enum.length <= 4 && s.enum.every((e) => String(text(e)).length <= 24) ? "segments" : "select";
  if ("const" in s) return "const";
  switch (s.type) {
    case "integer":
    case "number":
    case "boolean":
      return s.type;
    case "string":
      if (s.format === "date") return "date";
      if (s.format === "email") return "email";
      return text(s.maxLength) > 120 || s.format === "textarea" || s.contentMediaType ? "area" : "string";
    case "array":
      return s.items && typeof s.items === "object" ? "array" : "json";
    case "object":
      return s.properties && Object.keys(s.properties).length ? "object" : "json";
  }
  return "json";
}

// text is a scalar as a person reads it.
export function text(v) {
  if (v instanceof Num) return v.text;
  if (v instanceof Draft) return v.text;
  if (v === true) return "yes";
  if (v === false) return "no";
  if (v === null) return "null";
  if (v === undefined || v === "") return "empty";
  return typeof v === "string" ? v : write(v);
}

const limit = (s) => {
  const parts = [], n = (v) => text(v);
  if (s.exclusiveMinimum !== undefined) parts.push("above " + n(s.exclusiveMinimum));
  if (s.minimum !== undefined) parts.push("at least " + n(s.minimum));
  if (s.exclusiveMaximum !== undefined) parts.push("below " + n(s.exclusiveMaximum));
  if (s.maximum !== undefined) parts.push("at most " + n(s.maximum));
  return parts.join(" and ");
};

// hint describes a field: its description and its limits.
export function hint(s) {
  const bounds = limit(s);
  const words = bounds ? (s.type === "integer" ? "A whole number " : "A number ") + bounds + "." : "";
  return [s.description, words].filter(Boolean).join(" ");
}

// read turns the text of a field into a value of its schema, or into a Draft with what is wrong.
export function read(s, typed) {
  const t = typed.trim();
  if (s.type === "integer" && !isInteger(t)) return new Draft(typed, "Must be a whole number.");
  if (s.type === "number" && !isNumber(t)) return new Draft(typed, "Must be a number, such as 12.50.");
  if (s.type === "integer" || s.type === "number") {
    const error = wrong(s, new Num(t));
    return error ? new Draft(typed, error) : new Num(t);
  }
  const error = wrong(s, typed);
  return error ? new Draft(typed, error) : typed;
}

// wrong returns why a scalar does not fit its schema; "" if it does.
export function wrong(s, v) {
  const n = v instanceof Num ? Number(v.text) : null, bound = (x) => Number(text(x));
  if (n !== null) {
    const off = s.minimum !== undefined && n < bound(s.minimum) || s.maximum !== undefined && n > bound(s.maximum)
      || s.exclusiveMinimum !== undefined && n <= bound(s.exclusiveMinimum) || s.exclusiveMaximum !== undefined && n >= bound(s.exclusiveMaximum);
    if (off) return "Must be " + limit(s) + ".";
    const step = s.multipleOf !== undefined && bound(s.multipleOf);
    if (step && Math.abs(n / step - Math.round(n / step)) > 1e-9) return "Must be a multiple of " + text(s.multipleOf) + ".";
  }
  if (typeof v === "string") {
    if (s.minLength !== undefined && v.length < bound(s.minLength)) return v ? "Must have at least " + text(s.minLength) + " characters." : "Must not be empty.";
    if (s.maxLength !== undefined && v.length > bound(s.maxLength)) return "Must have at most " + text(s.maxLength) + " characters.";
    if (s.format === "email" && !/^[^\s@]+@[^\s@]+$/.test(v)) return "Must be an e-mail address.";
    try {
      if (s.pattern && !new RegExp(s.pattern, "u").test(v)) return "Must match " + s.pattern + ".";
    } catch { /* a pattern of another dialect: the server checks it */ }
  }
  return "";
}

// fresh is the value that a new field begins with; undefined if it is left out.
export function fresh(schema, root) {
  const s = resolve(schema, root);
  if (s.default !== undefined) return s.default;
  if ("const" in s) return s.const;
  switch (kind(s)) {
    case "object":
      return Object.fromEntries((s.required || []).map((k) => [k, fresh(s.properties[k], root)]).filter(([, v]) => v !== undefined));
    case "array": return [];
    case "boolean": return false;
    case "variant": return fresh((s.oneOf || s.anyOf)[0], root);
    case "integer":
    case "number": return new Draft("", "Must be a number.");
    case "string":
    case "area":
    case "email":
    case "date": return s.minLength || s.format ? new Draft("", "Must not be empty.") : "";
    case "segments":
    case "select": return s.enum[0];
    case "choice": return (s.oneOf || s.anyOf)[0].const;
  }
  return null;
}

// drafts lists the fields of a value that hold no value yet, as [path, error].
export function drafts(value, path = "") {
  if (value instanceof Draft) return [[path, value.error]];
  if (value instanceof Num || !value || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([k, v]) => drafts(v, path ? path + "." + k : k));
}

// changes lists what differs between two values, as { path, from, to } of texts.
export function changes(from, to, path = "") {
  if (same(from, to)) return [];
  const both = (x) => x && typeof x === "object" && !(x instanceof Num) && !(x instanceof Draft);
  if (both(from) && both(to) && Array.isArray(from) === Array.isArray(to)) {
    const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
    return [...keys].flatMap((k) => changes(from[k], to[k], path ? path + "." + k : k));
  }
  return [{ path: path || "value", from: text(from), to: text(to) }];
}

// fits reports whether a value has the shape of a variant: its constants, and its required properties.
export function fits(schema, root, v) {
  const s = resolve(schema, root);
  if ("const" in s) return same(s.const, v);
  if (Array.isArray(s.enum)) return s.enum.some((e) => same(e, v));
  if (s.type === "object" || s.properties) {
    if (!v || typeof v !== "object" || Array.isArray(v)) return false;
    return (s.required || []).every((k) => k in v) && Object.entries(s.properties || {}).every(([k, p]) => {
      const below = resolve(p, root);
      return !("const" in below || below.enum) || !(k in v) || fits(below, root, v[k]);
    });
  }
  const is = v instanceof Num || v instanceof Draft ? "number" : Array.isArray(v) ? "array" : v === null ? "null" : typeof v;
  return !s.type || s.type === is || s.type === "integer" && is === "number";
}
