// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Text that a program wrote for a terminal, as pieces that a page can show. Colours and weight are kept. Every other
// command to a terminal is left out, and characters that nobody sees are shown by their number, because they make a text
// read as another one.

/** One of the colours of a terminal, which the theme chooses so that it can be read. */
export type Ink = "red" | "green" | "yellow" | "blue" | "magenta" | "cyan" | "quiet";

export interface Piece {
  text: string;
  ink?: Ink;
  isStrong?: boolean;
  /** The text is the number of a character that cannot be seen. */
  isMark?: boolean;
}

// 30 to 37, and the bright ones from 90. Black and white are the page's own ink, or nobody could read one of them.
const inks: (Ink | undefined)[] = [undefined, "red", "green", "yellow", "blue", "magenta", "cyan", undefined];

// A colour, a command of another kind (CSI, OSC, or a short one), or a character that is not seen: controls, what turns
// the direction, and what has no width. Those that choose the picture of a sign before them are harmless.
const special =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what this finds
  /\u001b\[([0-9;]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-Z\\^-~]|((?!\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}])/gu;

const mostPieces = 400;

const markOf = (character: string) =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Returns the pieces of a line. A line with more commands than a person would write ends without colours. */
export function piecesOf(line: string): Piece[] {
  const pieces: Piece[] = [];
  let ink: Ink | undefined;
  let isStrong = false;
  let at = 0;
  const push = (text: string, isMark = false) => {
    if (text === "") return;
    pieces.push({ text, ...(ink && { ink }), ...(isStrong && { isStrong }), ...(isMark && { isMark }) });
  };
  const colour = (codes: string) => {
    const all = codes.split(";").map(Number);
    for (let index = 0; index < all.length; index++) {
      const code = all[index] ?? 0;
      if (code === 0) {
        ink = undefined;
        isStrong = false;
      } else if (code === 1) isStrong = true;
      else if (code === 2) ink = "quiet";
      else if (code === 22) {
        isStrong = false;
        if (ink === "quiet") ink = undefined;
      } else if (code === 39) ink = undefined;
      else if (code >= 30 && code <= 37) ink = inks[code - 30];
      else if (code >= 90 && code <= 97) ink = inks[code - 90];
      else if (code === 38 || code === 48) {
        // A colour beyond the first sixteen is left out, because it may be unreadable on the page.
        const chosen = all[index + 1] === 5 ? all[index + 2] : undefined;
        if (code === 38) ink = chosen !== undefined && chosen < 16 ? inks[chosen % 8] : undefined;
        index += all[index + 1] === 5 ? 2 : 4;
      }
    }
  };
  for (const found of line.matchAll(special)) {
    if (pieces.length >= mostPieces) break;
    push(line.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[1] !== undefined) colour(found[1]);
    else if (found[2] !== undefined) push(markOf(found[2]), true);
  }
  // What is beyond the pieces is searched once, and shown without what could deceive.
  push(pieces.length >= mostPieces ? line.slice(at).replace(special, "\ufffd") : line.slice(at));
  return pieces;
}

/** Returns the text of a line as a person reads it, to be searched. */
export const plainOf = (line: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a quick look for what few lines have
  /[\u0000-\u001f\u007f]/.test(line)
    ? line.replace(special, (_, codes, character) => (codes === undefined ? (character ?? "") : ""))
    : line;
