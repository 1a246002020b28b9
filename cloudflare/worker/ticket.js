// Tickets of a Go server: references to runs, signed under a secret that the server shares with the worker.

import { signed } from "./admit.js";

function bytes(text) {
	return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
}

function content(text) {
	return JSON.parse(new TextDecoder().decode(bytes(text)));
}

// refuse returns why a text is not a ticket that may begin anything, as a status and a code, or null. During a rotation,
// two secrets are valid.
export async function refuse(ticket, env) {
	const secrets = [env.CAIRN_ADVANCE_SECRET, env.CAIRN_ADVANCE_SECRET_NEXT].filter(Boolean);
	if (secrets.length === 0) {
		return [503, "the worker has no secret CAIRN_ADVANCE_SECRET"];
	}
	try {
		const [text, mac] = ticket.split(".");
		for (const secret of secrets) {
			if (await signed(secret, `cairn ticket\0${text}`, bytes(mac))) {
				return content(text).expires > Date.now() / 1000 ? null : [410, "the ticket has expired"];
			}
		}
	} catch {
		// not a ticket
	}
	return [401, "the ticket is not valid"];
}

// idOf returns the id of the workflow instance that a ticket begins, at most 64 characters. It is the same for each ticket of
// a run at one step under one lease: a run that is resumed has another id, and one that is taken over another lease.
export async function idOf(ticket) {
	const { run } = content(ticket.split(".")[0]);
	const text = JSON.stringify([run.session_id, run.run_id, run.token, run.step]);
	const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
	return Array.from(new Uint8Array(sum), (one) => one.toString(16).padStart(2, "0")).join("");
}
