// Usage: what was spent, by day, model, assistant and user, as charts and as tables.

import { html, useEffect, useLoad } from "./html.js";
import { get, now } from "./api.js";
import { query, route } from "./router.js";
import { Empty, Failure, Loading } from "./parts.js";
import { count, dollars, many, percent, safe, span } from "./format.js";

const dimensions = { model: "Model", agent: "Assistant", user: "User", tool: "Tool", tag: "Tag" };
const field = { model: "model", agent: "agent", user: "user_id", tool: "tool", tag: "tag" };

const day = (time) => new Date(time).toISOString().slice(0, 10);

// all reads the groups of a query, up to 1000.
async function all(params, signal) {
  const out = [];
  let cursor;
  do {
    const page = await get("usage", { ...params, limit: 100, cursor }, { signal });
    out.push(...page.items);
    cursor = page.next;
  } while (cursor && out.length < 1000);
  return out;
}

const nanos = (g) => g.usage.cost_nanos || 0;

function total(groups) {
  const sum = { cost: 0, calls: 0, input: 0, output: 0, cached: 0, wait: 0 };
  for (const { usage: u } of groups) {
    sum.cost += (u.cost_nanos || 0) / 1e9;
    sum.calls += u.model_calls || 0;
    sum.input += u.input_tokens || 0;
    sum.output += u.output_tokens || 0;
    sum.cached += u.cached_tokens || 0;
    sum.wait += u.wait_seconds || 0;
  }
  return sum;
}

export function Usage() {
  const q = route.value.query, by = q.get("by") in dimensions ? q.get("by") : "model", length = Number(q.get("days") || 14);
  const to = q.get("to") || day(now()), from = q.get("from") || day(Date.parse(to) - (length - 1) * 86400e3);
  const filter = { agent: q.get("agent"), user_id: q.get("user"), model: q.get("model"), tag: q.get("tag") };
  const { value, error, again } = useLoad(async (signal) => {
    const range = { from, to, ...filter };
    const before = { ...filter, to: day(Date.parse(from) - 86400e3), from: day(Date.parse(from) - (Date.parse(to) - Date.parse(from)) - 86400e3) };
    const [days, sum, last, agents, users] = await Promise.all([all({ ...range, by: ["day", by] }, signal), all(range, signal), all(before, signal), all({ ...range, by: "agent" }, signal), all({ ...range, by: "user" }, signal)]);
    return { days, sum: total(sum), last: total(last), agents, users };
  }, [q.toString(), from, to, by]);
  useEffect(() => { document.title = "Usage · Cairn"; }, []);
  const today = value ? value.days.filter((g) => g.day === day(now())).reduce((s, g) => s + nanos(g), 0) / 1e9 : 0;
  const chip = (name, key, options, current) => html`<label class="chip">${name} <select aria-label=${name} value=${current} onChange=${(ev) => query({ [key]: ev.target.value, from: "", to: "" })}>${options.map(([v, n]) => html`<option value=${v} selected=${v === current}>${n}</option>`)}</select></label>`;
  const text = (name, key) => html`<label class=${"chip" + (q.get(key) ? " on" : "")}>${name} <input aria-label=${name} placeholder="any" value=${q.get(key) || ""} onChange=${(ev) => query({ [key]: ev.target.value.trim() })} /></label>`;
  return html`<header class="head"><div class="grow"><h1>Usage</h1><p class="first">${value && html`<b>${dollars(today)} today</b>, ${dollars(value.sum.cost)} in ${many(length, "day")}.${growth(value)}`}</p></div>
      <div class="tools only-l">${value && html`<a class="btn" download=${"usage-" + from + "-" + to + ".csv"} href=${csv(value.days, by)}>CSV</a>`}</div></header>
    <div class="bar">${chip("Range", "days", [["7", "7 days"], ["14", "14 days"], ["30", "30 days"], ["90", "90 days"]], String(length))}${chip("Group by", "by", Object.entries(dimensions).map(([k, v]) => [k, v.toLowerCase()]), by)}${text("Assistant", "agent")}${text("User", "user")}${text("Tag", "tag")}
      <span class="grow"></span><span class="t3 sm only-l">Days in UTC</span></div>
    <div class="scroll" tabindex="0" role="region" aria-label="Figures">${error && !value ? html`<${Failure} what="The usage did not load." error=${error} again=${again} />` : !value ? html`<${Loading} lines=${6} />`
      : value.days.length === 0 ? html`<${Empty} title="Nothing was used." text=${from + " to " + to} />` : html`<div class="grid g1"><${Figures} v=${value} /><${Chart} groups=${value.days} by=${by} from=${from} to=${to} />
        <${Table} title="By assistant" name="Assistant" groups=${value.agents} of=${(g) => g.agent} />
        <${Days} groups=${value.days} by=${by} /><${Shares} groups=${value.users} /></div>`}</div>`;
}

