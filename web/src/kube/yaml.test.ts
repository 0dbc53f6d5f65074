// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { editable, fromYaml, toYaml } from "./yaml.ts";

describe("YAML of an object", () => {
  test("begins with what it is, and comes back as it was", () => {
    const object = {
      spec: { text: "a: b\n\u202e", number: "1" },
      kind: "Widget",
      apiVersion: "v1",
      metadata: { name: "a" },
    };
    const text = toYaml(object);
    expect(text).toMatch(/^apiVersion: v1\nkind: Widget\nmetadata:\n/);
    expect(fromYaml(text)).toEqual({ object });
  });

  test("is edited without what the API server sets", () => {
    const metadata = { name: "a", uid: "u", resourceVersion: "1", managedFields: [], labels: { a: "b" } };
    expect(editable({ kind: "Widget", metadata, status: {} })).toEqual({
      kind: "Widget",
      metadata: { name: "a", labels: { a: "b" } },
    });
  });

  test.each([
    ["a text that is too long", `a: ${"x".repeat(2_000_000)}`, { objection: "tooLong" }],
    ["a nesting of the parser", "[".repeat(100_000), { objection: "tooDeep" }],
    [
      "a nesting of the object",
      `${"a: {".repeat(150)}${"}".repeat(150)}`.replaceAll("a: {", "{a: ").replace("a: }", "a: 1}"),
      { objection: "tooDeep" },
    ],
    ["a list", "- a", { objection: "noObject" }],
    ["nothing", "", { objection: "noObject" }],
  ])("refuses %s", (_, text, objection) => {
    expect(fromYaml(text)).toEqual(objection);
  });

  test("refuses a few lines that stand for a billion", () => {
    const bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"];
    for (const [index, name] of ["b", "c", "d", "e", "f", "g"].entries()) {
      const before = String.fromCharCode(97 + index);
      bomb.push(`${name}: &${name} [${Array(9).fill(`*${before}`).join(",")}]`);
    }
    expect(fromYaml(bomb.join("\n"))).toHaveProperty("words");
  });

  test("says what cannot be read, and refuses a second document", () => {
    for (const text of ["a: b: c", "a: 1\na: 2", "a: 1\n---\nb: 2"]) expect(fromYaml(text)).toHaveProperty("words");
  });
});
