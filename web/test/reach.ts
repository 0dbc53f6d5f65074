// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { failure } from "./cluster.ts";

// The whole Kubernetes API of a cluster in the page: its discovery, lists in chunks, watches, and what is sent to it. The
// forms are those of an API server of v1.36.

/** FakeObject is an object as the API has it. */
export interface FakeObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; [field: string]: unknown };
  [field: string]: unknown;
}

export interface FakeKind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  isNamespaced?: boolean;
  verbs?: string[];
  shortNames?: string[];
  /** Beside its status. */
  subresources?: string[];
  /** The columns beside the name and the age, and the cells of an object. */
  columns?: { name: string; type?: string; priority?: number }[];
  cells?: (object: FakeObject) => unknown[];
}

/** Request is what a page has asked of the cluster. */
export interface Request {
  method: string;
  url: URL;
  accept: string;
  type: string;
  body: unknown;
}

/** OpenWatch is a watch that a page has open. */
export interface OpenWatch {
  url: URL;
  signal: AbortSignal;
  send: (...events: object[]) => void;
  end: () => void;
}

const json = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

const everything = ["create", "delete", "get", "list", "patch", "update", "watch"];

export const kinds: FakeKind[] = [
  { group: "", version: "v1", resource: "namespaces", kind: "Namespace", isNamespaced: false, shortNames: ["ns"] },
  {
    group: "",
    version: "v1",
    resource: "configmaps",
    kind: "ConfigMap",
    shortNames: ["cm"],
    columns: [{ name: "Data", type: "integer" }],
    cells: (object) => [Object.keys((object.data as object) ?? {}).length],
  },
  {
    group: "",
    version: "v1",
    resource: "secrets",
    kind: "Secret",
    columns: [{ name: "Type" }],
    cells: () => ["Opaque"],
  },
  { group: "", version: "v1", resource: "bindings", kind: "Binding", verbs: ["create"] },
  {
    group: "apps",
    version: "v1",
    resource: "deployments",
    kind: "Deployment",
    shortNames: ["deploy"],
    subresources: ["scale"],
    columns: [{ name: "Ready" }, { name: "Selector", priority: 1 }],
    cells: () => ["2/2", "app=cart"],
  },
  {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    resource: "clusterroles",
    kind: "ClusterRole",
    isNamespaced: false,
  },
  { group: "example.com", version: "v1beta1", resource: "widgets", kind: "Widget", verbs: ["get", "list"] },
];

export const object = (name: string, change: Partial<FakeObject> = {}, metadata: object = {}): FakeObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  data: { greeting: "hello" },
  ...change,
  metadata: {
    name,
    namespace: "shop",
    uid: `uid-${name}`,
    resourceVersion: "41",
    creationTimestamp: "2026-11-28T11:17:42Z",
    ...metadata,
  },
});

export interface FakeReach {
  kinds: FakeKind[];
  objects: FakeObject[];
  /** Without aggregated discovery, as before 1.26. */
  isOlder: boolean;
  /** Is asked first. What it returns is the answer. */
  before: (request: Request) => Response | Promise<Response> | undefined;
}

/** Returns the answers of a cluster, as makeHub takes them, what was asked, and the watches that are open. */
export function reachApi(change: Partial<FakeReach> = {}) {
  const cluster: FakeReach = {
    kinds,
    objects: [object("cart"), object("web")],
    isOlder: false,
    before: () => undefined,
    ...change,
  };
  const requests: Request[] = [];
  const watches: OpenWatch[] = [];
  let opened = Promise.withResolvers<void>();
  /** Returns the watch that is open, once there is one. */
  const watching = async (): Promise<OpenWatch> => {
    while (true) {
      const [open] = watches;
      if (open) return open;
      await opened.promise;
    }
  };

  const kube = (path: string, signal: AbortSignal, accept: string, init: RequestInit = {}) => {
    const url = new URL(path, "http://cluster.invalid");
    const request: Request = {
      method: init.method ?? "GET",
      url,
      accept,
      type: new Headers(init.headers).get("Content-Type") ?? "",
      body: typeof init.body === "string" ? JSON.parse(init.body) : undefined,
    };
    requests.push(request);
    return cluster.before(request) ?? answer(request, signal);
  };

  function answer({ method, url, accept, body }: Request, signal: AbortSignal): Response {
    const { pathname, searchParams } = url;
    if (pathname === "/api" || pathname === "/apis") return discovery(cluster, pathname, accept);
    if (pathname.endsWith("/selfsubjectrulesreviews"))
      return json({
        status: { resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }], incomplete: false },
      });
    if (pathname.endsWith("/selfsubjectaccessreviews")) return json({ status: { allowed: true } });
    const group = /^\/apis\/([^/]+)$/.exec(pathname)?.[1];
    if (group) return groupOf(cluster, group);
    const older = /^\/(?:api|apis\/([^/]+))\/([^/]+)$/.exec(pathname);
    if (older) return resources(cluster, older[1] ?? "", older[2] ?? "");
    const found = /^\/(?:api|apis\/([^/]+))\/([^/]+)(?:\/namespaces\/([^/]+)(?=\/[^/]))?\/([^/]+)(?:\/([^/]+))?$/.exec(
      pathname,
    );
    const [, inGroup = "", version = "", namespace = "", resource = "", escaped = ""] = found ?? [];
    const name = decodeURIComponent(escaped);
    if (resource === "events") return json({ kind: "EventList", metadata: {}, items: [] });
    const kind = cluster.kinds.find((each) => each.group === inGroup && each.resource === resource);
    if (!kind || kind.version !== version) return failure(404, "the server could not find the requested resource");
    const all = cluster.objects.filter(
      (each) => each.kind === kind.kind && (namespace === "" || each.metadata.namespace === namespace),
    );
    if (name !== "") {
      const one = all.find((each) => each.metadata.name === name);
      if (!one) return failure(404, `${resource} "${name}" not found`);
      if (method === "DELETE" || method === "PATCH")
        return json(method === "PATCH" ? { ...one, ...(body as object) } : one);
      return json(accept.includes("PartialObjectMetadata") ? partialOf(one) : one);
    }
    if (searchParams.get("watch") === "true") return watch(url, signal);
    const limit = Number(searchParams.get("limit") ?? 500);
    const from = Number(searchParams.get("continue") ?? 0);
    const left = all.length - from - limit;
    return json({
      ...tableOf(kind, all.slice(from, from + limit)),
      metadata: {
        resourceVersion: "100",
        ...(left > 0 && { continue: String(from + limit), remainingItemCount: left }),
      },
    });
  }

  function watch(url: URL, signal: AbortSignal): Response {
    const encoder = new TextEncoder();
    let send: OpenWatch["send"] = () => {};
    let end = () => {};
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        send = (...events) =>
          controller.enqueue(encoder.encode(events.map((each) => `${JSON.stringify(each)}\n`).join("")));
        end = () => {
          if (watches.includes(open)) controller.close();
          remove();
        };
        signal.addEventListener("abort", () => {
          if (watches.includes(open)) controller.error(new DOMException("aborted", "AbortError"));
          remove();
        });
      },
      cancel: () => remove(),
    });
    const open: OpenWatch = { url, signal, send, end };
    const remove = () => {
      const index = watches.indexOf(open);
      if (index >= 0) watches.splice(index, 1);
    };
    watches.push(open);
    opened.resolve();
    opened = Promise.withResolvers();
    return new Response(body, { headers: { "Content-Type": "application/json" } });
  }

  return { kube, cluster, requests, watches, watching };
}

