// The booking page refreshes itself when the booking has changed, unless something is being typed or
// asked there; then it offers to. It waits for a form on its way, which a reload would stop. The
// receipt has a button that prints it.
const SENDING_MS = 30_000; // By then a form has arrived, or won't.
const live = document.querySelector("[data-live]");
if (live) watchBooking(live);

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}

function watchBooking(page) {
  const seconds = Number(page.dataset.seconds ?? 15);
  let timer = 0;
  let sentAt = -SENDING_MS;
  const isSending = () => performance.now() - sentAt < SENDING_MS;
  const look = async () => {
    clearTimeout(timer);
    if (document.visibilityState !== "visible") return;
    try {
      const answer = await fetch(page.dataset.live, { headers: { accept: "text/plain" } });
      if (answer.ok && (await answer.text()) !== page.dataset.stamp && !isSending()) {
        showChange(page);
        return;
      }
      if (answer.status === 401 || answer.status === 404) return;
    } catch {
      // Without a connection, the next look is later.
    }
    timer = setTimeout(look, seconds * 1000);
  };
  timer = setTimeout(look, seconds * 1000);
  document.addEventListener("visibilitychange", look);
  document.addEventListener("submit", () => (sentAt = performance.now()));
}

function showChange(page) {
  const isBusy =
    page.querySelector("form:not([data-saved])[data-guard], details[open]") ??
    page.querySelector(":focus:is(input, textarea)");
  if (isBusy) page.querySelector("[data-changed]").hidden = false;
  else location.reload();
}
