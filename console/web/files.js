// The files of a session: those that it made for its user, and those of its workspace.

import { html, useLoad, useState } from "./html.js";
import { base, get, of, offered, raw, Problem, search } from "./api.js";
import { Empty, Failure, Loading, Panel, Time, toast } from "./parts.js";
import { safe } from "./format.js";

const size = (n) => (n === undefined ? "–" : n < 1024 ? n + " B" : n < 1 << 20 ? (n / 1024).toFixed(1) + " KB" : (n / (1 << 20)).toFixed(1) + " MB");

// save downloads a file of the API, with the rights of the tab.
async function save(path, name) {
  try {
    const res = await raw("GET", path);
    if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({})));
    const url = URL.createObjectURL(await res.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (err) {
    toast(err.message, { error: true });
  }
}

const last = (path) => path.slice(path.lastIndexOf("/") + 1);

// signed is the address of an artifact that needs no sign-in, below the console's own address of the API: the server may know
// itself by another one.
const signed = (path, a) => new URL(path + "/messages/" + a.message + "/files/" + a.file + new URL(a.url, base).search, base).href;

// Files lists the artifacts, newest first, and the workspace of a live session.
export function Files({ live }) {
  const path = "sessions/" + of(live.id), version = live.status?.session.version;
  const { value, error, again } = useLoad(async (signal) => {
    const artifacts = [];
    let cursor;
    do {
      const page = await get(path + "/artifacts", { limit: 100, cursor }, { signal });
      artifacts.push(...page.items);
      cursor = page.next;
    } while (cursor && artifacts.length < 1000);
    return { artifacts: artifacts.reverse(), more: !!cursor, workspace: await offered(path + "/workspace", { limit: 1 }, { signal }) };
  }, [live.id, version]);
  if (error && !value) return html`<${Failure} what="The files did not load." error=${error} again=${again} />`;
  if (!value) return html`<${Loading} />`;
  if (!value.artifacts.length && !value.workspace?.items.length) return html`<${Empty} title="The session has no files." text="Files that its tools publish appear here, and those of its workspace." />`;
  return html`<div class="scroll pad" tabindex="0" role="region" aria-label="Files"><div class="stack">
    <${Panel} title="For the user" note=${value.more ? "the first 1,000" : ""} none="The session has published no file." head=${[["Name"], ["Size", "num"], ["Made", "num"]]}
      rows=${value.artifacts.map((a) => [a.url ? html`<a class="link clip" href=${signed(path, a)} download=${safe(a.name)} title=${safe(a.media_type)} dir="auto">${safe(a.name)}</a>`
        : html`<button type="button" class="reset clip" onClick=${() => save(path + "/messages/" + a.message + "/files/" + a.file, a.name)} dir="auto">${safe(a.name)}</button>`, size(a.size), html`<${Time} time=${a.created_at} since />`])} />
    ${value.workspace && html`<${Workspace} path=${path} version=${version} />`}</div></div>`;
}

// Workspace lists the files of a workspace below a folder, of the last state or an earlier one.
function Workspace({ path, version }) {
  const [prefix, enter] = useState("");
  const [snapshot, choose] = useState("");
  const { value, error, again } = useLoad((signal) => get(path + "/workspace", { snapshot, prefix, limit: 200 }, { signal }), [path, version, prefix, snapshot]);
  const { value: states } = useLoad((signal) => get(path + "/workspace/snapshots", { newest: true, limit: 100 }, { signal }).catch(() => get(path + "/workspace/snapshots", { limit: 100 }, { signal })), [path, version]);
  if (error && !value) return html`<${Failure} what="The workspace did not load." error=${error} again=${again} />`;
  return html`<div class="row"><label class="chip">State <select aria-label="State of the workspace" value=${snapshot} onChange=${(ev) => choose(ev.target.value)}><option value="">the last</option>${(states?.items || []).map((s) => html`<option value=${s.id} selected=${s.id === snapshot}>${safe((s.tool || "restored") + " · message " + (s.message + 1))}</option>`)}</select></label>
      <label class="chip grow">Below <input class="grow" aria-label="Beginning of the paths" placeholder="src/" value=${prefix} onChange=${(ev) => enter(ev.target.value.trim())} /></label></div>
    <${Panel} title="Workspace" note=${value?.next ? "the first 200 paths" : ""} none="It has no such files." head=${[["Path"], ["Size", "num"]]} rows=${(value?.items || []).map((f) => [f.type === "file"
      ? html`<button type="button" class="reset clip" title=${safe(f.path)} onClick=${() => save(path + "/workspace/file" + search({ path: f.path, snapshot }), last(f.path))} dir="auto">${safe(f.path)}</button>` : html`<span dir="auto" title=${safe(f.target)}>${safe(f.path)}${f.target ? " → " + safe(f.target) : "/"}</span>`, f.type === "file" ? size(f.size) : "–"])} />`;
}
