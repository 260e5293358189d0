// What every page can use: copying, unsaved forms, double submits, local times, counted texts.
import { showLocalTimes } from "./local_times.js";
import { watchForms } from "./forms.js";
import { watchCopyButtons } from "./copy.js";

showLocalTimes(document);
watchForms(document);
watchCopyButtons(document);
