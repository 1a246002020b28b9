// Markdown as elements. There is no raw HTML: its text is shown. Links lead to http and https only, and images of other hosts
// are links, since loading them would report the reader to the host.

import { html, useMemo, useState } from "./html.js";
import { Copy } from "./parts.js";
import { safe } from "./format.js";

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^ {0,3}([-*_])\s*(\1\s*){2,}$/;
const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const divider = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

// blocks cuts a text into the texts of its blocks. Text that is still written changes only the last one.
export function blocks(text) {
  const out = [];
  let lines = [], open = "";
  const end = () => {
    if (lines.length) out.push(lines.join("\n"));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const mark = fence.exec(line);
    if (open) {
      lines.push(line);
      if (mark && mark[1].startsWith(open) && line.trim() === mark[1]) {
        open = "";
        end();
      }
    } else if (mark) {
      end();
      open = mark[1];
      lines.push(line);
    } else if (!line.trim()) {
      if (lines.length && item.test(lines[0])) lines.push(line); // a list may go on
      else end();
    } else {
      if (lines.length && !lines.at(-1).trim() && !item.test(line) && !/^\s{2,}/.test(line)) end();
      lines.push(line);
    }
  }
  end();
  return out;
}

// Markdown shows a text. Each block is parsed when its text changes, so a growing answer costs its last block.
export function Markdown({ text }) {
  return blocks(text).map((block, i) => html`<${Block} key=${i} text=${block} />`);
}

function Block({ text }) {
  return useMemo(() => parse(text), [text]);
}

function parse(text) {
  const lines = text.split("\n");
  const mark = fence.exec(lines[0]);
  if (mark) {
    const closed = lines.length > 1 && fence.test(lines.at(-1));
    return html`<${Code} language=${mark[2]} text=${lines.slice(1, closed ? -1 : undefined).join("\n")} />`;
  }
  if (lines.length > 1 && lines[0].includes("|") && divider.test(lines[1])) return table(lines);
  if (item.test(lines[0])) return listOf(lines.filter((l, i) => l.trim() || lines.slice(i).some((x) => x.trim())));
  const out = [];
  let words = [];
  const paragraph = () => {
    if (words.length) out.push(html`<p>${inline(words.join("\n"))}</p>`);
    words = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i], head = heading.exec(line);
    if (head) {
      paragraph();
      out.push(html`<p class="h${head[1].length}" role="heading" aria-level=${Math.min(6, head[1].length + 2)}>${inline(head[2])}</p>`);
    } else if (rule.test(line)) {
      paragraph();
      out.push(html`<hr />`);
    } else if (/^ {0,3}>/.test(line)) {
      paragraph();
      const quoted = [];
      while (i < lines.length && /^ {0,3}>/.test(lines[i])) quoted.push(lines[i++].replace(/^ {0,3}> ?/, ""));
      i--;
      out.push(html`<blockquote>${blocks(quoted.join("\n")).map(parse)}</blockquote>`);
    } else if (item.test(line)) {
      paragraph();
      out.push(listOf(lines.slice(i)));
      return out;
    } else {
      words.push(line);
    }
  }
  paragraph();
  return out;
}

// listOf returns a list of lines, with the lists that are nested by their indent.
function listOf(lines) {
  const first = item.exec(lines[0]), indent = first[1].length, ordered = /\d/.test(first[2]);
  const items = [];
  for (const line of lines) {
    const m = item.exec(line);
    if (m && m[1].length <= indent) items.push({ text: [m[3]], below: [] });
    else if (m || items.at(-1).below.length && line.trim()) items.at(-1).below.push(line);
    else if (line.trim()) items.at(-1).text.push(line.trim());
  }
  const rows = items.map((i) => html`<li>${inline(i.text.join("\n"))}${i.below.length > 0 && nested(i.below)}</li>`);
  return ordered ? html`<ol class="md" start=${parseInt(first[2], 10)}>${rows}</ol>` : html`<ul class="md">${rows}</ul>`;
}

const nested = (lines) => (item.test(lines[0]) ? listOf(lines) : html`<p>${inline(lines.join("\n"))}</p>`);

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\\|/g, "|"));
}