function growth(v) {
  if (!v.last.cost || !v.sum.cost) return "";
  const p = Math.round(100 * (v.sum.cost / v.last.cost - 1));
  return p === 0 ? " As much as in the days before." : " " + Math.abs(p) + " % " + (p > 0 ? "more" : "less") + " than in the days before.";
}

function Figures({ v }) {
  const s = v.sum;
  const list = [["Cost", dollars(s.cost), v.last.cost ? dollars(v.last.cost) + " before" : "nothing before"], ["Model calls", count(s.calls), s.calls ? dollars(s.cost / s.calls) + " a call" : ""],
    ["Tokens", count(s.input + s.output), count(s.input) + " in, " + count(s.output) + " out"], ["Read from cache", percent(s.cached, s.input), count(s.cached) + " tokens"], ["Waited for people", s.wait ? span(s.wait) : "–", ""]];
  return html`<div class="kpis full">${list.map(([l, value, sub]) => html`<div class="kpi"><div class="l">${l}</div><div class="v">${value}</div><div class="s clip">${sub}</div></div>`)}</div>`;
}

// Chart is a bar a day, in three tints: the two largest groups and the rest.
function Chart({ groups, by, from, to }) {
  const sums = new Map();
  for (const g of groups) sums.set(g[field[by]] || "", (sums.get(g[field[by]] || "") || 0) + nanos(g));
  const names = [...sums].sort((a, b) => b[1] - a[1]).map(([n]) => n).filter(Boolean);
  const tints = names.length > 3 ? [...names.slice(0, 2), "other"] : names;
  const days = [];
  for (let t = Date.parse(from); t <= Date.parse(to) && days.length < 100; t += 86400e3) days.push(day(t));
  const parts = days.map((d) => {
    const here = groups.filter((g) => g.day === d);
    return tints.map((n, i) => here.filter((g) => (n === "other" && i === 2 ? names.indexOf(g[field[by]]) >= 2 : g[field[by]] === n)).reduce((s, g) => s + nanos(g), 0) / 1e9);
  });
  const tops = parts.map((p) => p.reduce((a, b) => a + b, 0)), top = nice(Math.max(...tops, 0.000001));
  const width = 612 / days.length, bar = Math.min(30, width * 0.7), y = (v) => 152 - v / top * 140;
  const peak = tops.indexOf(Math.max(...tops));
  const each = Math.ceil(days.length / 15);
  return html`<section class="panel" aria-label="Cost per day"><div class="ph"><h2>Cost per day</h2><span class="grow"></span>${tints.map((n, i) => html`<span class="key"><i class=${"c" + (i + 1)}></i><span class="clip">${safe(n)}</span></span>`)}</div><div class="cpad">
    <svg class="chart" viewBox="0 0 660 176" role="img" aria-label=${"Cost per day by " + by + ". Highest: " + dollars(tops[peak]) + " on " + days[peak] + ". The table below has each day."}>
      ${[0, 1, 2, 3].map((i) => html`<line class="gl" x1="44" x2="656" y1=${y(top * i / 3)} y2=${y(top * i / 3)} /><text x="38" y=${y(top * i / 3) + 4} text-anchor="end">${tick(top * i / 3)}</text>`)}
      ${parts.map((p, d) => {
        let base = 0;
        const x = 44 + d * width + (width - bar) / 2;
        return html`${p.map((v, i) => {
          const rect = v > 0 && html`<rect class=${"c" + (i + 1)} x=${x} y=${y(base + v)} width=${bar} height=${Math.max(0.5, y(base) - y(base + v) - 1)} rx="1" />`;
          base += v;
          return rect;
        })}${d % each === 0 && html`<text x=${x + bar / 2} y="170" text-anchor="middle">${Number(days[d].slice(8))}</text>`}${d === peak && tops[d] > 0 && html`<text x=${x + bar / 2} y=${y(tops[d]) - 4} text-anchor="middle">${dollars(tops[d])}</text>`}`;
      })}</svg></div></section>`;
}

