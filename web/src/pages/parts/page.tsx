// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { type ReactNode, useState } from "react";
import type { Failure } from "../../hub/failure.ts";
import { Age } from "../../parts/age.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Choices } from "../../parts/choices.tsx";
import { Command } from "../../parts/command.tsx";
import { Counters } from "../../parts/counters.tsx";
import { FilterField } from "../../parts/filter.tsx";
import { type Column, Grid } from "../../parts/grid.tsx";
import { Icon, iconNames } from "../../parts/icon.tsx";
import { ExternalLink } from "../../parts/link.tsx";
import { Dialog, Menu } from "../../parts/overlay.tsx";
import { Palette } from "../../parts/palette.tsx";
import { Phase, phaseNames, type Tone } from "../../parts/phase.tsx";
import { Empty, ErrorState, Notice, Skeleton } from "../../parts/states.tsx";
import { say } from "../../parts/status.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";
import styles from "./page.module.css";

// The page of the design system: every part in every state, with invented objects. Its words are for those who work on
// the UI, so they are not in the catalogue.

const tones: Tone[] = ["ok", "progress", "warn", "degraded", "bad", "idle"];

const failures: Failure[] = [
  { kind: "unreachable", reason: "", message: "", metadata: {} },
  { kind: "refused", reason: "ACCESS_DENIED", message: "ada may not list services", metadata: {} },
  { kind: "missing", reason: "NOT_FOUND", message: 'there is no service "web@berlin"', metadata: {} },
  { kind: "failed", reason: "INTERNAL", message: "error id 7f3a9c", metadata: {} },
];

interface Row {
  name: string;
  phase: string;
  reason: string;
  at: number;
}

const row = (index: number): Row | undefined =>
  index % 50 === 7
    ? undefined
    : {
        name: `web-${index}`,
        phase: phaseNames[index % phaseNames.length] as string,
        reason: index % 4 === 0 ? "APPLY_REJECTED" : "",
        at: Date.now() - index * 47_000,
      };

const columns: Column<Row>[] = [
  { id: "name", title: "Name", width: "minmax(10rem, 2fr)", place: "title", order: "name", cell: (row) => row.name },
  {
    id: "phase",
    title: "Phase",
    width: "9rem",
    place: "state",
    order: "severity",
    cell: (row) => <Phase phase={row.phase} />,
  },
  {
    id: "reason",
    title: "Reason",
    width: "minmax(8rem, 2fr)",
    place: "note",
    cell: (row) => <code>{row.reason}</code>,
  },
  {
    id: "since",
    title: "Since",
    width: "7rem",
    place: "end",
    order: "since",
    isNumber: true,
    cell: (row) => <Age at={row.at} />,
  },
];

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={styles.section}>
      <h2>{title}</h2>
      <div className={styles.examples}>{children}</div>
    </section>
  );
}

