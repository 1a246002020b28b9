// A typed form, made from a JSON Schema. Values are exact JSON, see exact.js: what is typed into a number is what is sent.

import { html, useId, useState } from "./html.js";
import { exact, same, write } from "./exact.js";
import { Draft, fits, fresh, hint, kind, read, resolve, text } from "./schema.js";
import { Icon } from "./icons.js";
import { safe } from "./format.js";

const words = (name) => {
  const spaced = String(name).replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").trim();
  return safe(spaced.charAt(0).toUpperCase() + spaced.slice(1));
};

const typed = (v) => (v === undefined || v === null ? "" : v instanceof Draft ? v.text : typeof v === "string" ? v : text(v));

// Form shows the fields of a schema. proposed, if it is given, is shown beside each field, with a button that resets it.
export function Form({ schema, value, proposed, onChange, disabled }) {
  const root = schema || {};
  const compare = proposed !== undefined;
  return html`<div class="form">
    ${compare && html`<div class="frow only-l"><span></span><span class="lab">What will run</span><span class="lab">As proposed</span></div>`}
    <${Any} schema=${root} root=${root} name="" value=${value} proposed=${proposed} compare=${compare} onChange=${onChange} disabled=${disabled} required=${true} />
  </div>`;
}

// Any shows the field of any schema. An object at the top has no frame of its own.
function Any(p) {
  const s = resolve(p.schema, p.root), what = kind(s);
  if (what === "object" && !p.name) return html`<${Properties} ...${p} s=${s} />`;
  if (!p.required && p.value === undefined && ["object", "variant", "array"].includes(what)) {
    return html`<div class="frow"><span class="flab">${s.title ? safe(s.title) : words(p.name)}<span class="t3 sm"> optional</span></span><div><button type="button" class="btn" disabled=${p.disabled} onClick=${() => p.onChange(fresh(s, p.root))}>Add</button></div>${p.compare && html`<div class="prop">empty</div>`}</div>`;
  }
  if (what === "object") {
    return html`<fieldset class="fgroup"><legend>${s.title ? safe(s.title) : words(p.name)}</legend><${Properties} ...${p} s=${s} /></fieldset>`;
  }
  if (what === "variant") return html`<${Variant} ...${p} s=${s} />`;
  if (what === "array") return html`<${List} ...${p} s=${s} />`;
  return html`<${Row} ...${p} s=${s} what=${what} />`;
}

function Properties({ s, root, value, proposed, compare, onChange, disabled }) {
  const object = value && typeof value === "object" && !Array.isArray(value) && !(value instanceof Draft) ? value : {};
  const set = (key, v) => {
    const next = { ...object, [key]: v };
    if (v === undefined) delete next[key];
    onChange(next);
  };
  const given = Object.keys(proposed && typeof proposed === "object" ? proposed : object); // the order of the model's arguments
  const known = Object.keys(s.properties || {}).sort((a, b) => (given.indexOf(a) + 1 || 999) - (given.indexOf(b) + 1 || 999));
  const others = Object.keys(object).filter((k) => !known.includes(k));
  const field = (key, schema, required) => html`<${Any} key=${key} name=${key} schema=${schema} root=${root} value=${object[key]} proposed=${proposed?.[key]} compare=${compare}
    required=${required} onChange=${(v) => set(key, v)} disabled=${disabled} />`;
  return html`${known.map((key) => field(key, s.properties[key], (s.required || []).includes(key)))}${others.map((key) => field(key, {}, false))}`;
}

// Variant chooses among schemas, then shows the fields of the chosen one.
function Variant(p) {
  const { s, root, value, onChange, name } = p;
  const list = s.oneOf || s.anyOf;
  const found = list.findIndex((o) => fits(o, root, value));
  const [picked, pick] = useState(Math.max(0, found));
  const id = useId();
  const label = (o, i) => {
    const r = resolve(o, root);
    const constant = Object.values(r.properties || {}).map((x) => resolve(x, root)).find((x) => "const" in x);
    return safe(r.title || (constant ? text(constant.const) : r.type ? words(r.type) : "Variant " + (i + 1)));
  };
  const choose = (i) => {
    pick(i);
    onChange(fresh(list[i], root));
  };
  const chosen = resolve(list[picked], root);
  return html`<fieldset class="fgroup"><legend>${name ? words(name) : "Kind"}</legend>
    <div class="frow"><label for=${id}>Choice</label><div><select class="field" id=${id} value=${picked} disabled=${p.disabled} onChange=${(ev) => choose(Number(ev.target.value))}>
      ${list.map((o, i) => html`<option value=${i} selected=${i === picked}>${label(o, i)}</option>`)}</select></div></div>
    <${Any} ...${p} key=${picked} schema=${chosen} name=${kind(chosen) === "object" ? "" : name || "value"} /></fieldset>`;
}

