// Times of messages in the reader's own zone: `clock` 18:05, `day` today, yesterday or a date,
// `short` whichever of them is shorter.
const { lang, dataset } = document.documentElement;
const language = navigator.language.startsWith(lang) ? navigator.language : lang;
const format = (options) => new Intl.DateTimeFormat(language, options);
const clock = format({ hour: "numeric", minute: "2-digit" });
const day = format({ weekday: "long", day: "numeric", month: "long" });
const shortDay = format({ day: "numeric", month: "short" });
const full = format({ dateStyle: "full", timeStyle: "short" });
// The clock of a sandbox, which stamps messages, may be ahead of the reader's.
const ahead = dataset.now ? Date.parse(dataset.now) - Date.now() : 0;
const near = new Intl.RelativeTimeFormat(language, { numeric: "auto" });

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-time]")) showTime(element);
}

export function showTime(element) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const text = { clock: clock.format(at), day: dayOf(at, day), short: shortOf(at) };
  element.textContent = text[element.dataset.time];
  element.title = full.format(at);
}

/** A moment by the reader's clock in words: today 18:05, 3 December. */
export function whenOf(at) {
  const days = daysAgo(at, Date.now());
  return days < 2 ? `${near.format(-days, "day")}, ${clock.format(at)}` : shortDay.format(at);
}

export function isSameDay(one, other) {
  return new Date(one).toDateString() === new Date(other).toDateString();
}

function daysAgo(at, now = Date.now() + ahead) {
  const midnight = (moment) => new Date(moment).setHours(0, 0, 0, 0);
  const days = Math.round((midnight(now) - midnight(at)) / 86_400_000);
  return days < 0 ? Infinity : days;
}

function dayOf(at, otherwise) {
  const days = daysAgo(at);
  if (days > 1) return otherwise.format(at);
  const word = near.format(-days, "day");
  return word.charAt(0).toLocaleUpperCase(language) + word.slice(1);
}

const shortOf = (at) => (daysAgo(at) === 0 ? clock.format(at) : dayOf(at, shortDay));
