// The price follows the form: the page is asked for with the form's input, and its parts that show
// the price and the chosen day replace those shown.
const form = document.querySelector("form[data-quote]");
const UNSENT = ["csrf", "key", "again"];
let timer = 0;
let newest = null;

form.querySelector("[data-price]").hidden = true;
form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(load, 300);
});

function load() {
  const fields = new URLSearchParams(new FormData(form));
  for (const name of UNSENT) fields.delete(name);
  // A request for a document parses it without running scripts in it.
  const request = new XMLHttpRequest();
  newest?.abort();
  newest = request;
  request.responseType = "document";
  request.open("GET", `${form.dataset.quote}?${fields}`);
  request.onload = () => {
    const price = request.response?.getElementById("price");
    if (price) document.getElementById("price").replaceWith(document.importNode(price, true));
  };
  request.send();
}
