// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { lazy, Suspense, use, useEffect, useState } from "react";
import { useHub } from "../hub/hub.ts";
import { whyNot } from "../kube/may.ts";
import type { Place } from "../kube/object.ts";
import { canEvict, canRestart, hasScale, needsOf, type Operation } from "../kube/operate.ts";
import { Button } from "../parts/button.tsx";
import { IsCurrent } from "../parts/current.ts";
import { orGone } from "../parts/gone.ts";
import { reach } from "../text/reach.ts";
import styles from "./operate.module.css";

const OperationDialog = lazy(() =>
  orGone(import("./operation.tsx")).then((module) => ({ default: module.OperationDialog })),
);

/** Reports whether discovery has a scale of the kind. The core group has one such kind, so it is not asked for others. */
function useScale({ path, address: { kind } }: Place, isKnown: boolean | undefined): boolean {
  const hub = useHub();
  const of = JSON.stringify([path, kind]);
  const [known, setKnown] = useState<{ of: string; has: boolean }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text has all of it
  useEffect(() => {
    if (isKnown !== undefined || (kind.group === "" && kind.resource !== "replicationcontrollers")) return;
    const ended = new AbortController();
    hasScale(hub, path, kind, ended.signal).then(
      (has) => setKnown({ of, has }),
      // What discovery does not say is not offered.
      () => {},
    );
    return () => ended.abort();
  }, [hub, of, isKnown]);
  return isKnown ?? (known?.of === of && known.has);
}

/** Returns why the person may not do an operation. Until both hub and cluster have said, nothing is offered. */
function useRefusal({ cluster, path, address }: Place, operation: Operation, isShared: boolean): string | undefined {
  const hub = useHub();
  const { kind, namespace } = address;
  const name = isShared ? "" : address.name;
  const of = JSON.stringify([cluster, kind, namespace, name, operation]);
  const [known, setKnown] = useState<{ of: string; refused: string | undefined }>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text has all of it
  useEffect(() => {
    let isOver = false;
    const { group, resource } = kind;
    const asked = needsOf[operation].map((needs) =>
      whyNot(hub, cluster, path, { ...needs, group, resource, namespace, name }, reach.operate),
    );
    void Promise.all(asked).then((answers) => {
      if (!isOver) setKnown({ of, refused: answers.find((answer) => answer !== undefined) });
    });
    return () => {
      isOver = true;
    };
  }, [hub, of]);
  return known?.of === of ? known.refused : reach.object.asking;
}

interface OperationsProps {
  place: Place;
  /** Whether its kind has a scale, if that is known without discovery. */
  scales?: boolean;
  /** They are in a row of many: what is refused is left out, and rows of a kind share one question. */
  isQuiet?: boolean;
  onDone?: () => void;
}

/** Operations are what a person can do with a workload beside a change of its source, for what its kind can. */
export function Operations({ place, scales, isQuiet = false, onDone }: OperationsProps) {
  const [open, setOpen] = useState<Operation>();
  const canScale = useScale(place, scales);
  const { kind } = place.address;
  const all: readonly Operation[] = [
    ...(canRestart(kind) ? (["restart"] as const) : []),
    ...(canScale ? (["scale"] as const) : []),
    ...(canEvict(kind) ? (["evict"] as const) : []),
  ];
  return (
    <>
      {all.map((operation) => (
        <Offer
          key={operation}
          place={place}
          operation={operation}
          isQuiet={isQuiet}
          onChoose={() => setOpen(operation)}
        />
      ))}
      {open && (
        <Suspense>
          <OperationDialog
            operation={open}
            place={place}
            onClose={() => setOpen(undefined)}
            {...(onDone && { onDone })}
          />
        </Suspense>
      )}
    </>
  );
}

function Offer({
  place,
  operation,
  isQuiet,
  onChoose,
}: {
  place: Place;
  operation: Operation;
  isQuiet: boolean;
  onChoose: () => void;
}) {
  const refused = useRefusal(place, operation, isQuiet);
  const isCurrent = use(IsCurrent);
  const verb = reach.operate.verbs[operation];
  if (!isQuiet)
    return (
      <Button refused={refused} onClick={onChoose}>
        {verb}
      </Button>
    );
  if (refused !== undefined) return null;
  return (
    <button
      type="button"
      className={styles.quiet}
      tabIndex={isCurrent ? 0 : -1}
      aria-label={`${verb} ${place.address.name}`}
      onClick={onChoose}
    >
      {verb}
    </button>
  );
}
