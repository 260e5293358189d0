// The week as a grid of half-hours, which is painted by pointer or keyboard and fills the rows of
// the form. Ends of hours that are no half-hours stay exact: minutes are kept.
import { listOf, readRows, setRows } from "./hours.js";

const DAY = 1440, HALF = 30, WEEK = 7 * DAY;
const table = document.querySelector("[data-grid]");
const said = document.querySelector("[data-said]");
const heads = [...table.querySelectorAll("th[data-key]")];
const rows = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
const keys = heads.map((head) => Number(head.dataset.key));
const cells = rows.flat();
let open = new Uint8Array(WEEK);
let anchor = null, brush = 1, kept = open, isTouch = false;

const at = (cell) => [cell.parentElement.rowIndex - 1, rows[cell.parentElement.rowIndex - 1].indexOf(cell)];
const begin = ([half, column]) => keys[column] * DAY + half * HALF;
const isOpen = (place) => open.subarray(begin(place), begin(place) + HALF).every(Boolean);
const clock = (minute) =>
  [minute / 60, minute % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");

function read() {
  open = new Uint8Array(WEEK);
  for (const key of keys) {
    for (const [from, to] of readRows(listOf(key))) {
      if (!from || !to) continue;
      const [start, end] = [from, to].map((text) => text.slice(0, 2) * 60 + Number(text.slice(3)));
      const length = (end - start + DAY) % DAY || DAY;
      for (let minute = 0; minute < length; minute++) open[(key * DAY + start + minute) % WEEK] = 1;
    }
  }
  draw();
}

function draw() {
  for (const cell of cells) {
    const minutes = open.subarray(begin(at(cell)), begin(at(cell)) + HALF);
    cell.className = minutes.some(Boolean) ? "on" : "";
    cell.ariaSelected = String(minutes.every(Boolean));
  }
}

function runs(key) {
  const found = [];
  for (let minute = 0; minute < DAY; minute++) {
    if (!open[key * DAY + minute]) continue;
    if (found.at(-1)?.[1] === minute) found.at(-1)[1]++;
    else found.push([minute, minute + 1]);
  }
  return found;
}

const isNight = (late, early) =>
  late && early && late[1] === DAY && early[0] === 0 && early[1] < late[0];

function write() {
  const days = [0, 1, 2, 3, 4, 5, 6].map(runs);
  days.forEach((day, key) => {
    const after = days[(key + 1) % 7][0];
    const own = isNight(days[(key + 6) % 7].at(-1), day[0]) ? day.slice(1) : [...day];
    if (isNight(own.at(-1), after)) own[own.length - 1] = [own.at(-1)[0], after[1]];
    const wanted = own.map(([start, end]) => [clock(start), clock(end % DAY)]);
    if (String(wanted) !== String(readRows(listOf(key)))) setRows(listOf(key), wanted);
  });
  const always = table.closest("form").elements.when;
  if (always) always.value = "weekly";
  table.dispatchEvent(new Event("input", { bubbles: true }));
}

// From one place to another: all half-hours of the days between them.
function paint([half, column], [toHalf, toColumn], value) {
  for (let day = Math.min(column, toColumn); day <= Math.max(column, toColumn); day++) {
    const start = begin([Math.min(half, toHalf), day]);
    open.fill(value, start, start + (Math.abs(toHalf - half) + 1) * HALF);
  }
  draw();
}

function say([half, column]) {
  const state = isOpen([half, column]) ? said.dataset.open : said.dataset.closed;
  said.textContent = `${heads[column].abbr} ${clock(half * HALF)}: ${state}`;
}

function focus([half, column]) {
  const cell = rows[half][column];
  for (const each of cells) each.tabIndex = each === cell ? 0 : -1;
  cell.ariaLabel = `${heads[column].abbr} ${clock(half * HALF)}`;
  cell.focus();
}

table.addEventListener("pointerdown", (event) => {
  isTouch = event.pointerType === "touch";
  const cell = event.target.closest("tbody td");
  if (!cell || isTouch || event.button) return;
  event.preventDefault();
  anchor = at(cell);
  brush = isOpen(anchor) ? 0 : 1;
  kept = open.slice();
  paint(anchor, anchor, brush);
});
table.addEventListener("pointerover", (event) => {
  const cell = event.target.closest("tbody td");
  if (!anchor || !cell) return;
  open = kept.slice();
  paint(anchor, at(cell), brush);
});
addEventListener("pointerup", () => {
  if (!anchor) return;
  write();
  say(anchor);
  anchor = null;
});
table.addEventListener("click", (event) => {
  const cell = event.target.closest("tbody td");
  if (!cell || !isTouch) return;
  const [half, column] = at(cell);
  const hour = [half - (half % 2), column];
  paint(hour, [hour[0] + 1, column], isOpen([half, column]) ? 0 : 1);
  write();
  say(hour);
});

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
table.addEventListener("keydown", (event) => {
  const cell = event.target.closest("tbody td");
  if (!cell) return;
  const place = at(cell);
  if (event.key in STEPS) {
    const next = place.map((part, axis) => part + STEPS[event.key][axis]);
    if (rows[next[0]]?.[next[1]]) {
      focus(next);
      if (event.shiftKey) {
        paint(next, next, brush);
        write();
        say(next);
      }
    }
  } else if (event.key === " " || event.key === "Enter") {
    brush = isOpen(place) ? 0 : 1;
    paint(place, place, brush);
    write();
    say(place);
  } else return;
  event.preventDefault();
});
table.closest("form").addEventListener("input", (event) => {
  if (event.target !== table) read();
});

table.removeAttribute("aria-hidden");
table.setAttribute("role", "grid");
table.ariaMultiSelectable = "true";
for (const cell of cells) {
  cell.setAttribute("role", "gridcell");
  cell.tabIndex = -1;
}
rows[18][0].tabIndex = 0;
rows[18][0].ariaLabel = `${heads[0].abbr} ${clock(18 * HALF)}`;
document.getElementById("grid-help").hidden = false;
read();
