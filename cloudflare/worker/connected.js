// An object that answers requests over hibernating WebSockets: JSON in text frames, one request or answer each.

import { DurableObject } from "cloudflare:workers";
import { Rows } from "./rows.js";

export const protocol = 1;

export class ConnectedObject extends DurableObject {
	constructor(ctx, env) {
		super(ctx, env);
		this.rows = new Rows(ctx.storage, () => this.create());
		ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
	}

	// fetch accepts a socket, which also keeps what hibernation would lose: the store that the object belongs to.
	fetch(request) {
		this.store = decodeURIComponent(new URL(request.url).pathname.split("/")[2]);
		const { 0: client, 1: server } = new WebSocketPair();
		this.ctx.acceptWebSocket(server);
		server.serializeAttachment({ store: this.store });
		server.send(JSON.stringify({ hello: protocol, ...this.rows.times() }));
		return new Response(null, { status: 101, webSocket: client });
	}

	async webSocketMessage(socket, text) {
		let id = 0;
		let answer;
		try {
			const request = JSON.parse(text);
			id = request.id;
			answer = await this.handle(request, socket);
		} catch (error) {
			answer = { error: String(error) };
		}
		socket.send(JSON.stringify({ id, ...this.rows.times(), ...answer }));
	}

	webSocketClose(socket) {
		socket.close();
	}

	// handle returns the answer to a request.
	async handle(request, socket) {
		switch (request.op) {
			case "read":
				return this.rows.read(request.ask, request.most);
			case "write":
				return this.write(request, socket);
			case "watch":
				socket.serializeAttachment({ store: this.store, watches: true });
				return {};
		}
		return { error: `unknown operation ${request.op}` };
	}

	async write(request, socket) {
		const answer = this.rows.write(request);
		if (answer.version) {
			this.wake(request, socket);
		}
		return answer;
	}

	// wake names to the watching sockets, except for the writer's, the owners of which a write says that they have grown.
	wake(request, writer) {
		if (!request.wake?.length) {
			return;
		}
		const text = JSON.stringify({ woke: request.wake });
		for (const socket of this.ctx.getWebSockets()) {
			if (socket !== writer && socket.deserializeAttachment()?.watches) {
				socket.send(text);
			}
		}
	}
}
