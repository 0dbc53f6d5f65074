// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect } from "vitest";
import { page } from "vitest/browser";

// Pictures of pages, and how much two of them differ.
//
// Fonts and their rasterisers differ between machines, so a picture is compared by the brightness of its parts: letters
// that are a little wider move little of it, and a card, a column or a theme that is gone moves much. A serif font with
// other distances moved 2.1 of 255 at most; the two pictures that are most alike differ by 4.6.

const columns = 32;
const rows = 20;
/** How much of a brightness from 0 to 255 a picture may differ, over all of its parts. */
export const tolerance = 3.5;

export const isWriting = import.meta.env.VITE_PICTURES === "write";

export interface Picture {
  canvas: HTMLCanvasElement;
  data: Uint8ClampedArray<ArrayBuffer>;
}

/** Returns a picture of what a browser can draw, which is closed then. */
export function draw(image: ImageBitmap | VideoFrame): Picture {
  const canvas = document.createElement("canvas");
  canvas.width = "codedWidth" in image ? image.codedWidth : image.width;
  canvas.height = "codedHeight" in image ? image.codedHeight : image.height;
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser draws no picture");
  context.drawImage(image, 0, 0);
  image.close();
  return { canvas, data: context.getImageData(0, 0, canvas.width, canvas.height).data };
}

export const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export const decode = async (base64: string, type: string): Promise<Picture> =>
  draw(await createImageBitmap(new Blob([bytesOf(base64)], { type })));

/** Returns a picture of the page once nothing of it moves. */
export async function shoot(width: number, height: number): Promise<Picture> {
  for (const animation of document.getAnimations()) animation.finish();
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const picture = await decode(await page.screenshot({ base64: true, save: false }), "image/png");
  expect([picture.canvas.width, picture.canvas.height]).toEqual([width, height]);
  return picture;
}

/** Returns the mean brightness of each part of a picture. */
export function parts({ canvas: { width, height }, data }: Picture): number[] {
  const sums = new Array<number>(columns * rows).fill(0);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 4 * (y * width + x);
      const part = Math.floor((y * rows) / height) * columns + Math.floor((x * columns) / width);
      sums[part] = (sums[part] ?? 0) + ((data[at] ?? 0) + (data[at + 1] ?? 0) + (data[at + 2] ?? 0)) / 3;
    }
  }
  const size = (width / columns) * (height / rows);
  return sums.map((sum) => sum / size);
}

export const difference = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, value, index) => sum + Math.abs(value - (b[index] ?? 0)), 0) / a.length;

/** Expects that the page looks as its picture in the guide does. */
export const expectAlike = (kept: readonly number[], now: Picture) =>
  expect(difference(kept, parts(now)), "make the pictures again if the page is to look so").toBeLessThan(tolerance);
