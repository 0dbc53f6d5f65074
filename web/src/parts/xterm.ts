// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

// A terminal's screen. What programs write to it is hostile: it may draw, and nothing else. Links, titles and the
// clipboard are out of its reach. It is a heavy part, so screen.tsx loads it when a page first needs it.

export interface ScreenOptions {
  /** The name for screen readers, which says how to leave it. */
  label: string;
  /** Without it nobody can type. */
  onInput?: (text: string) => void;
  /** Old mouse reports, whose characters are bytes. */
  onInputBytes?: (text: string) => void;
  /** Is asked for each text that is pasted, without its control characters. */
  onPaste?: (text: string) => void;
  onSize?: (size: { columns: number; rows: number }) => void;
  /** Is called for the keys with which people leave it. */
  onLeave?: () => void;
  /** A size that stays. Without it the screen fills its place. */
  size?: { columns: number; rows: number };
}

export interface Screen {
  /**
   * Draws what a program has written, and reports false if it did not: a program can write faster than a screen draws,
   * and what waits is bounded.
   */
  write: (output: Uint8Array | string, then?: () => void) => boolean;
  paste: (text: string) => void;
  /** Empties it, as a terminal that was switched on. */
  reset: () => void;
  size: () => { columns: number; rows: number };
  resize: (size: { columns: number; rows: number }) => void;
  setReader: (isReader: boolean) => void;
  focus: () => void;
  /** Stops accepting input. */
  close: () => void;
  dispose: () => void;
}

/** How many bytes may wait to be drawn. */
export const mostWaiting = 4 * 1024 * 1024;

const fontSize = 13;
const leastFontSize = 9;

/** The page's policy allows styles that have its nonce. */
const nonceOf = () => document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";

/**
 * Makes an element whose styles the policy allows: a sheet has the nonce of the page, and an attribute with styles, which
 * the policy refuses, is set as a property, which it allows.
 */
function createElement(name: string): HTMLElement {
  const element = Document.prototype.createElement.call(document, name);
  if (name === "style") element.nonce = nonceOf();
  const setAttribute = element.setAttribute.bind(element);
  element.setAttribute = (attribute, value) => {
    if (attribute === "style") element.style.cssText = value;
    else setAttribute(attribute, value);
  };
  return element;
}

/** Insides are the parts of a terminal between its surface and the factory of its rows. */
interface Insides {
  _core?: { _renderService?: { _renderer?: { value?: { _rowFactory?: { _document?: object } } } } };
}

/**
 * Puts a terminal into an element. Some of its parts take the page's own document, whatever its option documentOverride
 * says: those that are made at once get their elements here, and so does the factory of its rows, which makes them
 * later. test/screen.test.ts fails if a new version is built in another way.
 */
function openGuarded(terminal: Terminal, host: HTMLElement): void {
  document.createElement = createElement as typeof document.createElement;
  try {
    terminal.open(host);
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
  const rows = (terminal as unknown as Insides)._core?._renderService?._renderer?.value?._rowFactory;
  if (rows) rows._document = { createElement };
}

/** Returns a text without the characters that would end a paste early, or press keys. */
export const pasted = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what this removes
  text.replaceAll(/\r\n?/g, "\n").replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");

/** Makes a screen in an element, which has its colours. */
export function makeScreen(host: HTMLElement, options: ScreenOptions): Screen {
  const coloursOf = () => {
    const { color, backgroundColor, accentColor } = getComputedStyle(host);
    return {
      foreground: color,
      background: backgroundColor,
      cursor: color,
      cursorAccent: backgroundColor,
      ...(accentColor !== "auto" && { selectionBackground: accentColor }),
    };
  };
  const terminal = new Terminal({
    theme: coloursOf(),
    fontFamily: getComputedStyle(host).fontFamily,
    fontSize,
    lineHeight: 1.15,
    // Colours are a program's, and the background is the theme's. Nobody could read some of the pairs.
    minimumContrastRatio: 4.5,
    scrollback: 5000,
    logLevel: "off",
    disableStdin: !options.onInput,
    cursorInactiveStyle: options.onInput ? "outline" : "none",
    ...(options.size && { cols: options.size.columns, rows: options.size.rows }),
  });
  // Links (8) could show one address and lead to another, 52 is the clipboard, and 0 to 2 are titles.
  for (const command of [0, 1, 2, 8, 52]) terminal.parser.registerOscHandler(command, () => true);
  const fitting = new FitAddon();
  terminal.loadAddon(fitting);
  openGuarded(terminal, host);
  terminal.textarea?.setAttribute("aria-label", options.label);

  if (options.onInput) terminal.onData(options.onInput);
  if (options.onInputBytes) terminal.onBinary(options.onInputBytes);
  terminal.onResize(({ cols, rows }) => options.onSize?.({ columns: cols, rows }));
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || !event.shiftKey) return true;
    event.preventDefault();
    if (event.type === "keydown") options.onLeave?.();
    return false;
  });
  const onPaste = (event: ClipboardEvent) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    const text = pasted(event.clipboardData?.getData("text/plain") ?? "");
    if (text !== "") options.onPaste?.(text);
  };
  host.addEventListener("paste", onPaste, true);

  let fixed = options.size;
  const place = () => {
    if (!fixed) {
      fitting.fit();
      return;
    }
    // A size that stays is shown as large as its place allows.
    const proposed = fitting.proposeDimensions();
    if (!proposed?.cols) return;
    const now = terminal.options.fontSize ?? fontSize;
    const next = Math.max(leastFontSize, Math.min(fontSize, Math.floor((now * proposed.cols) / fixed.columns)));
    if (next !== now) terminal.options.fontSize = next;
  };
  let placing = 0;
  // In the next frame: a screen that changes its size while sizes are observed is observed again.
  const placed = new ResizeObserver(() => {
    cancelAnimationFrame(placing);
    placing = requestAnimationFrame(place);
  });
  placed.observe(host);
  place();

  const recolour = () => {
    terminal.options.theme = coloursOf();
  };
  const themed = new MutationObserver(recolour);
  themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", recolour);

  let waiting = 0;
  let isFull = false;
  let isOver = false;
  return {
    write(output, then) {
      if (isFull || isOver) return false;
      const size = output.length;
      waiting += size;
      isFull = waiting > mostWaiting;
      terminal.write(output, () => {
        waiting -= size;
        if (waiting < mostWaiting / 2) isFull = false;
        then?.();
      });
      return true;
    },
    paste: (text) => terminal.paste(text),
    reset: () => terminal.reset(),
    size: () => ({ columns: terminal.cols, rows: terminal.rows }),
    resize(size) {
      fixed = size;
      terminal.resize(size.columns, size.rows);
      place();
    },
    setReader(isReader) {
      terminal.options.screenReaderMode = isReader;
    },
    focus: () => terminal.focus(),
    close() {
      terminal.options.disableStdin = true;
      terminal.write("\u001b[?25l"); // no cursor
    },
    dispose() {
      isOver = true;
      placed.disconnect();
      cancelAnimationFrame(placing);
      themed.disconnect();
      system.removeEventListener("change", recolour);
      host.removeEventListener("paste", onPaste, true);
      terminal.dispose();
    },
  };
}
