// The price follows the form, and what is wrong is told at its field. A new day brings its month
// along.
import { loadParts } from "./parts.js";

const form = document.querySelector("form[data-quote]");
const UNSENT = ["csrf", "key", "again"];
const PRICED = ["event_date", "start_time", "duration_hours"];
let timer = 0;
let ids = new Set();
const touched = new Set();

form.querySelector("[data-price]").hidden = true;
form.addEventListener("input", (event) => {
  touched.add(event.target.name);
  ids.add("price").add("insurance-label");
  if (event.target.name === "event_date") ids.add("free-days");
  clearTimeout(timer);
  timer = setTimeout(load, 300);
});

function load() {
  const fields = new URLSearchParams(new FormData(form));
  for (const name of UNSENT) fields.delete(name);
  const wanted = ids;
  loadParts(`${form.dataset.quote}?${fields}`, wanted, (page) => {
    if (page && PRICED.some((name) => touched.has(name))) showFaults(page);
    if (ids === wanted) ids = new Set();
    document.dispatchEvent(new Event("calendar"));
  });
}

// Until one of them is changed, the fields keep what a refused form said of them.
function showFaults(page) {
  for (const name of PRICED) showFault(name, page);
}

// A field that nobody has filled in yet keeps what a refused form said of it.
function showFault(name, page) {
  const field = form.elements[name];
  if (!field.value && !touched.has(name)) return;
  document.getElementById(`e-${name}`)?.remove();
  const fault = page.getElementById(`e-${name}`);
  if (fault) field.after(document.importNode(fault, true));
  const loaded = page.getElementById(field.id);
  for (const attribute of ["aria-invalid", "aria-describedby"]) {
    if (loaded?.hasAttribute(attribute)) field.setAttribute(attribute, loaded.getAttribute(attribute));
    else field.removeAttribute(attribute);
  }
}
