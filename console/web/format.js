// Times, amounts and foreign text as people read them.

import { now } from "./api.js";

const pad = (n) => String(n).padStart(2, "0");
const clock = (d) => pad(d.getHours()) + ":" + pad(d.getMinutes());
const day = (d) => d.toLocaleDateString([], { day: "numeric", month: "short", ...(d.getFullYear() === new Date(now()).getFullYear() ? {} : { year: "numeric" }) });

// at is a moment: the time of day, with the date unless it is today.
export function at(time) {
  if (!time) return "–";
  const d = new Date(time), today = new Date(now());
  return d.toDateString() === today.toDateString() ? clock(d) : day(d) + " " + clock(d);
}

// whole is a moment with seconds and zone.
export const whole = (time) => (time ? new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "long" }) : "");

// span is a duration in seconds.
export function span(seconds) {
  if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "–";
  const s = Math.abs(seconds);
  if (s === 0) return "0 ms";
  if (s < 0.1) return Math.round(s * 1000) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " d";
}

// ago is how long a moment lies back: for the last day; then its date.
export function ago(time) {
  if (!time) return "–";
  const s = (now() - Date.parse(time)) / 1000;
  if (s < 45) return "now";
  if (s < 3600) return Math.max(1, Math.round(s / 60)) + " min";
  if (s < 86400) return Math.round(s / 3600) + " h";
  return day(new Date(time));
}

// left is the time until a moment: its words, and how near it is.
export function left(time) {
  if (!time) return null;
  const s = (Date.parse(time) - now()) / 1000;
  if (s <= 0) return { text: "overdue", tone: "hot", s };
  const text = s < 60 ? Math.ceil(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
  return { text: text + " left", words: text, tone: s < 900 ? "hot" : s < 3600 ? "warm" : "", s };
}

// cost is an amount of US dollars, given in nanos. A usage without priced calls has no known cost.
export function cost(usage) {
  if (!usage || !usage.priced_calls && !usage.cost_nanos) return "–";
  return dollars((usage.cost_nanos || 0) / 1e9);
}

export function dollars(n) {
  if (n === 0) return "$0.00";
  if (n < 1) return "$" + (n < 0.0005 ? n.toPrecision(1) : n.toFixed(3));
  return "$" + n.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export function count(n) {
  if (n === undefined || n === null) return "–";
  if (n >= 1e9) return (n / 1e9).toFixed(1) + " B";
  if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
  return n.toLocaleString("en");
}

export const percent = (part, all) => (all ? Math.round(100 * part / all) + " %" : "–");

export const many = (n, one, more = one + "s") => n.toLocaleString("en") + " " + (n === 1 ? one : more);

// Characters that change the direction of what follows are shown, so that no text can pose as another one.
const turning = /[\u202A-\u202E\u2066-\u2069\u200E\u200F\u061C]/g;
export const safe = (text) => String(text ?? "").replace(turning, (c) => "⟨U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");

// short leaves out the middle of a long id.
export const short = (id) => (id.length > 22 ? id.slice(0, 12) + "…" + id.slice(-8) : id);

// brief is a value in a few words: for the line of a tool's call.
export function brief(value, limit = 80) {
  if (value === undefined || value === null) return "";
  const text = typeof value !== "object" ? String(value)
    : Object.values(value).filter((v) => v !== null && v !== "" && typeof v !== "object").slice(0, 4).map(String).join(", ");
  return safe(text.length > limit ? text.slice(0, limit) + "…" : text);
}

export const title = (s) => safe(s.title || s.opening || s.id);
