// The month calendar: days by arrow keys, months by Page Up and Page Down, and another day or month
// without leaving the page. Tab reaches one day of the table.
import { loadParts } from "./parts.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };
const TURNS = { PageUp: ":first-child", PageDown: ":last-child" };
let refocused = null; // A selector of what has the focus once the calendar is loaded anew.

const days = () => [...document.querySelectorAll("#free-days [data-date]")];
const turnAt = (end) => `.month-head > [data-month]${end}`;
const place = (day) => day.closest("tr").rowIndex * 7 + day.closest("td").cellIndex;

function prepare() {
  const all = days();
  const tabbed = all.find((day) => day.ariaCurrent) ?? all[0];
  for (const day of all) day.tabIndex = day === tabbed ? 0 : -1;
  // Only what went with the old calendar: somebody may be in another field by now.
  const isLost = (document.activeElement ?? document.body) === document.body;
  if (refocused && isLost) (document.querySelector(refocused) ?? tabbed)?.focus({ preventScroll: true });
  refocused = null;
}

function choose(control, focus) {
  refocused = focus;
  const form = control.form;
  const date = form?.elements.event_date;
  if (!form) {
    const done = () => {
      history.replaceState(null, "", control.href);
      prepare();
    };
    const failed = (status) => {
      refocused = null;
      if (status) location.href = control.href;
    };
    loadParts(control.href, ["free-days", "day-hours", "request-card"], done, failed);
  } else if (control.dataset.date) {
    date.value = control.dataset.date;
    date.dispatchEvent(new Event("input", { bubbles: true }));
  } else {
    const fields = new URLSearchParams({ event_date: date.value, month: control.value });
    loadParts(`${form.dataset.quote}?${fields}`, ["free-days"], prepare, () => (refocused = null));
  }
}

function move(day, step) {
  const ahead = days().filter((each) => {
    const distance = place(each) - place(day);
    return distance / step > 0 && distance % step === 0;
  });
  const next = ahead.at(step > 0 ? 0 : -1);
  if (!next) return;
  day.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

document.addEventListener("click", (event) => {
  const control = event.target.closest("#free-days :is([data-date], [data-month])");
  if (!control || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (control.dataset.date) choose(control, `[data-date="${control.dataset.date}"]`);
  else choose(control, turnAt(control.matches(":first-child") ? ":first-child" : ":last-child"));
});
document.addEventListener("keydown", (event) => {
  const day = event.target.closest("#free-days [data-date]");
  if (!day) return;
  if (event.key in STEPS) move(day, STEPS[event.key]);
  else if (event.key in TURNS) {
    const turn = document.querySelector(turnAt(TURNS[event.key]));
    if (turn) choose(turn, "#free-days [data-date][tabindex='0']");
  } else return;
  event.preventDefault();
});
document.addEventListener("calendar", prepare);
prepare();
