// Rows of hours: added, removed and copied without leaving the page. Each change ends with an
// `input` event of the form.
const template = document.getElementById("hours-row");

export const listOf = (key) => document.querySelector(`.hours-rows[data-key="${key}"]`);
export const readRows = (list) =>
  [...list.children].map((row) => [...row.querySelectorAll("input")].map((input) => input.value));

export function setRows(list, ranges) {
  list.replaceChildren(
    ...ranges.map((range) => {
      const row = document.importNode(template.content, true).firstElementChild;
      row.querySelectorAll("input").forEach((input, side) => { input.value = range[side]; });
      return row;
    }),
  );
  number(list);
}

function number(list) {
  const { key } = list.dataset;
  [...list.children].forEach((row, place) => {
    const [from, to] = row.querySelectorAll("input");
    from.name = `from-${key}-${place}`;
    to.name = `to-${key}-${place}`;
    for (const input of [from, to]) input.id = `f-${input.name}`;
    row.querySelector("button").value = `remove-${key}-${place}`;
    row.querySelector(".next-day").hidden = !(to.value > "00:00" && to.value <= from.value);
  });
  const closed = list.parentElement.querySelector(".closed");
  if (closed) closed.hidden = list.children.length > 0;
}

const steps = {
  add(button) {
    const list = button.parentElement.querySelector(".hours-rows");
    const rows = readRows(list);
    setRows(list, [...rows, rows.length ? ["", ""] : ["09:00", "17:00"]]);
    list.lastElementChild.querySelector("input").focus();
  },
  remove(button) {
    const list = button.closest(".hours-rows");
    button.closest(".hours-row").remove();
    number(list);
    list.parentElement.querySelector("[data-hours=add]").focus();
  },
  copy() {
    for (const key of "1234") setRows(listOf(key), readRows(listOf(0)));
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-hours]");
  if (!button) return;
  event.preventDefault();
  const { form } = button;
  steps[button.dataset.hours](button);
  form.dispatchEvent(new Event("input", { bubbles: true }));
});
document.addEventListener("change", (event) => {
  const list = event.target.closest(".hours-rows");
  if (list) number(list);
});
