// The earlier versions of a message: the conversation as it was before an edit. It is read only, and can continue as a session
// of its own.

import { html, useState } from "./html.js";
import { ask, may, mayRun, of } from "./api.js";
import { go, href } from "./router.js";
import { Icon } from "./icons.js";
import { toast } from "./parts.js";
import { outlineOf, snapshotOf } from "./live.js";
import { begin } from "./transcript.js";

// branchesOf are the earlier versions of a message, oldest first.
const branchesOf = (live, id) => (id ? live.branches.filter((b) => b.message_id === id).reverse() : []);

// useVersions is the version that is shown instead of the newest one. show(item, k) reads the k-th version of a message, and
// of(item) is { at, of }: which one is shown, of how many; null for a message that was not edited.
export function useVersions(live) {
  const [version, set] = useState(null);
  const show = async (item, k) => {
    const branch = branchesOf(live, item.id)[k];
    if (!branch) return set(null);
    const snapshot = await snapshotOf(branch.id), outline = outlineOf(branch.id, live.life.signal, () => live.changed());
    await outline.extend(snapshot.offset || 0);
    set({ id: item.id, at: k, branch, t: begin(snapshot), outline });
  };
  const countOf = (item) => {
    const n = branchesOf(live, item.id).length;
    return n && (!version || version.id === item.id) ? { at: version ? version.at : n, of: n + 1 } : null;
  };
  return { version, show, of: countOf };
}

// Arrows page through the versions of a message.
export function Arrows({ at, of: all, show }) {
  return html`<span class="ver" role="group" aria-label="Versions of this message"><button type="button" class="btn quiet icon" aria-label="Previous version" disabled=${at === 0} onClick=${() => show(at - 1)}>‹</button>
    <span>${at + 1} of ${all}</span><button type="button" class="btn quiet icon" aria-label="Next version" disabled=${at + 1 === all} onClick=${() => show(at + 1)}>›</button></span>`;
}

// Older is the bar below an earlier version. chat is set for end users.
export function Older({ version, count, newest, chat }) {
  const [sending, send] = useState(false);
  const proceed = async () => {
    send(true);
    try {
      const made = await ask("POST", "sessions/" + of(version.branch.id) + "/branch", {});
      go(href([chat ? "chat" : "s", made.id]));
    } catch (err) {
      toast(err.message, { error: true });
      send(false);
    }
  };
  return html`<div class="older" role="status"><span class="grow"><${Icon} name="retry" />This is version ${version.at + 1} of ${count.of}.</span>
    ${may("user") && mayRun() && html`<button type="button" class="btn" disabled=${sending} onClick=${proceed}>Continue from here</button>`}<button type="button" class="btn" onClick=${newest}>Newest version</button></div>`;
}