export function PartsPage() {
  const [order, setOrder] = useState("name");
  const [filter, setFilter] = useState("phase=FAILED");
  const [tab, setTab] = useState("one");
  const [isDialogOpen, setDialogOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useTitle(text.partsTitle);
  return (
    <div className={styles.page}>
      <h1>{text.partsTitle}</h1>
      <Section title="Button">
        <Button kind="primary">Primary</Button>
        <Button icon="copy">Plain</Button>
        <Button kind="quiet">Quiet</Button>
        <Button kind="danger">Danger</Button>
        <Button busy>Busy</Button>
        <Button refused="Needs the permission to sync services; a binding with the role operator gives it">
          Refused
        </Button>
        <Button icon="close" iconOnly>
          Close
        </Button>
      </Section>
      <Section title="Phase">
        {[...phaseNames, "INVENTED_LATER"].map((phase) => (
          <Phase key={phase} phase={phase} />
        ))}
        <Phase phase="HEALTHY" isOld />
      </Section>
      <Section title="Badge">
        {tones.map((tone) => (
          <Badge key={tone} tone={tone}>
            {tone}
          </Badge>
        ))}
        <Badge mono>region=eu</Badge>
      </Section>
      <Section title="Age">
        <Age at={Date.now()} />
        <Age at={Date.now() - 90_000} />
        <Age at={Date.now() - 26 * 3_600_000} />
        <Age at={Date.now() - 400 * 86_400_000} />
      </Section>
      <Section title="Link">
        <ExternalLink href="https://git.example.com/shop/web.git" />
        <ExternalLink href="https://git.example.com/shop/web/commit/4f2c1e0a">4f2c1e0a</ExternalLink>
        <ExternalLink href="ftp://files.example.com/web.tar" />
        <ExternalLink href="git@git.example.com:shop/web.git" />
      </Section>
      <Section title="Icon">
        {iconNames.map((name) => (
          <Icon key={name} name={name} size={20} />
        ))}
      </Section>
      <Section title="Command">
        <Command label={text.sameAs}>leat status</Command>
        <Command>leat get services --filter 'phase=FAILED reason=APPLY_REJECTED' --sort -since</Command>
      </Section>
      <Section title="Filter">
        <div className={styles.wide}>
          <FilterField label="Filter services" value={filter} onChange={setFilter} />
        </div>
        <div className={styles.wide}>
          <FilterField
            label="Filter clusters"
            value="phase="
            onChange={() => {}}
            error="phase: a value is missing after ="
          />
        </div>
      </Section>
      <Section title="Menu, dialog, palette, message">
        <Menu
          label="Open the example menu"
          button={
            <>
              <Icon name="person" /> Menu
            </>
          }
          groups={[
            {
              title: "Theme",
              chosen: "system",
              entries: [
                { id: "system", label: "As the system", icon: "system", onAction: () => {} },
                { id: "dark", label: "Dark", icon: "dark", onAction: () => {} },
              ],
            },
            { entries: [{ id: "out", label: "Sign out", onAction: () => {} }] },
          ]}
        />
        <Button onClick={() => setDialogOpen(true)}>Open the dialog</Button>
        <Dialog
          title="Sync 12 services?"
          isOpen={isDialogOpen}
          onClose={() => setDialogOpen(false)}
          actions={
            <>
              <Button onClick={() => setDialogOpen(false)}>Cancel</Button>
              <Button kind="primary" onClick={() => setDialogOpen(false)}>
                Sync 12 services
              </Button>
            </>
          }
        >
          Their repositories are fetched now, and their agents reconcile.
        </Dialog>
        <Button onClick={() => setPaletteOpen(true)}>Open the palette</Button>
        {isPaletteOpen && (
          <Palette onClose={() => setPaletteOpen(false)}>
            {(asked) => (
              <Choices
                asked={asked}
                isBusy={false}
                groups={[
                  {
                    title: "Pages",
                    entries: [
                      { id: "a", icon: "service", label: "Services", run: () => say("Services") },
                      { id: "b", icon: "cluster", label: "berlin", note: "cluster", run: () => say("berlin") },
                    ],
                  },
                ]}
              />
            )}
          </Palette>
        )}
        <Button onClick={() => say("web@berlin syncs now")}>Say something</Button>
        <Button onClick={() => say("The hub refused to sync web@berlin", true)}>Say something bad</Button>
      </Section>
      <Section title="Notice">
        {tones.map((tone) => (
          <div key={tone} className={styles.wide}>
            <Notice tone={tone} icon="info" title={`A notice that is ${tone}`}>
              <p>quota of namespace shop is used up</p>
            </Notice>
          </div>
        ))}
      </Section>
      <Section title="Counters">
        <div className={styles.wide}>
          <Counters
            title="Services"
            counts={[
              { phase: "HEALTHY", count: 9_812 },
              { phase: "FAILED", count: 12 },
              { phase: "PROGRESSING", count: 176 },
            ]}
            link={(phase, children) => <a href={`#${phase}`}>{children}</a>}
          />
        </div>
        <div className={styles.wide}>
          <Counters title="Repositories" counts={[]} link={() => null} />
        </div>
      </Section>
      <Section title="Tabs">
        <div className={styles.wide}>
          <Tabs
            label="Example"
            chosen={tab}
            onChange={setTab}
            tabs={[
              { id: "one", label: "Overview", content: "The first panel" },
              { id: "two", label: "Revisions", count: 20, content: "The second panel" },
            ]}
          />
        </div>
      </Section>
      <Section title="Grid of 200,000 rows">
        <div className={styles.grid}>
          <Grid
            label="Example services"
            columns={columns}
            count={200_000}
            row={row}
            rowKey={(found) => found.name}
            order={order}
            onOrder={setOrder}
            onOpen={(found) => say(found.name)}
            isOld={(found) => found.phase === "DISCONNECTED"}
          />
        </div>
      </Section>
      <Section title="Loading, empty, failed">
        <div className={styles.card}>
          <Skeleton />
        </div>
        <div className={styles.card}>
          <Empty icon="check" tone="ok" title={text.nothingWrong} action={<Button>Act</Button>}>
            10,000 services in 1,000 clusters.
          </Empty>
        </div>
        {failures.map((failure) => (
          <div key={failure.kind} className={styles.card}>
            <ErrorState failure={failure} onRetry={() => {}} />
          </div>
        ))}
      </Section>
    </div>
  );
}
