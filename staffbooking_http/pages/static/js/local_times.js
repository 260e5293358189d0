// Times stand in the event's time zone. Where the browser's zone differs at that instant, its own
// time is added.
export function showLocalTimes(root) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const element of root.querySelectorAll("time[data-zone]")) {
    const instant = new Date(element.dateTime);
    const zone = element.dataset.zone;
    if (element.dataset.local || Number.isNaN(instant.getTime())) continue;
    element.dataset.local = "1";
    const language = document.documentElement.lang;
    const format = (timeZone) =>
      instant.toLocaleString(language, { timeZone, dateStyle: "short", timeStyle: "short" });
    if (format(zone) === format(own)) continue;
    const shown = instant.toLocaleString(language, {
      weekday: "short", hour: "numeric", minute: "2-digit",
    });
    element.title = `${shown} (${own.split("/").pop().replaceAll("_", " ")})`;
  }
}
