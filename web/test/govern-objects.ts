// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Reason } from "../src/gen/leat/errors/v1/reason_pb";
import { LabelOperator } from "../src/gen/leat/fleet/v1/people_pb";
import { type FleetRow, FleetRowSchema } from "../src/gen/leat/fleet/v1/query_pb";
import { ago } from "./hub.ts";

// Projects, sets of configuration and back ends of an invented hub.

const nameOf = (ref: string) => ref.slice(ref.indexOf("/") + 1);

export function projectRow(name: string, status: object, spec: object = {}): FleetRow {
  return create(FleetRowSchema, {
    ref: name,
    name,
    document: { object: { case: "project", value: { metadata: { name }, spec, status } } },
  });
}

export const projectRows = (): FleetRow[] => [
  projectRow("default", { clusters: 12, repositories: 3, services: 140, bundleBytes: 48_000_000n, bundles: 9 }),
  projectRow(
    "edge",
    { clusters: 900, repositories: 2, services: 45 },
    { description: "Stores and kiosks.", quotas: { services: 900 } },
  ),
  fullProject(),
];

export const fullProject = (): FleetRow =>
  projectRow(
    "shop",
    {
      clusters: 0,
      repositories: 20,
      services: 121,
      bundleBytes: 40_000_000n,
      bundles: 7,
      largestBundles: [{ repository: "web", path: "deploy", bytes: 9_300_000n }],
    },
    {
      description: "The shop's own services.",
      quotas: { services: 200, repositories: 20, bundleBytes: 104_857_600n, bytesPerBundle: 10_485_760n },
      limits: {
        repositories: { allow: ["https://git.example.com/shop/**"] },
        namespaces: { allow: ["shop", "shop-*"] },
        clusterScopedKinds: { allow: [] },
      },
      shares: [
        {
          projects: { names: ["edge"] },
          clusters: {
            labels: {
              matchLabels: { stage: "prod" },
              matchExpressions: [{ key: "region", operator: LabelOperator.NOT_IN, values: ["us"] }],
            },
          },
          repositories: { all: true },
          clusterAnnotations: ["example.com/*"],
        },
      ],
      configSets: ["platform/defaults", "database"],
    },
  );

export function setRow(ref: string, config: object, description = ""): FleetRow {
  const value = { metadata: { name: nameOf(ref) }, spec: { description, config } };
  return create(FleetRowSchema, {
    ref,
    name: nameOf(ref),
    document: { object: { case: "configSet", value } },
  });
}

export const setRows = (): FleetRow[] => [
  setRow("defaults", { values: { LOG_LEVEL: "info", REPLICAS: "2" } }, "What every service has."),
  setRow("region-eu", {
    values: { DB_HOST: "db.eu.example" },
    secrets: { DB_PASSWORD: "" },
    references: { TOKEN: "vault-prod://shop/api#token" },
  }),
];

export function backendRow(name: string, status: object, spec: object, row: object = {}): FleetRow {
  return create(FleetRowSchema, {
    ref: name,
    name,
    can: ["refresh"],
    document: { object: { case: "configBackend", value: { metadata: { name }, spec, status } } },
    ...row,
  });
}

const vault = (extra: object = {}) => ({
  kind: { case: "vault", value: { url: "https://vault.example:8200", mount: "apps" } },
  projects: ["shop"],
  allowedPaths: ["shop/**"],
  ...extra,
});

export const backendRows = (): FleetRow[] => [
  backendRow("files", {}, { kind: { case: "files", value: { root: "certs" } }, projects: ["*"], public: true }),
  backendRow("vault-prod", { entries: 14, readTime: ago(2) }, vault()),
  backendRow(
    "vault-test",
    {
      entries: 3,
      failing: 2,
      readTime: timestampFromMs(0),
      problem: { reason: Reason.UPSTREAM_UNREACHABLE, message: "dial tcp 192.0.2.9:8200: i/o timeout", since: ago(30) },
    },
    vault(),
    { reason: Reason.UPSTREAM_UNREACHABLE, message: "dial tcp 192.0.2.9:8200: i/o timeout", since: ago(30) },
  ),
];

/** Returns the rows of a kind that these pages show, or undefined. */
export const governRows = (kind: string): FleetRow[] | undefined =>
  ({ Project: projectRows, ConfigSet: setRows, ConfigBackend: backendRows })[kind as "Project"]?.();
