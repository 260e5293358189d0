// A peer of the service: Express and node-postgres, one process, with SQL by hand.
//
//     node server.js PORT  # on the database of STAFFBOOKING_DATABASE_URL
//
// docs/benchmarks.md says what it leaves out.

import { createHash, randomBytes } from "node:crypto";
import express from "express";
import { rateLimit } from "express-rate-limit";
import pg from "pg";

const HOUR_MS = 3_600_000;
const MAX_REQUESTS_PER_HOUR = 1_000_000_000; // More than the load sends.
const CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

// PostgreSQL's texts of instants have microseconds, which a Date would lose.
const instant = (text) =>
  text.replace(" ", "T").replace(/(\.\d+)?\+00$/, (_, part) => `${part?.padEnd(7, "0") ?? ""}Z`);
pg.types.setTypeParser(pg.types.builtins.TIMESTAMPTZ, instant);
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

const pool = new pg.Pool({
  connectionString: process.env.STAFFBOOKING_DATABASE_URL.replace("+asyncpg", ""),
  options: "-c timezone=UTC",
  max: 10,
});

// SQL ----------------------------------------------------------------------------------------

const money = (...names) => names.map((name) => `(${name} / 100.0)::float8 AS ${name}`).join(", ");

const KEY_SQL = `
  SELECT k.id, k.owner_id FROM api_keys k JOIN users u ON u.id = k.owner_id
  WHERE k.digest = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
    AND u.disabled_at IS NULL AND (u.role = 'admin' OR (u.subscription = 'enterprise'
      AND (u.subscription_expires_at IS NULL OR u.subscription_expires_at > now())
      AND strpos(k.permissions, $2) > 0))`;

const SUMMARY_COLUMNS = `c.id, c.first_name, c.profile_photo, c.tagline,
  (c.hourly_rate / 100.0)::float8 AS hourly_rate, (c.daily_rate / 100.0)::float8 AS daily_rate,
  c.location_city, c.location_country, c.service_types::json AS service_types,
  coalesce(round(c.rating_sum::numeric / nullif(c.total_reviews, 0), 2), 0)::float8 AS rating_avg,
  c.total_reviews, c.tier, c.badges::json AS badges`;

const DETAIL_SQL = `
  SELECT ${SUMMARY_COLUMNS}, c.bio, c.languages::json AS languages, c.years_experience,
    c.calendar::json ->> 'timezone' AS timezone, 'usd' AS currency, c.member_since
  FROM companions c WHERE c.id = $1 AND c.active AND c.approval = 'approved'`;

const BOOKING_COLUMNS = `id, code AS booking_code, status, companion_id, companion_name, customer_id,
  customer_name, booked_by, service_type, location, event_date, start_time, duration_hours, timezone,
  starts_at, ends_at, currency, ${money("price", "insurance_premium")},
  ((price + insurance_premium) / 100.0)::float8 AS total_amount, ${money("refunded_amount")},
  cancellation_insurance, event_ref, priority, checked_in_at, accepted_at, paid_at, completed_at,
  completed_by, cancelled_at, cancelled_by, cancel_reason, cancel_rule,
  CASE WHEN status = 'accepted' THEN starts_at END AS payment_due_at,
  CASE WHEN status = 'paid' THEN ends_at + interval '3 days' END AS confirms_at,
  refunds::json AS refunds, disputed_at, payment_status, created_at, version,
  timeline::json AS timeline`;

const BOOKING_SQL = `SELECT ${BOOKING_COLUMNS} FROM bookings WHERE code = $1`;

const CONTEXT_SQL = `
  SELECT nextval('booking_numbers') AS number, c.first_name, c.last_name, c.hourly_rate, c.daily_rate,
    c.service_types::json AS service_types, c.calendar::json AS calendar, u.id AS customer_id,
    u.first_name AS customer_first, u.last_name AS customer_last, e.starts_at,
    e.starts_at + $4 * interval '1 hour' AS ends_at, e.starts_at > now() AS is_ahead, EXISTS (
      SELECT FROM bookings b
      WHERE b.companion_id = c.id AND b.status IN ('accepted', 'disputed', 'paid')
        AND b.starts_at < e.starts_at + $4 * interval '1 hour' AND b.ends_at > e.starts_at) AS is_taken
  FROM companions c CROSS JOIN LATERAL (
    SELECT $3::timestamp AT TIME ZONE (c.calendar::json ->> 'timezone') AS starts_at) e
  LEFT JOIN users u ON u.email_folded = $2 AND u.role = 'customer' AND u.disabled_at IS NULL
  WHERE c.id = $1 AND c.active AND c.approval = 'approved'`;

// By a named statement, which PostgreSQL parses and plans once.
async function fetchRow(client, name, text, values) {
  return (await client.query({ name, text, values })).rows[0];
}

async function insert(client, table, row, returning = "") {
  const names = Object.keys(row);
  const values = names.map((_, index) => `$${index + 1}`);
  const sql = `INSERT INTO ${table} (${names}) VALUES (${values}) ${returning}`;
  return fetchRow(client, `insert ${table}`, sql, Object.values(row));
}

