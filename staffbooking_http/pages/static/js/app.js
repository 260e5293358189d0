// What every page can use: unsaved forms, double submits, local times, counted texts.
import { showLocalTimes } from "./local_times.js";
import { watchForms } from "./forms.js";

showLocalTimes(document);
watchForms(document);

// A row of sections wider than a phone begins with the one shown.
for (const each of document.querySelectorAll(":is(.admin-sections, .dash-sections) [aria-current]")) {
  each.parentElement.scrollLeft = each.offsetLeft - each.parentElement.offsetLeft - 40;
}
