// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import type { Layout } from "./layout.ts";

/** Inks are the colours of a map, as the page's theme or the system's forced colours have them. */
export interface Inks {
  ok: string;
  bad: string;
  idle: string;
  /** What a mark on a filled cell is drawn with. */
  paper: string;
}

type Shape = "full" | "slashed" | "hollow" | "dotted";

const shapes: Record<string, { shape: Shape; ink: "ok" | "bad" | "idle" }> = {
  CONNECTED: { shape: "full", ink: "ok" },
  DISCONNECTED: { shape: "slashed", ink: "bad" },
  NOT_JOINED: { shape: "hollow", ink: "idle" },
};

const unknown: { shape: Shape; ink: "idle" } = { shape: "dotted", ink: "idle" };

/** Returns how a phase looks: no colour without a shape. */
export const shapeOf = (phase: string) => shapes[phase] ?? unknown;

/**
 * Draws all cells. Cells with one phase are one path, so that ten thousand cells are a handful of strokes and not ten
 * thousand. If the hub cannot confirm them, all are grey, and keep their shapes.
 */
export function draw(context: CanvasRenderingContext2D, layout: Layout, inks: Inks, isStale: boolean): void {
  const { cells, lines, pitch, edge } = layout;
  const paths = new Map<string, { fill: Path2D; marks: Path2D }>();
  for (const { y, start, count } of lines) {
    for (let column = 0; column < count; column += 1) {
      const phase = cells[start + column]?.phase ?? "";
      const { shape } = shapeOf(phase);
      let path = paths.get(phase);
      if (!path) {
        path = { fill: new Path2D(), marks: new Path2D() };
        paths.set(phase, path);
      }
      const x = column * pitch + 1;
      const top = y + 1;
      if (shape === "full" || shape === "slashed") path.fill.rect(x, top, edge, edge);
      if (shape === "slashed") {
        path.marks.moveTo(x + 1.5, top + 1.5);
        path.marks.lineTo(x + edge - 1.5, top + edge - 1.5);
        path.marks.moveTo(x + edge - 1.5, top + 1.5);
        path.marks.lineTo(x + 1.5, top + edge - 1.5);
      }
      if (shape === "hollow" || shape === "dotted") path.marks.rect(x + 0.75, top + 0.75, edge - 1.5, edge - 1.5);
      if (shape === "dotted") path.fill.rect(x + edge / 2 - 1, top + edge / 2 - 1, 2, 2);
    }
  }
  for (const [phase, { fill, marks }] of paths) {
    const { shape, ink } = shapeOf(phase);
    const colour = isStale ? inks.idle : inks[ink];
    context.fillStyle = colour;
    context.fill(fill);
    context.strokeStyle = shape === "slashed" ? inks.paper : colour;
    context.lineWidth = 1.5;
    context.stroke(marks);
  }
}