// Requests -----------------------------------------------------------------------------------

class Refused extends Error {
  constructor(status, code, message, more = {}) {
    super(message);
    this.status = status;
    this.body = { error: message, code, ...more };
  }
}
const invalid = (field) => new Refused(422, "invalid_field", `${field} is not valid`);

const authenticate = (permission) => async (request, response, next) => {
  const key = request.get("authorization")?.match(/^Bearer (\S+)$/)?.[1] ?? "";
  const digest = createHash("sha256").update(key).digest("hex");
  request.key = await fetchRow(pool, "key", KEY_SQL, [digest, permission]);
  if (!request.key) throw new Refused(401, "invalid_api_key", "The API key is not valid");
  next();
};

const limit = () =>
  rateLimit({
    windowMs: HOUR_MS,
    limit: MAX_REQUESTS_PER_HOUR,
    legacyHeaders: true,
    standardHeaders: false,
    keyGenerator: (request) => String(request.key.id),
  });

const general = limit();
const readers = [authenticate("read"), general];
const bookers = [authenticate("book"), limit(), general, express.json()];

const app = express().disable("x-powered-by").disable("etag");

app.get("/readyz", (request, response) => response.json({}));

app.get("/api/v1/companions", readers, async (request, response) => {
  const { location, service, min_price, max_price, date } = request.query;
  const page = Number(request.query.page ?? 1);
  const size = Number(request.query.limit ?? 12);
  if (!(Number.isInteger(page) && page >= 1 && page <= 100_000)) throw invalid("page");
  if (!(Number.isInteger(size) && size >= 1 && size <= 50)) throw invalid("limit");
  const values = [];
  const bind = (value) => `$${values.push(value)}`;
  const where = [
    service === undefined
      ? "s.service_id = 0"
      : `s.service_id = (SELECT id FROM services WHERE name_folded = ${bind(fold(service))})`,
  ];
  if (location !== undefined) {
    const pattern = bind(`%${withoutAccents(location).replace(/[\\%_]/g, "\\$&")}%`);
    where.push(`s.location_id IN (SELECT id FROM locations
      WHERE city_folded LIKE ${pattern} OR country_folded LIKE ${pattern})`);
  }
  if (min_price !== undefined) where.push(`s.hourly_rate >= ${bind(cents(min_price))}`);
  if (max_price !== undefined) where.push(`s.hourly_rate <= ${bind(cents(max_price))}`);
  if (date !== undefined) {
    where.push(`coalesce(
      (SELECT free FROM companion_days WHERE companion_id = s.companion_id AND day = ${bind(date)}),
      (s.weekday_mask & ${bind(1 << weekday(date))}) <> 0)`);
  }
  const { rows } = await pool.query(
    `SELECT ${SUMMARY_COLUMNS} FROM companion_search s JOIN companions c ON c.id = s.companion_id
     WHERE ${where.join(" AND ")} ORDER BY s.rank, s.companion_id
     LIMIT ${size + 1} OFFSET ${(page - 1) * size}`,
    values,
  );
  const companions = rows.slice(0, size).map(joinServices);
  response.json({ companions, page, limit: size, has_more: rows.length > size });
});

const fold = (text) => text.normalize("NFC").toLowerCase();
const withoutAccents = (text) => fold(text).normalize("NFD").replace(/\p{M}/gu, "");
const cents = (amount) => Math.round(Number(amount) * 100);
const weekday = (date) => (new Date(date).getUTCDay() + 6) % 7;
const joinServices = (row) => ({ ...row, service_types: row.service_types.join(",") });

app.get("/api/v1/companions/:id", readers, async (request, response) => {
  const companion = await fetchRow(pool, "detail", DETAIL_SQL, [request.params.id]);
  if (!companion) throw new Refused(404, "not_found", "Companion not found");
  response.json({ companion: { ...joinServices(companion), reviews: [], portfolio: [] } });
});

app.get("/api/v1/bookings/:code", readers, async (request, response) => {
  const row = await fetchRow(pool, "booking", BOOKING_SQL, [request.params.code]);
  if (!row) throw new Refused(404, "not_found", "Booking not found");
  const { booking_code, status, event_date, customer_id, companion_id, booked_by } = row;
  const isParty = [customer_id, companion_id, booked_by].includes(request.key.owner_id);
  response.json({ booking: isParty ? withTimeline(row) : { booking_code, status, event_date } });
});

// The timeline is stored with `was` in place of `from`.
const withTimeline = (row) => ({
  ...row,
  timeline: row.timeline.map(
    ({ at, was, to, trigger, actor, reason }) => ({ at, from: was, to, trigger, actor, reason }),
  ),
});

app.post("/api/v1/bookings", bookers, async (request, response) => {
  const wanted = checkBooking(request.body ?? {});
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const booking = await createBooking(client, wanted, request.key.owner_id);
    await client.query("COMMIT");
    response.status(201).json({ success: true, booking });
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
});

