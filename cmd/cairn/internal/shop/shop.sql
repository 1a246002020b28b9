CREATE TABLE orders (
	number    INTEGER PRIMARY KEY,
	customer  TEXT NOT NULL,
	item      TEXT NOT NULL,
	total     INTEGER NOT NULL, -- cents
	status    TEXT NOT NULL CHECK (status IN ('processing', 'shipped', 'delivered', 'cancelled')),
	ordered   TEXT NOT NULL,
	delivered TEXT NOT NULL DEFAULT '',
	address   TEXT NOT NULL
) STRICT;

-- The key is the idempotency key of the call that made the refund. An order is refunded once, whatever the key.
CREATE TABLE refunds (
	number       INTEGER PRIMARY KEY,
	key          TEXT NOT NULL UNIQUE,
	order_number INTEGER NOT NULL UNIQUE REFERENCES orders,
	amount       INTEGER NOT NULL, -- cents
	reason       TEXT NOT NULL,
	at           TEXT NOT NULL
) STRICT;

CREATE TABLE address_changes (
	key          TEXT PRIMARY KEY,
	order_number INTEGER NOT NULL REFERENCES orders,
	previous     TEXT NOT NULL,
	address      TEXT NOT NULL,
	at           TEXT NOT NULL
) STRICT;

INSERT INTO orders (number, customer, item, total, status, ordered, delivered, address) VALUES
	(41, 'Ada Lovelace',      'Brass desk lamp',        3990,  'delivered',  '2026-10-02', '2026-10-06', '12 St James''s Square, London'),
	(42, 'Ada Lovelace',      'Espresso cups, set of 4', 2450, 'delivered',  '2026-10-21', '2026-10-26', '12 St James''s Square, London'),
	(43, 'Grace Hopper',      'Mechanical keyboard',    12900, 'processing', '2026-11-17', '',           '7 Navy Yard, Arlington'),
	(44, 'Alan Turing',       'Bicycle bell',           1200,  'shipped',    '2026-11-12', '',           '78 High Street, Bletchley'),
	(45, 'Grace Hopper',      'Wall clock',             5800,  'delivered',  '2026-10-28', '2026-11-02', '7 Navy Yard, Arlington'),
	(46, 'Katherine Johnson', 'Star atlas',             4500,  'shipped',    '2026-11-13', '',           '34 Oak Lane, Hampton'),
	(47, 'Alan Turing',       'Chess set',              6400,  'delivered',  '2026-09-15', '2026-09-19', '78 High Street, Bletchley'),
	(48, 'Ada Lovelace',      'Notebooks, pack of 5',   1575,  'processing', '2026-11-18', '',           '12 St James''s Square, London'),
	(49, 'Edsger Dijkstra',   'Fountain pen',           8200,  'cancelled',  '2026-10-30', '',           '1 Lindenlaan, Nuenen'),
	(50, 'Barbara Liskov',    'Rain jacket',            9900,  'delivered',  '2026-11-03', '2026-11-07', '32 Vassar Street, Cambridge'),
	(51, 'Katherine Johnson', 'Telescope tripod',       14900, 'processing', '2026-11-19', '',           '34 Oak Lane, Hampton'),
	(52, 'Donald Knuth',      'Music stand',            3600,  'shipped',    '2026-11-14', '',           '3 Campus Drive, Stanford');
