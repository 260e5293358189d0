// The price follows the form. A new day brings its month along.
import { loadParts } from "./parts.js";

const form = document.querySelector("form[data-quote]");
const UNSENT = ["csrf", "key", "again"];
let timer = 0;
let ids = new Set();

form.querySelector("[data-price]").hidden = true;
form.addEventListener("input", (event) => {
  ids.add("price").add("insurance-label");
  if (event.target.name === "event_date") ids.add("free-days");
  clearTimeout(timer);
  timer = setTimeout(load, 300);
});

function load() {
  const fields = new URLSearchParams(new FormData(form));
  for (const name of UNSENT) fields.delete(name);
  const wanted = ids;
  loadParts(`${form.dataset.quote}?${fields}`, wanted, () => {
    if (ids === wanted) ids = new Set();
    document.dispatchEvent(new Event("calendar"));
  });
}