/** Returns an event of a watch of Tables. As from a server, only the first one names the columns. */
export function changed(type: "ADDED" | "MODIFIED" | "DELETED", one: FakeObject, version = "101", of = kinds): object {
  const kind = of.find((each) => each.kind === one.kind) as FakeKind;
  const metadata = { ...one.metadata, resourceVersion: version };
  return { type, object: { ...tableOf(kind, [{ ...one, metadata }]), columnDefinitions: null } };
}

const partialOf = ({ metadata }: FakeObject) => ({
  kind: "PartialObjectMetadata",
  apiVersion: "meta.k8s.io/v1",
  metadata,
});

function tableOf(kind: FakeKind, objects: readonly FakeObject[]) {
  const columns = [{ name: "Name" }, ...(kind.columns ?? []), { name: "Age" }];
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: {},
    columnDefinitions: columns.map((each) => ({ type: "string", format: "", priority: 0, ...each })),
    rows: objects.map((each) => ({
      cells: [each.metadata.name, ...(kind.cells?.(each) ?? []), "5m"],
      object: partialOf(each),
    })),
  };
}

function discovery({ kinds, isOlder }: FakeReach, path: string, accept: string): Response {
  const isCore = path === "/api";
  const groups = [...new Set(kinds.map(({ group }) => group))].filter((group) => (group === "") === isCore);
  if (isOlder || !accept.includes("as=APIGroupDiscoveryList")) {
    if (isCore) return json({ kind: "APIVersions", versions: ["v1"] });
    return json({
      kind: "APIGroupList",
      groups: groups.map((name) => {
        const groupVersion = `${name}/${kinds.find(({ group }) => group === name)?.version}`;
        return { name, versions: [{ groupVersion }], preferredVersion: { groupVersion } };
      }),
    });
  }
  return json({
    kind: "APIGroupDiscoveryList",
    apiVersion: "apidiscovery.k8s.io/v2",
    items: groups.map((name) => ({
      metadata: name === "" ? {} : { name },
      versions: [...new Set(kinds.filter(({ group }) => group === name).map(({ version }) => version))].map(
        (version) => ({
          version,
          freshness: "Current",
          resources: kinds
            .filter((each) => each.group === name && each.version === version)
            .map((each) => ({
              resource: each.resource,
              responseKind: { group: name, version, kind: each.kind },
              scope: each.isNamespaced === false ? "Cluster" : "Namespaced",
              verbs: each.verbs ?? everything,
              shortNames: each.shortNames,
            })),
        }),
      ),
    })),
  });
}

function groupOf({ kinds }: FakeReach, name: string): Response {
  const versions = kinds
    .filter(({ group }) => group === name)
    .map(({ version }) => ({ groupVersion: `${name}/${version}` }));
  if (versions.length === 0) return failure(404, "the server could not find the requested resource");
  return json({ kind: "APIGroup", name, versions, preferredVersion: versions[0] });
}

function resources({ kinds }: FakeReach, group: string, version: string): Response {
  return json({
    kind: "APIResourceList",
    groupVersion: group === "" ? version : `${group}/${version}`,
    resources: kinds
      .filter((each) => each.group === group && each.version === version)
      .flatMap((each) => [
        {
          name: each.resource,
          kind: each.kind,
          namespaced: each.isNamespaced !== false,
          verbs: each.verbs ?? everything,
          shortNames: each.shortNames,
        },
        ...["status", ...(each.subresources ?? [])].map((name) => ({
          name: `${each.resource}/${name}`,
          kind: each.kind,
          namespaced: true,
          verbs: ["get", "patch"],
        })),
      ]),
  });
}
