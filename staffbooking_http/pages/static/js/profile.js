// The profile form: a chosen photo is sent at once, the preview follows what is typed, a new member's
// time zone is that of the browser.
const form = document.querySelector("form[data-profile]");
const tile = document.querySelector("[data-preview]");
const fee = Number(form.dataset.fee);
const hours = Number(form.dataset.hours);
// Browsers show some currencies with other decimals than they are charged in.
const decimals = Number(form.dataset.decimals);
const format = new Intl.NumberFormat(document.documentElement.lang, {
  style: "currency",
  currency: form.dataset.currency,
  minimumFractionDigits: decimals,
  maximumFractionDigits: decimals,
});

for (const input of document.querySelectorAll("[data-submits]"))
  input.addEventListener("change", () => input.form.requestSubmit());

const text = (name) => form.elements[name].value.trim();
const show = (name, words) => {
  for (const part of document.querySelectorAll(`[data-shows="${name}"]`)) part.textContent = words;
};

form.addEventListener("input", () => {
  const rate = Number(text("hourly_rate")) || 0;
  const price = rate * hours;
  const kept = Number((price * fee).toFixed(decimals));
  show("price", format.format(price));
  show("fee", format.format(kept));
  show("payout", format.format(price - kept));
  tile.querySelector(".tile-price strong").textContent = format.format(rate);
  tile.querySelector(".tile-name").textContent = text("first_name");
  show("tagline", text("tagline"));
  show("place", [text("location_city"), text("location_country")].filter(Boolean).join(", "));
  const boxes = [...form.querySelectorAll("[name=service]:checked")].map((box) => box.value);
  const typed = text("service_types").split(/[,\n]/).map((name) => name.trim());
  const services = [...boxes, ...typed.filter(Boolean)];
  const more = services.length > 3 ? ` +${services.length - 3}` : "";
  show("services", services.slice(0, 3).join(", ") + more);
});
