// What every page can use: unsaved forms, double submits, local times, counted texts.
import { showLocalTimes } from "./local_times.js";
import { watchForms } from "./forms.js";

showLocalTimes(document);
watchForms(document);