// nice is a round number at or above v, which thirds divide.
function nice(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  return [1.2, 1.5, 3, 6, 9, 12].map((n) => n * power).find((n) => n >= v * 1.08) || 15 * power;
}
const tick = (v) => (v === 0 ? "$0" : v < 1 ? "$" + Number(v.toPrecision(2)) : "$" + Math.round(v * 100) / 100);

function Table({ title, name, groups, of }) {
  const rows = [...groups].sort((a, b) => nanos(b) - nanos(a)).slice(0, 12);
  return html`<section class="panel" aria-label=${title}><div class="ph"><h2>${title}</h2></div><table class="t"><thead><tr><th scope="col">${name}</th><th scope="col" class="num">Cost</th><th scope="col" class="num">A call</th><th scope="col" class="num">Cache</th></tr></thead>
    <tbody>${rows.map((g) => html`<tr><th scope="row" dir="auto" title=${safe(of(g))}>${safe(of(g) || "–")}</th><td class="num">${dollars(nanos(g) / 1e9)}</td><td class="num">${g.usage.model_calls ? dollars(nanos(g) / 1e9 / g.usage.model_calls) : "–"}</td><td class="num">${percent(g.usage.cached_tokens || 0, g.usage.input_tokens)}</td></tr>`)}</tbody></table></section>`;
}

function Days({ groups, by }) {
  const rows = [...groups].sort((a, b) => b.day.localeCompare(a.day) || nanos(b) - nanos(a)).slice(0, 60);
  return html`<section class="panel" aria-label="Each day"><div class="ph"><h2>Each day by ${dimensions[by].toLowerCase()}</h2></div><table class="t"><thead><tr><th scope="col">Day</th><th scope="col">${dimensions[by]}</th><th scope="col" class="num">Cost</th><th scope="col" class="num">Calls</th><th scope="col" class="num only-lt">Tokens</th></tr></thead>
    <tbody>${rows.map((g) => html`<tr><td>${g.day}</td><th scope="row" dir="auto" title=${safe(g[field[by]])}>${safe(g[field[by]] || "–")}</th><td class="num">${dollars(nanos(g) / 1e9)}</td><td class="num">${count(g.usage.model_calls || g.usage.tool_calls || 0)}</td><td class="num only-lt">${count((g.usage.input_tokens || 0) + (g.usage.output_tokens || 0))}</td></tr>`)}</tbody></table></section>`;
}

function Shares({ groups }) {
  const sum = groups.reduce((s, g) => s + nanos(g), 0) || 1;
  const rows = [...groups].sort((a, b) => nanos(b) - nanos(a)), top = rows.slice(0, 8), rest = rows.slice(8);
  const list = top.map((g) => [g.user_id || "–", nanos(g)]);
  if (rest.length) list.push([many(rest.length, "other"), rest.reduce((s, g) => s + nanos(g), 0)]);
  return html`<section class="panel" aria-label="By user"><div class="ph"><h2>By user</h2></div><table class="t"><thead><tr><th scope="col">User</th><th scope="col">Share</th><th scope="col" class="num">Cost</th></tr></thead>
    <tbody>${list.map(([name, n]) => html`<tr><th scope="row" dir="auto" title=${safe(name)}>${safe(name)}</th><td><svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${percent(n, sum)}><rect class="bg" width="100" height="6" /><rect width=${100 * n / sum} height="6" /></svg></td><td class="num">${dollars(n / 1e9)}</td></tr>`)}</tbody></table></section>`;
}

function csv(groups, by) {
  const cell = (v) => '"' + String(v ?? "").replace(/"/g, '""').replace(/^([=+\-@])/, "'$1") + '"'; // a sheet runs no formula
  const lines = [["day", by, "cost_usd", "model_calls", "input_tokens", "output_tokens", "cached_tokens"], ...groups.map((g) => [g.day, g[field[by]], g.cost, g.usage.model_calls || 0, g.usage.input_tokens || 0, g.usage.output_tokens || 0, g.usage.cached_tokens || 0])];
  return "data:text/csv;charset=utf-8," + encodeURIComponent(lines.map((l) => l.map(cell).join(",")).join("\r\n"));
}
