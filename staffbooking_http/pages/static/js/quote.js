// The price follows the form, and what is wrong is told at its field. A new day brings its month
// along. Where no price comes, that of earlier input goes, and a button asks for the new one.
import { loadParts } from "./parts.js";

const form = document.querySelector("form[data-quote]");
const UNSENT = ["csrf", "key", "again"];
const PRICED = ["event_date", "start_time", "duration_hours"];
const button = form.querySelector("[data-price]");
const day = form.elements.event_date;
const touched = new Set();
let timer = 0;
let shownDay = day.value; // The day whose month was brought along.

button.hidden = true;
form.addEventListener("input", (event) => {
  touched.add(event.target.name);
  clearTimeout(timer);
  timer = setTimeout(load, 300);
});

function load() {
  const fields = new URLSearchParams(new FormData(form));
  for (const name of UNSENT) fields.delete(name);
  const ids = ["price", "insurance-label"];
  const wantedDay = day.value;
  if (wantedDay !== shownDay) ids.push("free-days");
  const done = (page) => {
    button.hidden = true;
    if (PRICED.some((name) => touched.has(name))) showFaults(page);
    if (wantedDay === shownDay) return;
    shownDay = wantedDay;
    document.dispatchEvent(new Event("calendar"));
  };
  const failed = () => {
    button.hidden = false;
    document.getElementById("price").replaceChildren();
  };
  loadParts(`${form.dataset.quote}?${fields}`, ids, done, failed);
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
