// The documentation: opens the call that the address names, searches the calls, and tries them.
const calls = [...document.querySelectorAll(".docs-call")];

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const call = named?.closest("details");
  if (call) {
    call.open = true;
    call.scrollIntoView();
  }
}
addEventListener("hashchange", openNamed);
openNamed();

if (matchMedia("(min-width: 64rem)").matches) document.querySelector(".docs-contents").open = true;

const search = document.querySelector(".docs-search");
const field = search.querySelector("input");
const status = search.querySelector("[role=status]");
const words = new Map(calls.map((call) => [call, call.textContent.toLowerCase()]));

function find() {
  const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const call of calls) {
    const fits = wanted.every((word) => words.get(call).includes(word));
    call.hidden = !fits;
    found += fits && call.closest(".docs-tag") ? 1 : 0;
  }
  for (const section of document.querySelectorAll(".docs-text > section")) {
    const inside = [...section.querySelectorAll(".docs-call")];
    section.hidden = wanted.length > 0 && !inside.some((call) => !call.hidden);
  }
  status.textContent = wanted.length ? status.dataset.found.replace("{n}", found) : "";
}
search.hidden = false;
search.addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", find);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    field.focus();
  }
});

// A call is sent as a program would: by API key, without the cookies of this page.
async function send(form) {
  const { method, path, sending, failed } = form.dataset;
  const result = form.querySelector(".docs-result");
  const inputs = [...form.querySelectorAll("[data-kind]")].filter((one) => one.value !== "");
  const kind = (wanted) => inputs.filter((one) => one.dataset.kind === wanted);
  const headers = {};
  for (const key of kind("key")) {
    headers.authorization = `Bearer ${key.value.trim()}`;
    sessionStorage.setItem("docs-key", key.value.trim());
  }
  const body = kind("body")[0]?.value;
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method === "POST") headers["idempotency-key"] = crypto.randomUUID();
  let target = path;
  for (const one of kind("path")) target = target.replace(`{${one.name}}`, encodeURIComponent(one.value));
  const query = new URLSearchParams(kind("query").map((one) => [one.name, one.value]));
  if (query.size) target += `?${query}`;
  result.hidden = false;
  result.textContent = sending;
  try {
    const answer = await fetch(target, { method, headers, body, credentials: "omit" });
    const text = await answer.text();
    const shown = [...answer.headers].filter(([name]) => /^(etag|location|retry-after|x-)/.test(name));
    result.textContent = [
      `${answer.status} ${answer.statusText}`,
      ...shown.map(([name, value]) => `${name}: ${value}`),
      "",
      pretty(text),
    ].join("\n");
  } catch {
    result.textContent = failed;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

for (const form of document.querySelectorAll(".docs-try")) {
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  form.closest("details").addEventListener("toggle", () => {
    const key = form.querySelector("[data-kind=key]");
    if (key && key.value === "") key.value = sessionStorage.getItem("docs-key") ?? "";
  });
}