function checkBooking(body) {
  if (!Number.isInteger(body.companion_id)) throw invalid("companion_id");
  if (!/^\d{4}-\d\d-\d\d$/.test(body.event_date)) throw invalid("event_date");
  if (!/^([01]\d|2[0-3]):[0-5]\d$/.test(body.start_time)) throw invalid("start_time");
  const hours = body.duration_hours;
  if (!(Number.isInteger(hours) && hours >= 1 && hours <= 24)) throw invalid("duration_hours");
  for (const name of ["service_type", "location", "customer_email"]) {
    if (typeof body[name] !== "string" || !body[name]) throw invalid(name);
  }
  return body;
}

async function createBooking(client, wanted, owner) {
  const { companion_id, event_date, start_time, duration_hours, location } = wanted;
  const email = wanted.customer_email.toLowerCase();
  const asked = [companion_id, email, `${event_date} ${start_time}`, duration_hours];
  const found = await fetchRow(client, "context", CONTEXT_SQL, asked);
  if (!found) throw new Refused(404, "not_found", "Companion not found");
  const folded = fold(wanted.service_type);
  const service_type = found.service_types.find((name) => fold(name) === folded);
  if (!service_type) throw invalid("service_type");
  if (!found.customer_id) throw invalid("customer_email");
  if (!found.is_ahead) throw invalid("start_time");
  const reason = unavailability(found, wanted);
  if (reason) {
    const message = "The companion is not free at that time";
    throw new Refused(400, "companion_unavailable", message, { reason });
  }
  const dailyRate = (duration_hours >= 8 && found.daily_rate) || Infinity;
  const price = Math.min(found.hourly_rate * duration_hours, dailyRate);
  const platform_fee = Math.round((price * 15) / 100);
  const created_at = instant(`${new Date().toISOString().slice(0, -1)}+00`);
  const entry = {
    at: created_at, was: null, to: "pending", trigger: "request", actor: "api", reason: null,
  };
  const booked = {
    id: found.number, code: `BK${randomText(12)}`, status: "pending",
    companion_id, companion_name: `${found.first_name} ${found.last_name}`,
    customer_id: found.customer_id, customer_name: `${found.customer_first} ${found.customer_last}`,
    booked_by: owner, service_type, location, event_date, start_time, duration_hours,
    timezone: found.calendar.timezone, starts_at: found.starts_at, ends_at: found.ends_at,
    currency: "usd", price, insurance_premium: 0, fee_ppm: 150_000, platform_fee,
    payout_amount: price - platform_fee, created_at, cancellation_insurance: false, priority: false,
    version: 1, events: 1, timeline: JSON.stringify([entry]), payment_status: "none",
    payout_status: "none", escrow: 0, refunded_amount: 0, paid_out: 0, owed_by_staff: 0, orders: 0,
    settlements: 0, chargeback_amount: 0,
  };
  const row = await insert(client, "bookings", booked, `RETURNING ${BOOKING_COLUMNS}`);
  const { timeline, ...booking } = row;
  const due = { booking_id: row.id, kind: "expire", due_at: row.starts_at, attempts: 0 };
  await insert(client, "timers", due);
  const id = `evt_${randomText(26)}`;
  const event = "booking.created";
  const parties = [row.customer_id, companion_id, owner].sort((a, b) => a - b);
  const body = { id, event, created_at, api_version: "v1", sequence: 1, data: { booking } };
  await insert(client, "events", {
    booking_id: row.id, sequence: 1, id, name: event, created_at,
    parties: JSON.stringify(parties), body: Buffer.from(JSON.stringify(body)),
  });
  const payout = (price - platform_fee) / 100;
  await insert(client, "notices", {
    user_id: companion_id, kind: "request", subject: `New request ${row.booking_code}`,
    text: `${row.customer_name} would like to book you: ${service_type}, ${event_date} at ` +
      `${start_time} (${row.timezone}), ${duration_hours} h. You would be paid ${payout} USD.`,
    link: `/bookings/${row.id}/return`, at: created_at, due_at: created_at, attempts: 0,
  });
  return withTimeline(row);
}

function unavailability({ calendar, is_taken }, { event_date, start_time, duration_hours }) {
  const override = calendar.overrides.find((each) => each.date === event_date);
  const day = calendar.weekly.filter((each) => each.weekday === weekday(event_date));
  const slots = override ? override.slots : day.map((each) => each.slot);
  const start = 60 * Number(start_time.slice(0, 2)) + Number(start_time.slice(3));
  const end = start + 60 * duration_hours;
  const isOpen = !override && !calendar.weekly.length; // Without hours, all of each day is free.
  if (!isOpen && !slots.some((slot) => slot.start <= start && end <= slot.end)) {
    return slots.length ? "outside_hours" : "day_off";
  }
  return is_taken ? "booked" : null;
}

const randomText = (length) =>
  Array.from(randomBytes(length), (byte) => CROCKFORD_ALPHABET[byte % 32]).join("");

app.use((error, request, response, next) => {
  if (error instanceof Refused) return response.status(error.status).json(error.body);
  console.error(error);
  response.status(500).json({ error: "Internal error", code: "internal" });
});

app.listen(Number(process.argv[2]), "127.0.0.1");
