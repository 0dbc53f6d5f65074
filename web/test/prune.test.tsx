// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import type { ApplyRequest } from "../src/gen/leat/fleet/v1/document_pb";
import { type Answers, clusterDocument, refusal, serviceDocument } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const why = "the guard keeps 4 of 12 objects from deletion: confirm with leat prune confirm";

/** Returns the service while the guard keeps so many objects. */
function guarded(count: number, change: { digest?: string; agreed?: string; names?: (index: number) => string } = {}) {
  const document = serviceDocument();
  if (document.object.case !== "service") throw new Error("it is no service");
  const { spec, status, metadata } = document.object.value;
  if (!status?.report || !spec || !metadata) throw new Error("it has no report");
  const { digest = "sha256:held", agreed = "", names = (index) => `old-${index}` } = change;
  metadata.resourceVersion = 42n;
  status.report.guardedSpecDigest = digest;
  status.report.problem = {
    $typeName: "leat.type.v1.Problem",
    reason: Reason.PRUNE_GUARDED,
    message: why,
    metadata: {},
  } as typeof status.report.problem;
  status.report.guarded = Array.from({ length: count }, (_, index) => ({
    $typeName: "leat.type.v1.ObjectRef",
    group: index === 0 ? "apps" : "",
    version: "v1",
    kind: index === 0 ? "Deployment" : "ConfigMap",
    namespace: "shop",
    name: names(index),
  }));
  if (agreed !== "") {
    spec.sync = { $typeName: "leat.fleet.v1.SyncOptions", pruneConfirmation: agreed } as typeof spec.sync;
  }
  return document;
}

function cluster(labels: Record<string, string> = {}) {
  const document = clusterDocument();
  if (document.object.case === "cluster" && document.object.value.metadata)
    document.object.value.metadata.labels = labels;
  return document;
}

const never = new Promise<void>(() => {});

/** Opens the page of a service whose guard keeps objects. What is read again can differ from what is shown. */
function openGuarded(document = guarded(4), change: Partial<Answers> = {}, labels: Record<string, string> = {}) {
  const applied: [ApplyRequest, string | null][] = [];
  open("/services/cart@berlin", {
    ...change,
    fleet: {
      get: ({ kind }) => ({ document: kind === "Cluster" ? cluster(labels) : document }),
      watch: async function* () {
        yield { document };
        await never;
      },
      apply: (request, { requestHeader }) => {
        applied.push([request, requestHeader.get("Leat-Reason")]);
        return {};
      },
      ...change.fleet,
    },
  });
  return applied;
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const dialog = () => page.getByRole("dialog");
const card = () => page.getByRole("region", { name: "Objects that would go" });

describe("deletions that the guard holds back", () => {
  test("the page shows why, and which objects, and many need the service's name", async () => {
    const applied = openGuarded();
    await expect.element(page.getByText(why.replace("the guard", "The guard"))).toBeVisible();
    await expect.element(card().getByText("Deployment.apps old-0 shop")).toBeVisible();
    await expect.element(page.getByText("leat prune confirm service/cart@berlin").first()).toBeVisible();
    await expectAccessible();
    await button("Confirm deletions").click();
    const verb = dialog().getByRole("button", { name: "Delete 4 objects" });
    await expect.element(verb).toHaveAttribute("aria-disabled", "true");
    await expect.element(dialog().getByText("More than three objects go", { exact: false })).toBeVisible();
    await expectAccessible();
    await dialog().getByRole("textbox", { name: "Type cart@berlin to go on" }).fill("cart@berlin");
    await dialog().getByRole("textbox", { name: "Reason (optional)" }).fill("OPS-9");
    await verb.click();
    await expect.element(page.getByText("Agreed. The agent deletes the objects at its next run.")).toBeVisible();
    const [[request, reason] = []] = applied;
    const object = request?.documents[0]?.object;
    expect(object?.case === "service" && object.value.spec?.sync?.pruneConfirmation).toBe("sha256:held");
    expect(object?.case === "service" && object.value.metadata?.resourceVersion).toBe(42n);
    expect(reason).toBe("OPS-9");
  });

  test("three objects in a cluster that nothing protects are one press", async () => {
    const applied = openGuarded(guarded(3));
    await button("Confirm deletions").click();
    await expect.element(dialog().getByRole("button", { name: "Delete 3 objects" })).toBeVisible();
    expect(dialog().getByRole("textbox").elements()).toHaveLength(1);
    await dialog().getByRole("button", { name: "Delete 3 objects" }).click();
    await expect.poll(() => applied.length).toBe(1);
  });

  test.each([
    ["a protected cluster", { "leat.dev/protected": "" }, "is protected by the label"],
    ["a cluster that cannot be read", undefined, "It is not known whether the cluster berlin is protected."],
  ])("%s needs the name for one object, too", async (_, labels, words) => {
    const document = guarded(1);
    openGuarded(document, {
      fleet: {
        get: ({ kind }) => {
          if (kind !== "Cluster") return { document };
          if (!labels) throw refusal(Code.NotFound, "NOT_FOUND", "no cluster berlin");
          return { document: cluster(labels) };
        },
      },
    });
    await button("Confirm deletions").click();
    await expect.element(dialog().getByText(words, { exact: false })).toBeVisible();
    await expect.element(dialog().getByRole("button", { name: "Delete 1 object" })).toHaveAttribute("aria-disabled");
  });

  test("a list that changes in between deletes nothing", async () => {
    let reads = 0;
    const applied = openGuarded(guarded(1), {
      fleet: {
        get: ({ kind }) => {
          if (kind === "Cluster") return { document: cluster() };
          reads += 1;
          // The page itself, the dialog, and then the agreement.
          return { document: guarded(1, { digest: reads < 3 ? "sha256:held" : "sha256:other" }) };
        },
      },
    });
    await button("Confirm deletions").click();
    await dialog().getByRole("button", { name: "Delete 1 object" }).click();
    await expect
      .element(dialog().getByText("The list has changed. Nothing was deleted.", { exact: false }))
      .toBeVisible();
    expect(applied).toEqual([]);
  });

  test("an agreement that is given already is shown, and asks nothing", async () => {
    openGuarded(guarded(4, { agreed: "sha256:held" }));
    await expect.element(page.getByText("A person has agreed to these deletions")).toBeVisible();
    expect(button("Confirm deletions").elements()).toHaveLength(0);
    await expectAccessible();
  });

  test("who may not confirm sees the list, and why not", async () => {
    openGuarded(guarded(4), { can: ["sync", "pause"] });
    await expect
      .element(button("Confirm deletions"))
      .toHaveAttribute("title", expect.stringContaining("No binding lets you confirm services here."));
  });

  test("names of a cluster are text, and an agent names fifty at most", async () => {
    const evil = '<img src=x onerror="document.title=1">\u202e';
    openGuarded(guarded(50, { names: (index) => `${index}${evil.repeat(20)}` }));
    await expect.element(card()).toBeVisible();
    expect(card().getByRole("listitem").elements()).toHaveLength(50);
    await expect.element(page.getByText("The agent names 50 objects at most.", { exact: false })).toBeVisible();
    expect(document.querySelector("#app img")).toBeNull();
    await expectAccessible();
  });

  test("a service whose guard keeps nothing has no such part", async () => {
    open("/services/cart@berlin");
    await expect.element(button("Sync now")).toBeVisible();
    expect(page.getByText("Deletions that wait for a person").elements()).toHaveLength(0);
  });
});
