// Filters of a list, in the address.

import { html } from "./html.js";
import { query, route } from "./router.js";
import { safe } from "./format.js";

// Choice is a filter with a list of values: [[value, name]]. Its first value is that of an address without it.
export function Choice({ name, at, options, first, also = {} }) {
  const [usual] = options[0] || [""], value = route.value.query.get(at) ?? usual;
  return html`<label class=${"chip" + (value !== usual ? " on" : "")}>${name} <select ref=${first} aria-label=${name} value=${value} onChange=${(ev) => query({ [at]: ev.target.value === usual ? "" : ev.target.value, ...also })}>
    ${options.map(([v, n]) => html`<option value=${v} selected=${v === value}>${safe(n)}</option>`)}</select></label>`;
}

// Field is a filter with a text.
export function Field({ name, at, type = "text", placeholder = "any", also = {} }) {
  const value = route.value.query.get(at) || "";
  return html`<label class=${"chip" + (value ? " on" : "")}>${name} <input key=${at + value} aria-label=${name} type=${type} value=${value} placeholder=${placeholder} onChange=${(ev) => query({ [at]: ev.target.value.trim(), ...also })} /></label>`;
}
