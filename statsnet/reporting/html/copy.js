for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", () => {
    const field = document.createElement("textarea");
    field.value = button.dataset.copy;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.textContent = "copied";
  });
}
