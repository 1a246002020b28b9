// Who may connect: a caller that signs the path and the time with one of the worker's secrets.

const tolerance = 300; // seconds

function bytes(hex) {
	return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

// signed reports whether a MAC is that of a text under a secret.
export async function signed(secret, text, mac) {
	const encoder = new TextEncoder();
	const key = await crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
	return crypto.subtle.verify("HMAC", key, mac, encoder.encode(text));
}

// admit returns the response that refuses a request, or null. During a rotation, two secrets are valid. A caller whose
// clock is wrong learns the time from the refusal.
export async function admit(request, env) {
	const secrets = [env.CAIRN_SECRET, env.CAIRN_SECRET_NEXT].filter(Boolean);
	if (secrets.length === 0) {
		return Response.json({ error: "the worker has no secret CAIRN_SECRET" }, { status: 503 });
	}
	const at = request.headers.get("cairn-time") ?? "";
	const mac = bytes(request.headers.get("cairn-mac") ?? "");
	const text = `cairn1\n${at}\n${new URL(request.url).pathname}`;
	for (const secret of secrets) {
		if (!(await signed(secret, text, mac))) {
			continue;
		}
		const now = Math.floor(Date.now() / 1000);
		if (Math.abs(Number(at) - now) <= tolerance) {
			return null;
		}
		return Response.json({ error: "the time of the signature is wrong" }, { status: 401, headers: { "cairn-time": String(now) } });
	}
	return Response.json({ error: "the signature is wrong" }, { status: 401 });
}
