// The front of a Go server that runs in a container: an object that starts the container when a request comes, passes the
// request on, and stops the container when none has come for a while.

import { DurableObject } from "cloudflare:workers";

const port = 8080;
const idle = 600_000; // milliseconds without a request after which the container is stopped, and half as many at least

function unavailable(status, detail) {
	const headers = { "Content-Type": "application/problem+json", "Retry-After": "5" };
	return Response.json({ title: "Server is unavailable", status, detail, code: "unavailable" }, { status, headers });
}

export class ServerObject extends DurableObject {
	up = false; // whether the server has answered since it was last lost
	open = 0; // responses that are being read
	starting = null;
	patience = 20_000; // milliseconds for the server to start
	pause = 200; // milliseconds between two attempts to reach it

	// reach passes a request on to the container, which it starts if necessary. A subclass may reach another server.
	reach(request) {
		const { container } = this.ctx;
		if (!container.running) {
			container.start({ enableInternet: true, env: JSON.parse(this.env.CAIRN_SERVER_ENV ?? "{}") });
		}
		return container.getTcpPort(port).fetch(new Request(request.url.replace(/^https:/, "http:"), request));
	}

	// fetch answers 503 to a request that no server was given, and 502 to one that a server may have served. It repeats a GET
	// that was lost.
	async fetch(request) {
		const now = Date.now();
		if ((await this.ctx.storage.getAlarm()) < now + idle / 2) {
			await this.ctx.storage.setAlarm(now + idle);
		}
		this.up &&= this.ctx.container?.running ?? true;
		for (let repeat = request.method === "GET"; ; repeat = false) {
			this.starting ??= this.start().finally(() => (this.starting = null));
			await this.starting;
			if (!this.up) {
				return unavailable(503, "the server does not start");
			}
			try {
				return this.counted(await this.reach(request));
			} catch {
				this.up = false;
				if (!repeat) {
					return unavailable(502, "the server was lost, and may have served the request");
				}
			}
		}
	}

	// start returns when the server answers, or has not done so for too long.
	async start() {
		for (const end = Date.now() + this.patience; !this.up && Date.now() < end; ) {
			try {
				const response = await this.reach(new Request("http://server/healthz", { signal: AbortSignal.timeout(this.patience) }));
				await response.body?.cancel();
				this.up = response.ok;
			} catch {
				// nothing listens yet
			}
			if (!this.up) {
				await scheduler.wait(this.pause);
			}
		}
	}

	// counted returns a response that is open until its body ends: an event stream keeps the container.
	counted(response) {
		if (!response.body) {
			return response;
		}
		const { readable, writable } = new TransformStream();
		this.open++;
		response.body.pipeTo(writable).catch(() => (this.up = false)).finally(() => this.open--);
		return new Response(readable, response);
	}

	async alarm() {
		if (this.open > 0) {
			await this.ctx.storage.setAlarm(Date.now() + idle);
		} else if (this.ctx.container?.running) {
			this.ctx.container.signal(15); // the server drains and ends
		}
	}
}
