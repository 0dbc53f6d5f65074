// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useHub } from "../hub/hub.ts";
import { whyNotExec } from "../kube/may.ts";
import { clusterPath } from "../kube/names.ts";
import { Button } from "../parts/button.tsx";
import { OwnWindow } from "../parts/link.tsx";
import { terminal } from "../text/terminal.ts";

/** Returns why the person may not open a terminal. Until both hub and cluster have said, nothing is offered. */
export function useTerminalRight(ref: string, namespace: string): { isKnown: boolean; refused: string | undefined } {
  const hub = useHub();
  const key = JSON.stringify([ref, namespace]);
  const [known, setKnown] = useState<{ key: string; refused: string | undefined }>();
  useEffect(() => {
    let isOver = false;
    void whyNotExec(hub, ref, clusterPath(ref, ""), namespace).then((refused) => {
      if (!isOver) setKnown({ key, refused });
    });
    return () => {
      isOver = true;
    };
  }, [hub, ref, namespace, key]);
  const isKnown = known?.key === key;
  return { isKnown, refused: isKnown ? known.refused : terminal.asking };
}

export interface TerminalProps {
  /** The cluster, as people name it. */
  cluster: string;
  namespace: string;
  pod: string;
  container?: string | undefined;
}

/** TerminalLink opens a terminal of a pod in a window of its own, or says why that would be refused. */
export function TerminalLink({ cluster, namespace, pod, container, isQuiet }: TerminalProps & { isQuiet?: boolean }) {
  const router = useRouter();
  const { refused } = useTerminalRight(cluster, namespace);
  if (refused !== undefined) return isQuiet ? null : <Button refused={refused}>{terminal.open}</Button>;
  const { publicHref } = router.buildLocation({
    to: "/terminal/$",
    params: { _splat: cluster },
    search: { namespace, pod, ...(container && { container }) },
  });
  return (
    <>
      <OwnWindow href={publicHref} isQuiet={isQuiet === true}>
        {terminal.open}
      </OwnWindow>
      {isQuiet && " · "}
    </>
  );
}
