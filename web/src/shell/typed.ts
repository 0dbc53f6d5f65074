// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// What a person has typed, and what a reload would lose. Filters are not among it, because the address has them.

const typed = new Set<HTMLElement>();

function remember(event: Event) {
  const field = event.target;
  if (field instanceof HTMLElement && !field.closest("search, [role=combobox]")) typed.add(field);
}

const textOf = (field: HTMLElement) =>
  field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement ? field.value : (field.textContent ?? "");

/** Remembers the fields into which a person types, until the function that it returns is called. */
export function watchTyping(): () => void {
  document.addEventListener("input", remember);
  return () => {
    document.removeEventListener("input", remember);
    typed.clear();
  };
}

/** Reports whether the page has text that a person has typed. A field that is gone has none. */
export function hasTyped(): boolean {
  for (const field of typed) if (!field.isConnected) typed.delete(field);
  return [...typed].some((field) => textOf(field).trim() !== "");
}
