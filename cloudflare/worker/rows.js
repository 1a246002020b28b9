// The rows of an object: values by owner and key, each with the version of the write that put it there. The caller
// alone knows their meaning.

// A value is stored in pieces of at most this many UTF-16 units, of three bytes at most: a row may have 2 MB.
const piece = 600_000;

function pieces(value) {
	const list = [];
	for (let from = 0; from < value.length || list.length === 0; ) {
		let to = Math.min(from + piece, value.length);
		if (to < value.length && (value.charCodeAt(to - 1) & 0xfc00) === 0xd800) {
			to--; // not between the halves of a surrogate pair
		}
		list.push(value.slice(from, to));
		from = to;
	}
	return list;
}

export class Rows {
	// create creates the object's other tables. An object has no tables before its first write: a read of a session that
	// does not exist stores nothing.
	constructor(storage, create) {
		this.storage = storage;
		this.sql = storage.sql;
		this.create = create;
		this.empty = this.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'clock'").toArray().length === 0;
		this.last = this.empty ? 0 : this.sql.exec("SELECT last FROM clock").one().last;
	}

	// transaction does all that change does, or nothing.
	transaction(change) {
		this.storage.transactionSync(() => {
			if (this.empty) {
				this.createTables();
			}
			change();
		});
		this.empty = false;
	}

	createTables() {
		this.sql.exec(`
			CREATE TABLE row (
				owner TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL, more INTEGER NOT NULL,
				PRIMARY KEY (owner, key)) WITHOUT ROWID;
			CREATE TABLE piece (
				owner TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL,
				PRIMARY KEY (owner, key, number)) WITHOUT ROWID;
			CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL);
			INSERT INTO clock VALUES (1, 0);`);
		this.create();
	}

	// times returns the object's time and that of its last write, in microseconds.
	times() {
		return { now: Date.now() * 1000, last: this.last };
	}

	whole(owner, row) {
		let { value } = row;
		if (row.more > 0) {
			for (const next of this.sql.exec("SELECT value FROM piece WHERE owner = ? AND key = ? ORDER BY number", owner, row.key)) {
				value += next.value;
			}
		}
		return [row.key, value, row.version];
	}

	// get returns a row as [key, value, version], or null.
	get(owner, key) {
		if (this.empty) {
			return null;
		}
		const row = this.sql.exec("SELECT key, value, version, more FROM row WHERE owner = ? AND key = ?", owner, key).toArray()[0];
		return row ? this.whole(owner, row) : null;
	}

	// read answers the parts of a request. The answer is cut after the row whose value exceeds most characters in all.
	read(asks, most = Infinity) {
		const budget = { left: most };
		const rows = [];
		for (const ask of asks) {
			rows.push(this.answer(ask, budget));
			if (budget.left <= 0) {
				return { rows, cut: true };
			}
		}
		return { rows };
	}

	// answer reads one part of a request: a row; a row whose key is the value of another one; or the rows of an owner from
	// a key up to, and without, another one. A scan ends after limit rows, or with the first row whose value begins with
	// the text until, or with the budget. With sizes, it reads the numbers of characters of the values.
	answer(ask, budget) {
		const [owner, from, to] = ask.of;
		if (ask.how === "get") {
			return this.get(owner, from);
		}
		if (ask.how === "via") {
			const link = this.get(owner, from);
			return link && this.get(owner, link[1]);
		}
		if (this.empty) {
			return [];
		}
		const order = ask.newest ? "DESC" : "ASC";
		const found = this.sql.exec(
			`SELECT key, value, version, more FROM row WHERE owner = ? AND key >= ? AND key < ? ORDER BY key ${order} LIMIT ?`,
			owner, from, to, ask.limit ?? -1);
		const list = [];
		for (const row of found) {
			list.push(row);
			budget.left -= ask.sizes ? row.key.length : row.value.length + row.more * piece;
			if (budget.left <= 0 || (ask.until && row.value.startsWith(ask.until))) {
				break;
			}
		}
		return list.map((row) => {
			const [key, value, version] = this.whole(owner, row);
			return [key, ask.sizes ? String(value.length) : value, version];
		});
	}

	// write applies a write, all or nothing, within a transaction that also does what share does with the write's version:
	// its time, or the next one after that of the last write. A message may be late by any time, since the conditions alone
	// say whether what the writer saw still holds; a writer whose clock is fast must correct it. It returns the version, or
	// why it wrote nothing: a row that has another version than the writer saw, or a time that the object's clock will have
	// in more than a second.
	write(w, share) {
		for (const [owner, key, version] of w.if ?? []) {
			const row = this.get(owner, key);
			if ((row ? row[2] : 0) !== version) {
				return { conflict: { owner, key, row } };
			}
		}
		if (w.at - Date.now() * 1000 > 1_000_000) {
			return { ahead: true };
		}
		const version = Math.max(w.at, this.last + 1);
		this.transaction(() => {
			for (const [owner, from, to] of w.clear ?? []) {
				this.sql.exec("DELETE FROM piece WHERE owner = ? AND key >= ? AND key < ?", owner, from, to);
				this.sql.exec("DELETE FROM row WHERE owner = ? AND key >= ? AND key < ?", owner, from, to);
			}
			for (const [owner, key, value] of w.put ?? []) {
				this.put(owner, key, value, version);
			}
			this.keep(version);
			share?.(version);
		});
		this.last = version;
		return { version };
	}

	keep(last) {
		this.sql.exec("UPDATE clock SET last = ?", last);
	}

	// tick returns a time after the last write, and makes it that of the last write. It is called within a transaction.
	tick() {
		this.last = Math.max(Date.now() * 1000, this.last + 1);
		this.keep(this.last);
		return this.last;
	}

	put(owner, key, value, version) {
		const list = pieces(value);
		const before = this.sql.exec("SELECT more FROM row WHERE owner = ? AND key = ?", owner, key).toArray()[0];
		if (before?.more > 0) {
			this.sql.exec("DELETE FROM piece WHERE owner = ? AND key = ?", owner, key);
		}
		this.sql.exec(
			`INSERT INTO row VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, version = excluded.version, more = excluded.more`,
			owner, key, list[0], version, list.length - 1);
		for (let i = 1; i < list.length; i++) {
			this.sql.exec("INSERT INTO piece VALUES (?, ?, ?, ?)", owner, key, i, list[i]);
		}
	}
}
