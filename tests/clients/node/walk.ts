// The life of a booking through the types that openapi-typescript generates, with openapi-fetch:
//
//     node walk.js BASE_URL API_KEY
//
// Every step is checked; the script ends with the line `done`.

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
type Api = Client<paths>;

const [baseUrl = "", apiKey = ""] = process.argv.slice(2);
const PASSWORD = "demo-password-1";
const FIRST_DAY = 20;

function check(holds: boolean, text: string): asserts holds {
  if (!holds) throw new Error(text);
}

/** The data of an answer, which must be a success. */
async function success<T, E>(answer: Promise<{ data?: T; error?: E; response: Response }>): Promise<T> {
  const { data, error, response } = await answer;
  if (data === undefined) throw new Error(`${response.status} ${JSON.stringify(error)}`);
  return data;
}

function inDays(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
}

async function signIn(email: string): Promise<[Api, Schemas["User"]]> {
  const { data, response } = await createClient<paths>({ baseUrl }).POST("/auth/login", {
    body: { email, password: PASSWORD },
  });
  check(data !== undefined, `${email} can't sign in`);
  const cookie = response.headers.getSetCookie().map((each) => each.split(";")[0]).join("; ");
  return [
    createClient<paths>({ baseUrl, headers: { cookie, "X-CSRF-Token": data.csrf_token } }),
    data.user,
  ];
}

async function book(program: Api, companionId: number): Promise<Schemas["Booking"]> {
  const found = await success(
    program.GET("/api/v1/companions", { params: { query: { location: "Lisbon" } } }),
  );
  const companion = found.companions.find((each) => each.id === companionId);
  check(companion !== undefined, "the companion is not found");
  const free = await success(
    program.GET("/api/v1/companions/{id}/availability", {
      params: {
        path: { id: companion.id },
        query: { start_date: inDays(FIRST_DAY), end_date: inDays(FIRST_DAY + 30) },
      },
    }),
  );
  const day = free.availability.find((each) => each.slots.length > 0);
  const slot = day?.slots[0];
  check(day !== undefined && slot !== undefined, "no day is free");
  const wanted: Schemas["RequestQuote"] = {
    companion_id: companion.id,
    event_date: day.date,
    start_time: slot.start,
    duration_hours: 1,
    service_type: companion.service_types.split(",")[0] ?? "",
    cancellation_insurance: false,
  };
  const { quote } = await success(program.POST("/api/v1/quotes", { body: wanted }));
  check(quote.available, "the hour is not free");
  const body: Schemas["CreateBookingRequest"] = {
    ...wanted,
    location: "Rua Augusta 1",
    customer_email: "customer@demo.test",
  };
  const refused = await program.POST("/api/v1/bookings", { body: { ...body, duration_hours: 99 } });
  check(refused.error !== undefined && "errors" in refused.error, "99 hours are not refused");
  check(refused.error.errors[0]?.field === "duration_hours", "another field is named");
  const params = { header: { "Idempotency-Key": `node-${Date.now()}` } };
  const made = await success(program.POST("/api/v1/bookings", { body, params }));
  const again = await program.POST("/api/v1/bookings", { body, params });
  check(again.response.headers.get("Idempotent-Replay") === "true", "it is booked twice");
  check(again.data?.booking.id === made.booking.id, "another booking is repeated");
  check(made.booking.total_amount === quote.total_amount, "the quote was not kept");
  return made.booking;
}

async function waitFor(program: Api, code: string, status: Schemas["BookingStatus"]): Promise<void> {
  const params = { path: { code } };
  for (let turn = 0; turn < 300; turn += 1) {
    const { booking } = await success(program.GET("/api/v1/bookings/{code}", { params }));
    if (booking.status === status) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`never ${status}`);
}

async function walkBooking(program: Api): Promise<Schemas["Booking"]> {
  const [staff, { id }] = await signIn("staff@demo.test");
  const [customer] = await signIn("customer@demo.test");
  const booking = await book(program, id);
  const code = booking.booking_code;
  const params = { path: { id: booking.id } };
  await success(staff.POST("/bookings/{id}/accept", { params }));
  await waitFor(program, code, "accepted");
  const checkout = await success(customer.POST("/bookings/{id}/checkout", { params }));
  await success(
    customer.POST("/sandbox/checkout/{id}", {
      params: { path: { id: checkout.checkout_url.split("/").at(-1) ?? "" } },
      body: { outcome: "succeed" },
    }),
  );
  await waitFor(program, code, "paid");
  const offer = await success(customer.GET("/bookings/{id}/cancellation-quote", { params }));
  const body = { quote: offer.quote };
  const cancelled = await success(customer.POST("/bookings/{id}/cancel", { params, body }));
  check(cancelled.booking.status === "cancelled", "it is not cancelled");
  const query = { status: "cancelled" as const };
  const listed = await success(program.GET("/api/v1/bookings", { params: { query } }));
  check(listed.bookings.some((each) => each.booking_code === code), "it is not listed");
  const lost = await program.GET("/api/v1/bookings/{code}", {
    params: { path: { code: "BK00000000000A" } },
  });
  check(lost.error?.code === "not_found", "an unknown code is found");
  return booking;
}

async function walkWebhooks(program: Api, booking: Schemas["Booking"]): Promise<void> {
  const made = await success(
    program.POST("/api/webhooks", {
      body: { url: "https://hooks.example.com/in", events: ["booking.created"], ordered: false },
    }),
  );
  const params = { path: { id: made.webhook.id } };
  const tried = await success(program.POST("/api/webhooks/{id}/test", { params }));
  check(!tried.success && tried.delivery.error !== null, "nobody receives, but it succeeds");
  const sent = await success(program.GET("/api/webhooks/{id}/deliveries", { params }));
  check(sent.deliveries[0]?.id === tried.delivery.id, "the trial is not listed");
  await success(program.POST("/api/webhooks/{id}/rotate-secret", { params }));
  const body = { active: false };
  const paused = await success(program.PATCH("/api/webhooks/{id}", { params, body }));
  check(!paused.webhook.active, "it is not paused");
  await success(program.DELETE("/api/webhooks/{id}", { params }));
  let after: string | undefined;
  const codes: string[] = [];
  for (let more = true; more; ) {
    const query = after === undefined ? { limit: 100 } : { limit: 100, after };
    const page = await success(program.GET("/api/events", { params: { query } }));
    for (const each of page.events) {
      if (each.event === "booking.created") codes.push(each.data.booking.booking_code);
    }
    [more, after] = [page.has_more, page.events.at(-1)?.id];
  }
  check(codes.includes(booking.booking_code), "the feed lacks the booking");
}

const program = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${apiKey}` } });
await walkWebhooks(program, await walkBooking(program));
console.log("done");
