// Buttons that copy the text of the element they name. Without a clipboard they stay hidden.
if (navigator.clipboard) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    const label = button.firstElementChild;
    const words = label.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      label.textContent = button.dataset.done;
      setTimeout(() => (label.textContent = words), 3000);
    });
  }
}