function List({ s, root, name, value, proposed, compare, onChange, disabled }) {
  const list = Array.isArray(value) ? value : [];
  const set = (i, v) => onChange(list.map((old, k) => (k === i ? v : old)));
  return html`<fieldset class="fgroup"><legend>${s.title ? safe(s.title) : words(name || "List")} <span class="t3">${list.length}</span></legend>
    ${list.map((v, i) => html`<div class="fitem" key=${i}><div class="grow"><${Any} name=${"Item " + (i + 1)} schema=${s.items} root=${root} value=${v} proposed=${proposed?.[i]} compare=${compare}
      onChange=${(next) => set(i, next)} disabled=${disabled} required=${true} /></div>
      <button type="button" class="btn quiet icon" disabled=${disabled} aria-label=${"Remove item " + (i + 1)} onClick=${() => onChange(list.filter((_, k) => k !== i))}><${Icon} name="x" /></button></div>`)}
    <button type="button" class="btn" disabled=${disabled} onClick=${() => onChange([...list, fresh(s.items, root)])}>Add an item</button></fieldset>`;
}

// Row is a field with its label, its proposed value and its hint.
function Row({ s, what, name, value, proposed, compare, onChange, disabled, required }) {
  const id = useId();
  const edited = compare && !same(proposed, value);
  if (what === "const" && same(s.const, value)) return null; // it tells the variants of a choice apart
  const error = value instanceof Draft ? value.error : "";
  const label = s.title ? safe(s.title) : words(name || "Value");
  const about = hint(s);
  const note = error || about ? id + "-note" : undefined;
  const common = { id, disabled, "aria-describedby": note, "aria-invalid": error ? "true" : undefined };
  return html`<div class=${"frow" + (edited ? " ed" : "") + (error ? " er" : "")}>
    <${what === "segments" ? "span" : "label"} class="flab" id=${id + "-label"} for=${what === "segments" ? undefined : id}>${label}${!required && html`<span class="t3 sm"> optional</span>`}<//>
    <div>${control(what, s, value, onChange, common, id + "-label", required)}</div>
    ${compare && html`<div class="prop"><span class="only-si">Proposed: </span>${edited ? html`<s dir="auto">${safe(text(proposed))}</s> · <button type="button" class="reset" disabled=${disabled} aria-label=${"Reset " + label}
      onClick=${() => onChange(proposed)}>reset</button>` : html`<span dir="auto">${safe(text(proposed))}</span>`}</div>`}
    ${note && html`<div class="hint" id=${note}>${safe(error || about)}</div>`}</div>`;
}

function control(what, s, value, onChange, common, labelled, required) {
  const input = (ev) => {
    const t = ev.target.value;
    onChange(t === "" && !required && value !== "" ? undefined : read(s, t));
  };
  switch (what) {
    case "integer":
    case "number":
      return html`<input ...${common} class="field" inputmode=${what === "integer" ? "numeric" : "decimal"} autocomplete="off" value=${typed(value)} onInput=${input} />`;
    case "boolean":
      return html`<button ...${common} type="button" class="sw" role="switch" aria-checked=${String(value === true)} onClick=${() => onChange(value !== true)}><i></i>${value === true ? "yes" : "no"}</button>`;
    case "segments":
      return html`<${Segments} s=${s} value=${value} onChange=${onChange} disabled=${common.disabled} labelled=${labelled} describedby=${common["aria-describedby"]} />`;
    case "select":
    case "choice": {
      const options = what === "select" ? s.enum.map((e) => [e, text(e)]) : (s.oneOf || s.anyOf).map((o) => [o.const, o.title || text(o.const)]);
      const at = options.findIndex(([v]) => same(v, value));
      return html`<select ...${common} class="field" onChange=${(ev) => onChange(ev.target.value === "" ? undefined : options[Number(ev.target.value)][0])}>
        ${at < 0 && html`<option value="" selected>Choose…</option>`}${options.map(([, t], i) => html`<option value=${i} selected=${i === at}>${safe(t)}</option>`)}</select>`;
    }
    case "const":
      return html`<input ...${common} class="field" readonly value=${text(s.const)} />`;
    case "date":
      return html`<input ...${common} class="field" type="date" value=${typed(value)} onInput=${input} />`;
    case "email":
      return html`<input ...${common} class="field" inputmode="email" autocomplete="off" dir="auto" value=${typed(value)} onInput=${input} />`;
    case "json":
      return html`<textarea ...${common} class="field mono" rows="4" spellcheck=${false} value=${value instanceof Draft ? value.text : value === undefined ? "" : write(value, "  ")} onInput=${(ev) => onChange(json(ev.target.value))}></textarea>`;
  }
  if (what === "area" || typed(value).length > 60 || typed(value).includes("\n")) {
    return html`<textarea ...${common} class="field" rows="2" dir="auto" value=${typed(value)} onInput=${input}></textarea>`;
  }
  return html`<input ...${common} class="field" autocomplete="off" dir="auto" value=${typed(value)} onInput=${input} />`;
}

function json(t) {
  if (!t.trim()) return undefined;
  try { return exact(t); } catch { return new Draft(t, "This is not valid JSON."); }
}

// Segments are a group of radio buttons in one frame.
function Segments({ s, value, onChange, disabled, labelled, describedby }) {
  const name = useId();
  return html`<span class="seg" role="radiogroup" aria-labelledby=${labelled} aria-describedby=${describedby}>${s.enum.map((e) => html`<label class=${same(e, value) ? "on" : ""}>
    <input type="radio" name=${name} checked=${same(e, value)} disabled=${disabled} onChange=${() => onChange(e)} />${safe(text(e))}</label>`)}</span>`;
}
