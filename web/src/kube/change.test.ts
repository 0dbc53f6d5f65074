// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { describe, expect, test } from "vitest";
import { changeOf } from "./change.ts";

const container = { name: "web", image: "web:1", ports: [{ containerPort: 80, protocol: "TCP" }] };
const base = {
  metadata: { name: "web", labels: { app: "web", team: "shop" } },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: "web" } },
    template: { spec: { containers: [container, { name: "log", image: "log:1" }], hostAliases: [{ ip: "::1" }] } },
  },
};
const byName = (name: string, fields: object) => ({ [`k:{"name":"${name}"}`]: { ".": {}, "f:name": {}, ...fields } });
const leat = {
  manager: "leat",
  operation: "Apply",
  fieldsV1: {
    "f:metadata": { "f:labels": { "f:app": {} } },
    "f:spec": {
      "f:replicas": {},
      "f:selector": {},
      "f:template": {
        "f:spec": { "f:containers": { ...byName("web", { "f:image": {} }), ...byName("log", { "f:image": {} }) } },
      },
    },
  },
};
const own = (fieldsV1: object) => ({ manager: "leat-ui", operation: "Apply", fieldsV1 });
const changed = (change: (object: typeof base) => void, managed: object[] = [leat]) => {
  const edited = structuredClone(base);
  change(edited);
  return changeOf(base, edited, managed, "leat-ui");
};

describe("what of an edit is applied", () => {
  test("is nothing if nothing was changed, whatever the order of the fields", () => {
    const { name, labels } = base.metadata;
    expect(changeOf(base, { spec: base.spec, metadata: { labels, name } }, [leat], "leat-ui")).toEqual({
      apply: undefined,
      kept: [],
    });
  });

  test("is the changed field alone, and not what others manage", () => {
    expect(changed((object) => Object.assign(object.spec, { replicas: 3 })).apply).toEqual({ spec: { replicas: 3 } });
  });

  test("is a part of a list's item, with the keys that name it", () => {
    const { apply } = changed((object) =>
      Object.assign(object.spec.template.spec.containers[0] ?? {}, { image: "web:2" }),
    );
    expect(apply).toEqual({ spec: { template: { spec: { containers: [{ name: "web", image: "web:2" }] } } } });
  });

  test("is a whole list or object where the cluster takes it as one", () => {
    const { apply } = changed((object) => {
      object.spec.template.spec.hostAliases.push({ ip: "::2" });
      Object.assign(object.spec.selector.matchLabels, { tier: "front" });
    });
    expect(apply).toEqual({
      spec: {
        selector: { matchLabels: { app: "web", tier: "front" } },
        template: { spec: { hostAliases: [{ ip: "::1" }, { ip: "::2" }] } },
      },
    });
  });

  test("has what earlier edits own, or it would be removed", () => {
    const { apply } = changed(
      (object) => Object.assign(object.metadata.labels, { stage: "prod" }),
      [leat, own({ "f:metadata": { "f:labels": { "f:team": {} } } })],
    );
    expect(apply).toEqual({ metadata: { labels: { team: "shop", stage: "prod" } } });
  });

  test("lacks a field of an earlier edit that the person has removed", () => {
    const managed = [leat, own({ "f:metadata": { "f:labels": { "f:team": {} } }, "f:spec": { "f:replicas": {} } })];
    const removed = changed((object) => Reflect.deleteProperty(object.metadata.labels, "team"), managed);
    expect(removed).toEqual({ apply: { spec: { replicas: 2 } }, kept: [] });
  });

  test("cannot remove what others own, and names them", () => {
    const { kept } = changed((object) => {
      Reflect.deleteProperty(object.spec, "replicas");
      Reflect.deleteProperty(object.metadata.labels, "team");
      object.spec.template.spec.containers.pop();
    });
    expect(kept).toEqual(
      [
        { field: ".spec.template.spec.containers[log]", managers: ["leat"] },
        { field: ".spec.replicas", managers: ["leat"] },
        { field: ".metadata.labels.team", managers: [] },
      ].sort(
        (a, b) => kept.findIndex(({ field }) => field === a.field) - kept.findIndex(({ field }) => field === b.field),
      ),
    );
  });

  test("does not break on what is no managedFields", () => {
    for (const managed of [
      undefined,
      "x",
      [null, 1, { manager: "a", fieldsV1: "x" }, { manager: "b", fieldsV1: { "k:{": 1 } }],
    ])
      expect(changeOf({ a: [1] }, { a: [2] }, managed, "leat-ui").apply).toEqual({ a: [2] });
  });
});
