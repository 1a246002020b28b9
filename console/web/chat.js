// The pages on which a conversation begins, and the end user's chat: no words of the console, no costs, no raw errors.

import { html, useEffect, useLoad, useEvery, useState, useSignal } from "./html.js";
import { ask, get, me, newID, now, of, sessions, signOut } from "./api.js";
import { go, href, route } from "./router.js";
import { Icon, Logo } from "./icons.js";
import { Dialog, Failure, Loading, Menu, Status, minute, toast } from "./parts.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { useLive } from "./session.js";
import { safe, title } from "./format.js";

// Begin chooses an assistant and sends the first message. open returns the address of the new session.
function Begin({ open, heading }) {
  const { value, error, again } = useLoad((signal) => get("agents", { limit: 100 }, { signal }), []);
  const list = (value?.items || []).filter((a) => a.startable !== false);
  const [name, pick] = useState("");
  const chosen = list.find((a) => a.name === (name || route.value.query.get("agent"))) || list[0];
  const send = async (text, files) => {
    const id = newID();
    await ask("POST", "start", { session_id: id, agent: chosen?.name, input: { text, files } }, { key: id });
    go(open(id));
  };
  if (error) return html`<${Failure} what="The assistants did not load." error=${error} again=${again} />`;
  if (!value) return html`<${Loading} />`;
  return html`<div class="scroll begin" tabindex="0" role="region" aria-label="Begin"><div class="conv"><h2 class="big">${heading}</h2>
      ${list.length > 1 && html`<label class="pick"><span class="lab">Assistant</span><select class="field" value=${chosen?.name} onChange=${(ev) => pick(ev.target.value)}>${list.map((a) => html`<option value=${a.name} selected=${a === chosen}>${safe(a.name)}</option>`)}</select></label>`}
      <p class="t2" dir="auto">${safe(chosen?.description || "")}</p></div></div>
    <${Composer} id="new" send=${send} placeholder=${chosen ? "Write to " + chosen.name : "Write a message"} />`;
}

// New is the console's page for a new session.
export function New() {
  useEffect(() => { document.title = "New session · Cairn"; }, []);
  return html`<header class="head"><div class="grow"><h1>New session</h1><p class="first">It begins with your message.</p></div></header><${Begin} heading="What should it do?" open=${(id) => href(["s", id])} />`;
}

export function Chat({ id }) {
  useSignal(minute);
  const [menu, show] = useState(false);
  useEffect(() => show(false), [id]);
  const { value, error, again } = useLoad((signal) => sessions({ latest: true, limit: 50, user_id: me.value.user || "" }, { signal }), [id]);
  useEvery(10_000, again, [id]);
  const list = value?.items || [];
  const today = new Date(now()).toDateString();
  const part = (name, keep) => {
    const some = list.filter((s) => (new Date(s.updated_at).toDateString() === today) === keep);
    return some.length > 0 && html`<h2>${name}</h2>${some.map((s) => html`<a key=${s.id} href=${href(["chat", s.thread_id || s.id])} aria-current=${(s.thread_id || s.id) === id || s.id === id ? "page" : undefined}><span class="clip grow" dir="auto">${title(s)}</span>
      ${s.status === "paused" && html`<span title="Waits for an answer"><${Status} status="paused" word=${html`<span class="vh">Waits for an answer</span>`} /></span>`}</a>`)}`;
  };
  return html`<div class=${"chat" + (menu ? " menu-open" : "")}><nav class="side" aria-label="Conversations"><div class="brand"><${Logo} />Chat</div><a class="btn lg new" href=${href("chat")}>New conversation</a>
      ${error && !value && html`<p class="t3">The list did not load.</p>`}<div class="chats" tabindex="0" role="region" aria-label="Earlier conversations">${part("Today", true)}${part("Earlier", false)}</div>
      <div class="foot">${me.value.user && html`<span class="clip grow"><bdi>${safe(me.value.user)}</bdi></span>`}${!onlyUser() && html`<a class="link" href=${href("sessions")}>Console</a>`}<button type="button" class="btn quiet sm" onClick=${signOut}>Sign out</button></div></nav>
    ${id ? html`<${Talk} key=${id} id=${id} menu=${() => show(!menu)} changed=${again} />` : html`<main id="main" tabindex="-1"><header><button type="button" class="btn quiet icon only-s" aria-label="Conversations" onClick=${() => show(!menu)}><${Icon} name="menu" /></button><h1 class="clip grow">New conversation</h1></header>
      <${Begin} heading="How can I help?" open=${(made) => href(["chat", made])} /></main>`}</div>`;
}

const onlyUser = () => me.value.roles?.length > 0 && me.value.roles.every((r) => r === "user");

function Talk({ id, menu, changed }) {
  const live = useLive(id);
  const row = live.status?.session;
  const [sure, confirm] = useState(false);
  const [name, rename] = useState(null);
  const shown = row ? title(row) : "";
  useEffect(() => { document.title = shown || "Chat"; }, [shown]);
  const failed = (err) => toast(err.message, { error: true });
  const remove = () => {
    confirm(false);
    ask("DELETE", "chat/" + of(id)).then(() => go(href("chat")), failed);
  };
  const save = (ev) => {
    ev.preventDefault();
    rename(null);
    ask("PATCH", "sessions/" + of(id), { title: name }).then(() => { live.settle(); changed(); }, failed);
  };
  return html`<main id="main" tabindex="-1"><header><button type="button" class="btn quiet icon only-s" aria-label="Conversations" onClick=${menu}><${Icon} name="menu" /></button>
      ${name === null ? html`<h1 class="clip grow" dir="auto" title=${shown}>${shown}</h1>` : html`<form class="row grow" onSubmit=${save}><h1 class="vh">${shown}</h1><input class="field" aria-label="Title" autofocus dir="auto" value=${name} onInput=${(ev) => rename(ev.target.value)} /><button class="btn pri">Save</button></form>`}
      <${Menu} label="More actions" actions=${[{ name: "Rename", run: () => rename(row?.title || "") }, { name: "Archive", run: () => ask("PATCH", "chat/" + of(id), { archived: true }).then(() => go(href("chat")), failed) }, { name: "Delete…", danger: true, run: () => confirm(true) }]} /></header>
    ${live.error ? html`<div class="scroll"><${Failure} what="This conversation is not there." error=${live.error} /></div>` : !live.t ? html`<${Loading} />` : html`<${Conversation} live=${live} chat />
      <${Composer} id=${id} running=${live.running} stop=${() => live.stop("The user has stopped it.").catch(failed)} send=${(text, files) => { live.follow?.(); return live.send(text, files); }}
        hint=${live.running ? "A message waits until this answer is complete." : row?.status === "paused" ? "A message waits until the question above is answered." : ""} />`}
    ${sure && html`<${Dialog} title="Delete this conversation?" close=${() => confirm(false)}><p class="t2">It can be restored for a while.</p><div class="row end"><button type="button" class="btn" onClick=${() => confirm(false)}>Cancel</button><button type="button" class="btn danger" onClick=${remove}>Delete</button></div><//>`}</main>`;
}
