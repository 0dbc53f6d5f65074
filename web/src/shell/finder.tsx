// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { repositoryAt, shortCommit } from "../fleet/refs.ts";
import type { FleetRow } from "../gen/leat/fleet/v1/query_pb";
import { useHub } from "../hub/hub.ts";
import { type Choice, Choices } from "../parts/choices.tsx";
import type { Asked } from "../parts/palette.tsx";
import { text } from "../text/en.ts";
import { many } from "../text/many.ts";
import { setTheme, themes } from "./theme.ts";

const kinds = [
  { kind: "Service", icon: "service", to: "/services/$", title: text.services },
  { kind: "Cluster", icon: "cluster", to: "/clusters/$", title: text.clusters },
  { kind: "Repository", icon: "repository", to: "/repositories/$", title: text.repositories },
  { kind: "RolloutPolicy", icon: "rollout", to: "/rollouts/$", title: text.rollouts },
  { kind: "GlobalService", icon: "global", to: "/global-services/$", title: text.globalServices },
  { kind: "FleetSource", icon: "folder", to: "/fleet-sources/$", title: text.fleetSources },
  { kind: "ImagePolicy", icon: "tag", to: "/image-policies/$", title: text.imagePolicies },
] as const;

const pause = 200;
const most = 8;

/** Returns the filter that finds a text in names: what people type is a text, and no term of the language. */
export const nameFilter = (typed: string) => `"${typed.replaceAll(/["\\]/g, " ").trim()}"`;

/** Reports whether a text is a commit or its beginning, and long enough to be no word. */
const isCommit = (typed: string) => /^(sha256:)?[0-9a-f]{7,64}$/.test(typed);

/** Returns the addresses of the commits of these services that begin as typed. */
function commitsIn(rows: readonly FleetRow[], typed: string): string[] {
  const found = new Set<string>();
  for (const row of rows) {
    for (const [index, commit] of row.commits.entries()) {
      const repository = repositoryAt(row, index);
      if (repository && commit.startsWith(typed)) found.add(`${repository}@${commit}`);
    }
  }
  return [...found].slice(0, most);
}

/** Finder is the list of the palette: the UI's pages and actions, and what the hub finds. */
export function Finder({ asked }: { asked: Asked }) {
  const hub = useHub();
  const navigate = useNavigate();
  const [found, setFound] = useState<{ query: string; rows: FleetRow[][]; commits: string[] }>({
    query: "",
    rows: [],
    commits: [],
  });
  const typed = asked.query.trim();

  useEffect(() => {
    if (typed.length < 2) return;
    const ended = new AbortController();
    const timer = setTimeout(() => {
      const ask = async (kind: string, filter: string) => {
        try {
          const query = { kind, filter, size: most, order: "name" };
          return (await hub.query.queryFleet({ query }, { signal: ended.signal })).rows;
        } catch {
          // Pages and actions are found without the hub, and the page behind shows what is wrong with it.
          return [];
        }
      };
      const named = Promise.all(kinds.map(({ kind }) => ask(kind, nameFilter(typed))));
      const having = isCommit(typed) ? ask("Service", `commit="${typed}"`) : [];
      void Promise.all([named, having]).then(([rows, services]) => {
        if (!ended.signal.aborted) setFound({ query: typed, rows, commits: commitsIn(services, typed) });
      });
    }, pause);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [hub, typed]);

  const matches = (entry: Choice) => entry.label.toLowerCase().includes(typed.toLowerCase());
  const pages: Choice[] = [
    { id: "problems", icon: "alert", label: text.problems, run: () => void navigate({ to: "/" }) },
    { id: "services", icon: "service", label: text.services, run: () => void navigate({ to: "/services" }) },
    { id: "clusters", icon: "cluster", label: text.clusters, run: () => void navigate({ to: "/clusters" }) },
    {
      id: "repositories",
      icon: "repository",
      label: text.repositories,
      run: () => void navigate({ to: "/repositories" }),
    },
    { id: "rollouts", icon: "rollout", label: text.rollouts, run: () => void navigate({ to: "/rollouts" }) },
    {
      id: "global-services",
      icon: "global",
      label: text.globalServices,
      run: () => void navigate({ to: "/global-services" }),
    },
    {
      id: "fleet-sources",
      icon: "folder",
      label: text.fleetSources,
      run: () => void navigate({ to: "/fleet-sources" }),
    },
    {
      id: "image-policies",
      icon: "tag",
      label: text.imagePolicies,
      run: () => void navigate({ to: "/image-policies" }),
    },
    { id: "projects", icon: "project", label: text.projects, run: () => void navigate({ to: "/projects" }) },
    {
      id: "configuration",
      icon: "sliders",
      label: text.configuration,
      run: () => void navigate({ to: "/configuration" }),
    },
    { id: "access", icon: "key", label: text.access, run: () => void navigate({ to: "/access" }) },
    { id: "audit", icon: "clock", label: text.audit, run: () => void navigate({ to: "/audit" }) },
    { id: "recordings", icon: "system", label: text.recordings, run: () => void navigate({ to: "/recordings" }) },
    { id: "many", icon: "search", label: many.title, run: () => void navigate({ to: "/resources" }) },
    { id: "me", icon: "person", label: text.me, run: () => void navigate({ to: "/me" }) },
  ];
  const actions: Choice[] = [
    ...themes.map((theme) => ({
      id: `theme-${theme}`,
      icon: theme,
      label: text.themeNamed(text.themes[theme]),
      run: () => setTheme(theme),
    })),
    { id: "sign-out", icon: "key", label: text.signOut, run: () => void hub.tokens.signOut().catch(() => {}) },
  ];
  const { rows, commits } = typed.length >= 2 ? found : { rows: [], commits: [] };
  // Until the hub answers, Enter opens nothing that only an earlier text has found.
  const isFound = found.query === typed;
  const hasTyped = (name: string) => isFound || name.toLowerCase().includes(typed.toLowerCase());
  return (
    <Choices
      asked={asked}
      isBusy={typed.length >= 2 && !isFound}
      groups={[
        { title: text.pages, entries: pages.filter(matches) },
        {
          title: text.column.commit,
          entries: commits.filter(hasTyped).map((address) => {
            const [repository = "", commit = ""] = address.split("@");
            return {
              id: `commit-${address.replaceAll(/[^\w-]/g, "_")}`,
              icon: "repository" as const,
              label: text.commitOf(shortCommit(commit), repository),
              run: () => void navigate({ to: "/commits/$", params: { _splat: address } }),
            };
          }),
        },
        ...kinds.map(({ kind, icon, to, title }, index) => ({
          title,
          entries: (rows[index] ?? [])
            .filter((row) => hasTyped(row.ref))
            .map((row) => ({
              id: `${kind}-${row.ref.replaceAll(/[^\w-]/g, "_")}`,
              icon,
              label: row.ref,
              note: text.phase[row.phase as keyof typeof text.phase],
              run: () => void navigate({ to, params: { _splat: row.ref } }),
            })),
        })),
        { title: text.actions, entries: actions.filter(matches) },
      ]}
    />
  );
}
