// The browser's own time zone among the likely ones of a choice; chosen where none was chosen yet.
const select = document.querySelector("[data-zones]");
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
const likely = select.querySelector("optgroup");
const option = [...select.options].find((each) => each.value === timeZone);

if (option && option.parentElement !== likely) likely.prepend(option.cloneNode(true));
if (option && select.dataset.guess !== undefined) {
  likely.querySelector(`option[value="${CSS.escape(timeZone)}"]`).selected = true;
}
