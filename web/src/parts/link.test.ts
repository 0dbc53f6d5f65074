// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { externalUrl } from "./link.tsx";

test.each([
  ["https://git.example.com/a/b.git", "https://git.example.com/a/b.git"],
  ["http://git.example.com", "http://git.example.com/"],
  ["HTTPS://GIT.example.com/x", "https://git.example.com/x"],
])("%s leads to %s", (raw, href) => {
  expect(externalUrl(raw)?.href).toBe(href);
});

// The forms of published advisories about links that come from annotations and repositories, and their kin.
test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\nscript:alert(1)",
  "java\tscript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript://git.example.com/%0aalert(1)",
  "data:text/html,<script>alert(1)</script>",
  "vbscript:msgbox(1)",
  "blob:https://leat.example.com/1",
  "file:///etc/passwd",
  "view-source:https://git.example.com",
  "//git.example.com/x",
  "/\\git.example.com",
  "https:git.example.com",
  "https://",
  "https://leat.example.com@evil.example/",
  "https://user:secret@git.example.com/x",
  "git@git.example.com:a/b.git",
  "ssh://git@git.example.com/a/b.git",
  "oci://registry.example.com/x",
  "",
])("%j is text", (raw) => {
  expect(externalUrl(raw)).toBeUndefined();
});

test("nothing but http and https ever passes", () => {
  const parts = [
    "http",
    "https",
    "javascript",
    "data",
    ":",
    "//",
    "/",
    "\\",
    "@",
    "\n",
    "\t",
    "\0",
    " ",
    "x.example",
    "%0a",
  ];
  let seed = 7;
  const next = () => {
    seed = (seed * 48271) % 2147483647;
    return parts[seed % parts.length] as string;
  };
  for (let i = 0; i < 20_000; i++) {
    const raw = Array.from({ length: 1 + (i % 6) }, next).join("");
    const url = externalUrl(raw);
    if (!url) continue;
    expect(url.protocol, JSON.stringify(raw)).toMatch(/^https?:$/);
    expect(url.username + url.password, JSON.stringify(raw)).toBe("");
  }
});
