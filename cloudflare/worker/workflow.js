// Workflows drive the runs of a Go server by requests to its route /advance: one instance for each run, from its begin, or
// from an answer that continues it, to its end or the next suspension. An instance knows its ticket and nothing else.

import { WorkflowEntrypoint } from "cloudflare:workers";
import { idOf, refuse } from "./ticket.js";

const wait = 50; // seconds that a request waits for its step, below the timeouts of proxies
const maxBody = 65_536; // bytes of a request to begin a run
const longest = 364 * 24 * 60 * 60 * 1000; // milliseconds that an instance may sleep

export class RunWorkflow extends WorkflowEntrypoint {
	// second is the unit of pauses, in milliseconds. Requests without an answer are repeated for more than an hour: the server
	// may be away.
	second = 1_000;
	most = 1_000; // requests of an instance; every plan permits a few steps more

	// run may be called again with the answers of the steps that are done, so it depends on nothing else.
	async run(event, step) {
		let { ticket } = event.payload;
		let deadline; // that the instance has slept for
		const config = { retries: { limit: 12, delay: this.second, backoff: "exponential" }, timeout: `${2 * wait} seconds` };
		for (let n = 1, busy = 0; n <= this.most; n++) {
			const answer = await step.do(`advance ${n}`, config, () => advance(this.env, ticket));
			if (answer.state === "busy") { // another request drives the step
				await step.sleep(`busy ${n}`, this.second * Math.min(answer.after * 2 ** busy++, 30));
				continue;
			}
			busy = 0;
			if (answer.until && answer.until !== deadline) { // the next request wakes the server, whose worker closes the call
				deadline = answer.until;
				const rest = Date.parse(deadline) - Date.now();
				await step.sleep(`deadline ${n}`, Math.max(1, Math.min(rest, longest)));
			} else if (answer.ticket) {
				ticket = answer.ticket;
			} else {
				return answer;
			}
		}
		return { state: "continued", id: await step.do("continue", config, () => begin(this.env, ticket)) };
	}
}

// advance makes one request. It throws if the request is to be repeated.
async function advance(env, ticket) {
	const response = await call(env, "/advance", {
		method: "POST",
		headers: { "Content-Type": "application/json" },
		body: JSON.stringify({ ticket, wait }),
	});
	const { status } = response;
	if (status === 200) {
		return response.json();
	}
	const { code } = await response.json().catch(() => ({}));
	if (status === 409) {
		return { state: "busy", after: Number(response.headers.get("retry-after")) || 1 };
	}
	if ([400, 401, 404, 410].includes(status)) {
		return { state: "refused", code }; // if the run has not ended, a worker of the server takes it over
	}
	throw new Error(`status ${status} ${code}`);
}

// call makes a request to the Go server: by its front, or at its URL.
function call(env, path, init) {
	if (env.SERVERS) {
		return env.SERVERS.getByName("server").fetch(`http://server${path}`, init);
	}
	return fetch(env.CAIRN_SERVER.replace(/\/$/, "") + path, init);
}

// begin creates the instance of a ticket, unless it exists, and returns its id.
async function begin(env, ticket) {
	const id = await idOf(ticket);
	try {
		await env.RUNS.create({ id, params: { ticket } });
	} catch (error) {
		await env.RUNS.get(id).catch(() => Promise.reject(error));
	}
	return id;
}

// start answers POST /runs, by which a server gives a run away: {"ticket": …}.
export async function start(request, env) {
	if (request.method !== "POST") {
		return refusal(405, "the method is POST");
	}
	if (!(Number(request.headers.get("content-length") ?? Infinity) <= maxBody)) {
		return refusal(413, "the body is too large, or does not say how large it is");
	}
	const { ticket } = (await request.json().catch(() => null)) ?? {};
	const refused = await refuse(ticket, env);
	return refused ? refusal(...refused) : Response.json({ id: await begin(env, ticket) }, { status: 202 });
}

function refusal(status, error) {
	return Response.json({ error }, { status });
}
