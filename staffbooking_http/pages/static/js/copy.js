// Buttons that copy the text of another element: <button data-copy="id of the element">.
export function watchCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      await navigator.clipboard.writeText(source.value ?? source.textContent.trim());
      button.textContent = button.dataset.copied;
      setTimeout(() => (button.textContent = label), 2000);
    });
  }
}
