// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import lock from "../package-lock.json" with { type: "json" };

// What runs in people's browsers is under one of these, as CONTRIBUTING.md says for Go.
const allowed = /^(Apache-2\.0|MIT|BSD-[23]-Clause|0BSD|ISC|MPL-2\.0)$/;

// isbot is a part of the router for servers, which no build of ours contains.
const exceptions: Record<string, string> = { isbot: "Unlicense" };

type Locked = { license?: string; dev?: boolean; optional?: boolean };

test("the packages that run are under licences that we accept", () => {
  const refused = Object.entries(lock.packages as Record<string, Locked>)
    .filter(([path, locked]) => path.startsWith("node_modules/") && !locked.dev && !path.includes("@biomejs/"))
    .map(([path, locked]) => ({ name: path.replace(/^.*node_modules\//, ""), license: locked.license ?? "" }))
    .filter(({ name, license }) => exceptions[name] !== license)
    // "(A AND B)" binds by both. A choice has to be written as an exception.
    .filter(
      ({ license }) =>
        !license
          .replace(/[()]/g, "")
          .split(" AND ")
          .every((one) => allowed.test(one)),
    );
  expect(refused).toEqual([]);
});

test("every exception is still needed", () => {
  for (const name of Object.keys(exceptions)) expect(Object.keys(lock.packages)).toContain(`node_modules/${name}`);
});
