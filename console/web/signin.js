// The sign-in: a token is exchanged for a session of the browser, or kept in this tab if the server has none.

import { html, useSignal, useState } from "./html.js";
import { signIn, unlinked } from "./api.js";
import { Logo } from "./icons.js";
import { root } from "./router.js";
import { safe } from "./format.js";

// provider is the name of the identity provider that signs users in; undefined for none.
const provider = document.querySelector('meta[name="cairn-provider"]')?.content;

// outcomes are how a sign-in by the provider ended that did not succeed.
const outcomes = { failed: "The sign-in did not succeed. Try again, or ask the administrator of this server.", unavailable: "The identity provider is not reached. Try again later." };

// begin is the address of the sign-in by the provider, which leads back to the current view.
function begin() {
  const query = new URLSearchParams(location.search);
  query.delete("sign_in");
  const search = query.toString();
  return root + "oidc/begin?" + new URLSearchParams({ next: location.pathname.slice(root.length) + (search && "?" + search) });
}

export function SignIn({ done }) {
  const [token, set] = useState("");
  const [wrong, fail] = useState("");
  const linked = useSignal(unlinked);
  const outcome = outcomes[new URLSearchParams(location.search).get("sign_in")];
  const [busy, setBusy] = useState(false);
  const send = async (ev) => {
    ev.preventDefault();
    setBusy(true);
    fail("");
    try {
      await signIn(token.trim());
      done();
    } catch (err) {
      fail(err.status === 401 || err.status === 403 ? "The server does not know this token." : err.message);
      set("");
    }
    setBusy(false);
  };
  return html`<main class="signin" id="main" tabindex="-1"><form onSubmit=${send}><${Logo} /><h1>Sign in</h1>
    ${provider && html`<a class="btn lg pri" target="_self" href=${begin()}>Sign in with ${safe(provider)}</a>${outcome && !wrong && html`<p class="wrong" role="alert">${outcome}</p>`}<p class="sm t2">Or with a token:</p>`}
    <label for="token">Token</label><input class="field" id="token" type="password" autocomplete="current-password" required autofocus=${!provider} value=${token} aria-describedby="token-note" onInput=${(ev) => set(ev.target.value)} />
    <p class="sm t2" id="token-note">A token of this server. Its administrator has it.</p>${linked && !wrong && html`<p class="wrong" role="alert">This link has been used or has expired. Start the console again for another one.</p>`}${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    <button class=${"btn lg" + (provider ? "" : " pri")} disabled=${busy || !token.trim()}>Sign in</button></form></main>`;
}
