// Forms: one submit at a time, a question before unsaved input is left, texts counted as the server
// counts them (by characters, not by UTF-16 units).
export function watchForms(root) {
  for (const form of root.querySelectorAll("form[method=post]:not([data-chat])")) watchForm(form);
  for (const area of root.querySelectorAll("textarea[data-max]")) countCharacters(area);
}

const SUBMIT_MS = 5000; // After it, a page that is still there may submit again.

function watchForm(form) {
  let submitted = false;
  let timer = 0;
  const allow = () => {
    clearTimeout(timer);
    submitted = false;
    for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  };
  form.addEventListener("submit", (event) => {
    if (submitted) {
      event.preventDefault();
      return;
    }
    submitted = true;
    const { saved } = form.dataset;
    form.dataset.saved = "1";
    event.submitter?.setAttribute("aria-busy", "true");
    timer = setTimeout(() => {
      allow();
      if (!saved) delete form.dataset.saved;
    }, SUBMIT_MS);
  });
  addEventListener("pageshow", allow);
  if (form.dataset.guard === undefined) return;
  form.addEventListener("input", () => delete form.dataset.saved);
  form.dataset.saved = "1";
  addEventListener("beforeunload", (event) => {
    if (!form.dataset.saved) event.preventDefault();
  });
}

function countCharacters(area) {
  const most = Number(area.dataset.max);
  const count = document.createElement("span");
  count.className = "count";
  count.setAttribute("aria-live", "polite");
  area.after(count);
  const show = () => {
    const used = [...area.value.replaceAll("\r\n", "\n")].length;
    count.textContent = used > most * 0.8 ? `${used} / ${most}` : "";
    count.classList.toggle("bad", used > most);
  };
  area.addEventListener("input", show);
  show();
}
