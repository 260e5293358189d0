const form = document.querySelector("form");
const note = document.querySelector("#note");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  form.elements.open.disabled = true;
  note.textContent = "One moment…";
  note.textContent = await ask(form.elements.country?.value);
  form.elements.open.disabled = false;
});

async function ask(country) {
  const token = document.querySelector("meta[name=csrf-token]").content;
  try {
    const answer = await fetch("/staff/payout-account", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": token },
      body: JSON.stringify({ country }),
    });
    const told = await answer.json();
    if (answer.ok) {
      location.assign(told.onboarding_url);
      return "Taking you to the payment processor…";
    }
    return told.errors ? `Country ${told.errors[0].message}.` : `${told.error}.`;
  } catch {
    return "The service is out of reach. Try again in a moment.";
  }
}
