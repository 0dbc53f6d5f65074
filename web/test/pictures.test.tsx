// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { commands, page } from "vitest/browser";
import { clusterApi, event } from "./cluster.ts";
import { execHub } from "./exec.ts";
import { governRows } from "./govern-objects.ts";
import type { Answers } from "./hub.ts";
import { open } from "./open.tsx";
import {
  decode,
  difference,
  expectAlike,
  isWriting,
  type Picture,
  parts,
  shoot,
  toBase64,
  tolerance,
} from "./picture.ts";
import { type FakeKind, object, reachApi } from "./reach.ts";
import { policyRows, rolloutAnswers } from "./rollouts.ts";

// The pictures of the guide. Each run makes them again and compares them with those in docs/ui: what a page has become
// cannot be told by an old picture. `VITE_PICTURES=write npm test -- test/pictures` replaces them.

const cluster = clusterApi({
  pods: [
    { name: "cart-7d4b9-aaaaa", owner: "cart-7d4b9" },
    {
      name: "cart-7d4b9-bbbbb",
      owner: "cart-7d4b9",
      status: "CrashLoopBackOff",
      ready: "0/1",
      restarts: "12 (3m ago)",
    },
  ],
  deployments: ["cart"],
  events: [event("cart-7d4b9-bbbbb", "BackOff", "Back-off restarting failed container web")],
  logs: {
    "cart-7d4b9-bbbbb web previous": "listening at :8080\nreading /etc/shop/prices.json\npanic: no quota left\n",
  },
});

const rollouts: Partial<Answers> = {
  objects: (kind) => (kind === "RolloutPolicy" ? policyRows() : undefined),
  rollouts: rolloutAnswers,
};

/** Returns some of the kinds that a cluster has, by "RESOURCE KIND SHORT". */
const kindsOf = (group: string, version: string, ...kinds: string[]): FakeKind[] =>
  kinds.map((words) => {
    const [resource = "", kind = "", short] = words.split(" ");
    return { group, version, resource, kind, ...(short && { shortNames: [short] }) };
  });

const kinds = [
  ...kindsOf("", "v1", "configmaps ConfigMap cm", "endpoints Endpoints ep", "events Event ev", "pods Pod po"),
  ...kindsOf("", "v1", "persistentvolumeclaims PersistentVolumeClaim pvc", "secrets Secret", "services Service svc"),
  ...kindsOf("apps", "v1", "daemonsets DaemonSet ds", "deployments Deployment deploy", "statefulsets StatefulSet sts"),
  ...kindsOf("autoscaling", "v2", "horizontalpodautoscalers HorizontalPodAutoscaler hpa"),
  ...kindsOf("batch", "v1", "cronjobs CronJob cj", "jobs Job"),
  ...kindsOf("cert-manager.io", "v1", "certificates Certificate cert", "issuers Issuer"),
  ...kindsOf("networking.k8s.io", "v1", "ingresses Ingress ing", "networkpolicies NetworkPolicy netpol"),
];

const prices = object(
  "cart",
  { data: { colour: "red", currency: "EUR", greeting: "hello", timeout: "30s" } },
  { labels: { "leat.dev/service": "cart" } },
);
const causes = [
  ["leat", ".data.colour"],
  ["leat", ".data.timeout"],
  ["kubectl-edit", ".data.greeting"],
].map(([manager, field]) => ({
  reason: "FieldManagerConflict",
  message: `conflict with "${manager}" using v1`,
  field,
}));
const contested = reachApi({
  objects: [prices],
  before: ({ method }) =>
    method === "PATCH"
      ? Response.json(
          { kind: "Status", message: "Apply failed", code: 409, details: { causes } },
          { status: 409, headers: { "Leat-Error-Origin": "cluster" } },
        )
      : undefined,
});

async function contest() {
  await page.getByRole("button", { name: "Edit" }).click();
  const edited = { colour: "blue", currency: "EUR", greeting: "hi", timeout: "5s" };
  const data = Object.entries(edited).map(([key, value]) => `  ${key}: ${value}\n`);
  await page
    .getByRole("textbox", { name: "YAML of cart" })
    .fill(
      `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cart\n  namespace: shop\n  labels:\n    leat.dev/service: cart\ndata:\n${data.join("")}`,
    );
  await page.getByRole("button", { name: "See what changes" }).click();
}

const recorded: Partial<Answers> = {
  ...execHub().answers,
  tunnel: { getRecordingRules: () => ({ output: true, input: true, required: true }) },
};

const pictures: [name: string, path: string, change: Partial<Answers>, until: string, prepare?: () => Promise<void>][] =
  [
    ["problems", "/", {}, "Show all 48"],
    ["services", "/services", {}, "web-0"],
    ["service", "/services/cart@berlin", cluster, "panic: no quota left"],
    ["map", "/clusters?view=map", {}, "Group by"],
    ["rollout", "/rollouts/shops", rollouts, "canary"],
    ["resources", "/clusters/berlin/resources", { kube: reachApi({ kinds }).kube }, "HorizontalPodAutoscaler"],
    [
      "conflict",
      "/clusters/berlin/resources/core/v1/configmaps/shop/cart?tab=yaml",
      { kube: contested.kube },
      "Leat's agent will put these fields back.",
      contest,
    ],
    [
      "terminal",
      "/terminal/berlin?namespace=shop&pod=cart-7d4b9-aaaaa&container=web",
      recorded,
      "every key, passwords included",
    ],
    ["project", "/projects/shop", { objects: governRows }, "121 of 200"],
    ["commit", "/commits/demo@4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e", {}, "web-0"],
  ];
const ofCluster = ["resources", "conflict", "terminal"];
const themes = ["light", "dark"] as const;
const width = 1280;
const height = 800;

const pathOf = (name: string, theme: string) => `../docs/ui/${name}-${theme}.webp`;

async function toWebp({ canvas }: Picture): Promise<string> {
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/webp", 0.75));
  return toBase64(new Uint8Array(await (blob as Blob).arrayBuffer()));
}

const kept = new Map<string, number[]>();

for (const [name, path, change, until, prepare] of pictures) {
  for (const theme of themes) {
    test(`${name} in the ${theme} theme is as the guide shows it`, async () => {
      await page.viewport(width, height);
      document.documentElement.dataset.theme = theme;
      open(path, change);
      await prepare?.();
      await expect.element(page.getByText(until, { exact: false }).first()).toBeVisible();
      // What a cluster answers says nothing about the hub, so pages of a cluster alone do not say that they are live.
      if (!ofCluster.includes(name)) await expect.element(page.getByText("Live").first()).toBeVisible();
      const now = await shoot(width, height);
      if (isWriting) await commands.writeFile(pathOf(name, theme), await toWebp(now), "base64");
      const before = parts(await decode(await commands.readFile(pathOf(name, theme), "base64"), "image/webp"));
      kept.set(`${name}-${theme}`, before);
      expectAlike(before, now);
    });
  }
}

test("any two pictures differ by more than the tolerance", () => {
  expect(kept.size).toBe(pictures.length * themes.length);
  for (const [name, one] of kept)
    for (const [other, two] of kept)
      if (name < other) expect(difference(one, two), `${name} and ${other}`).toBeGreaterThan(tolerance);
});
