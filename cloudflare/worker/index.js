// The worker of Cairn. It has three parts, and each works without the others: the store on Durable Objects, the workflows
// that drive runs, and the front of a Go server in a container.

import { admit } from "./admit.js";
import { start } from "./workflow.js";

export { DirectoryObject } from "./directory.js";
export { ServerObject } from "./front.js";
export { TreeObject } from "./tree.js";
export { RunWorkflow } from "./workflow.js";

// A path is /v1/STORE/trees/=ROOT, /v1/STORE/memories/=KIND:NAME or /v1/STORE/directory. Each segment is percent-encoded.
function objectOf(env, path) {
	const [, version, store, kind, name, ...rest] = path.split("/").map(decodeURIComponent);
	if (version !== "v1" || !store || rest.length > 0) {
		return null;
	}
	if (name?.startsWith("=") && (kind === "trees" || kind === "memories")) {
		return env.TREES.getByName(JSON.stringify(kind === "trees" ? [store, name.slice(1)] : [store, kind, name.slice(1)]));
	}
	return kind === "directory" && name === undefined ? env.DIRECTORIES.getByName(store) : null;
}

export default {
	fetch(request, env) {
		const { pathname } = new URL(request.url);
		if (pathname === "/runs" && env.RUNS) {
			return start(request, env);
		}
		if (!pathname.startsWith("/v1/") && env.SERVERS) {
			return env.SERVERS.getByName("server").fetch(request);
		}
		return connect(request, env);
	},
};

// connect checks a client of the store, and passes its connection on to an object: one for each session tree and for
// each scope of memories, and one directory for each store.
async function connect(request, env) {
	const refused = await admit(request, env);
	if (refused) {
		return refused;
	}
	if (request.headers.get("upgrade") !== "websocket") {
		return Response.json({ error: "the store speaks over a WebSocket" }, { status: 426 });
	}
	let object;
	try {
		object = objectOf(env, new URL(request.url).pathname);
	} catch {
		object = null; // a segment is not percent-encoded text
	}
	return object ? object.fetch(request) : Response.json({ error: "unknown path or version" }, { status: 404 });
}
