// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { Health } from "../../gen/leat/type/v1/state_pb";
import { boxHeight, inSight, layoutOf, stemsOf } from "./layout.ts";
import { outlineOf, rowsOf } from "./tree.ts";

const object = (kind: string, name: string, group = "") =>
  ({ ref: { group, version: "v1", kind, namespace: "shop", name }, health: Health.HEALTHY }) as never;

const pod = (index: number) => ({
  group: "",
  kind: "Pod",
  namespace: "shop",
  name: `cart-${index}`,
  health: index % 7 === 0 ? Health.DEGRADED : Health.HEALTHY,
  word: "Running",
  ready: "1/1",
  restarts: "",
  node: "",
  createdAt: undefined,
});

/** Returns the rows of a service with so many pods, of which every group is unfolded. */
function rows(pods: number) {
  const family = { replicaSets: [], pods: Array.from({ length: pods }, (_, index) => pod(index)), more: 0 };
  const known = new Map([["apps\nDeployment\nshop\ncart", { family }]]);
  return rowsOf(outlineOf([object("ConfigMap", "cart"), object("Deployment", "cart", "apps")], known), () => true);
}

describe("the graph's layout", () => {
  test("each row of the outline has a place of its own, to the right of what is above it", () => {
    const branches = rows(120);
    const layout = layoutOf(branches);
    expect(layout.rows.map(({ key }) => key)).toEqual(branches.map(({ key }) => key));
    expect(layout.nodes).toHaveLength(branches.length + 1);
    for (const { from, x } of layout.rows) expect(x).toBeGreaterThan(from?.x ?? Number.POSITIVE_INFINITY);
    const columns = Map.groupBy(layout.nodes, ({ x }) => x);
    for (const column of columns.values()) {
      column.forEach(({ y }, index) => {
        if (index > 0) expect(y - (column[index - 1]?.y ?? 0)).toBeGreaterThan(boxHeight);
      });
    }
    expect(Math.max(...layout.nodes.map(({ y }) => y + boxHeight))).toBeLessThan(layout.height);
    expect(Math.min(...layout.nodes.map(({ y }) => y))).toBeGreaterThan(0);
  });

  test("what is in sight of ten thousand is a screen of them, and one line leads to all", () => {
    const layout = layoutOf(rows(10_000));
    const shown = inSight(layout, { left: 0, top: 200_000, width: 1280, height: 800 });
    expect(shown.length).toBeGreaterThan(10);
    expect(shown.length).toBeLessThan(40);
    expect(shown.every(({ y }) => y > 199_000 && y < 202_000)).toBe(true);
    // The service, the Deployment, and the group of its pods.
    expect(stemsOf(layout)).toHaveLength(3);
  });

  test("a service without rows is itself alone", () => {
    expect(layoutOf([]).nodes.map(({ index }) => index)).toEqual([-1]);
  });

  // Both run on the same busy machine, so the slower of them is slow for its own reasons. A layout that compares each
  // with each would take a hundred times as long.
  test("ten thousand pods cost as little for each as a thousand do", () => {
    const cost = (branches: ReturnType<typeof rows>, times: number) => {
      const before = process.cpuUsage();
      for (let turn = 0; turn < times; turn += 1) {
        const layout = layoutOf(branches);
        stemsOf(layout);
        inSight(layout, { left: 0, top: 10_000, width: 1280, height: 800 });
      }
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    const [few, many] = [rows(1000), rows(10_000)];
    cost(few, 10);
    cost(many, 1);
    const small = cost(few, 20);
    const large = cost(many, 2);
    expect(large).toBeLessThan(small * 8);
  });
});