function table(lines) {
  const side = cells(lines[1]).map((c) => (/^-+:$/.test(c) ? "num" : ""));
  const cell = (tag, text, i) => html`<${tag} class=${side[i]} dir="auto">${inline(text)}<//>`;
  return html`<div class="md" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${cells(lines[0]).map((c, i) => cell("th", c, i))}</tr></thead>
    <tbody>${lines.slice(2).map((l) => html`<tr>${cells(l).map((c, i) => cell("td", c, i))}</tr>`)}</tbody></table></div>`;
}

// Code is a block of code with a button that copies it.
export function Code({ language, text }) {
  return html`<div class="codeblock"><div class="codehead"><span>${safe(language)}</span><${Copy} text=${text} /></div>
    <pre class="code" tabindex="0"><code>${text}</code></pre></div>`;
}

const spans = [
  [/^`+/, code],
  [/^!\[([^\]]*)\]\(\s*<?([^\s)>]+)>?[^)]*\)/, (m) => html`<${Picture} url=${m[2]} name=${m[1]} />`],
  [/^\[((?:[^\]\\]|\\.)+)\]\(\s*<?([^\s)>]+)>?[^)]*\)/, (m) => link(m[2], inline(m[1]))],
  [/^<(https?:\/\/[^\s>]+)>/, (m) => link(m[1], m[1])],
  [/^https?:\/\/[^\s<>()\[\]]+[^\s<>()\[\].,;:!?'"*_]/, (m) => link(m[0], m[0])],
  [/^(\*\*|__)(?=\S)([\s\S]*?\S)\1/, (m) => html`<b>${inline(m[2])}</b>`],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m) => html`<s>${inline(m[1])}</s>`],
  [/^\*(?=\S)([^*]*?[^\s*])\*/, (m) => html`<em>${inline(m[1])}</em>`],
  [/^_(?=\S)([^_]*?[^\s_])_(?![A-Za-z0-9])/, (m) => html`<em>${inline(m[1])}</em>`],
  [/^(?: {2,}|\\)\n/, () => html`<br />`],
  [/^\\([!-/:-@[-`{-~])/, (m) => m[1]],
];

function code(m, rest) {
  const end = rest.indexOf(m[0], m[0].length);
  if (end < 0) return null;
  m.length = end + m[0].length;
  return html`<code class="in">${rest.slice(m[0].length, end).trim()}</code>`;
}

// inline returns the spans of a text.
export function inline(text) {
  const out = [];
  let plain = "", before = "";
  for (let i = 0; i < text.length; ) {
    let done = false;
    if (/[`![<h*_~\\ ]/.test(text[i]) && !(/[A-Za-z0-9]/.test(before) && /[h_]/.test(text[i]))) {
      const rest = text.slice(i);
      for (const [pattern, make] of spans) {
        const m = pattern.exec(rest);
        if (!m) continue;
        const took = { 0: m[0], 1: m[1], 2: m[2], length: m[0].length };
        const made = make(took, rest);
        if (made === null) continue;
        if (plain) out.push(safe(plain));
        plain = "";
        out.push(made);
        i += took.length;
        before = rest[took.length - 1];
        done = true;
        break;
      }
    }
    if (!done) plain += before = text[i++];
  }
  if (plain) out.push(safe(plain));
  return out;
}

const web = (url) => /^https?:\/\//i.test(url);

function link(url, shown) {
  return web(url) ? html`<a class="link" href=${url} target="_blank" rel="noopener noreferrer">${shown}</a>` : html`<span title=${safe(url)}>${shown}</span>`;
}

// Picture is an image that a text refers to. The policy of the page loads no image of another host, so it is a link.
function Picture({ url, name }) {
  const [broken, fail] = useState(false);
  if (/^data:image\/(png|jpeg|gif|webp|avif);/i.test(url) && !broken) return html`<img class="pic" src=${url} alt=${safe(name)} onError=${() => fail(true)} />`;
  return link(url, [html`<span class="t3">Image: </span>`, safe(name) || url]);
}
