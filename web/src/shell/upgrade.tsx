// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useHub } from "../hub/hub.ts";
import { useConnection } from "../hub/live.ts";
import { Button } from "../parts/button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Dialog } from "../parts/overlay.tsx";
import { text } from "../text/en.ts";
import { hasTyped, watchTyping } from "./typed.ts";
import styles from "./upgrade.module.css";

/** Asks the hub for its build when that may have changed: after the connection was lost, and with each access token. */
function useChecks() {
  const { builds, tokens, surroundings } = useHub();
  const isLost = useConnection()?.link === "reconnecting";
  const wasLost = useRef(false);
  useEffect(() => {
    if (wasLost.current && !isLost) void builds.check();
    wasLost.current = isLost;
  }, [builds, isLost]);
  useEffect(
    () =>
      tokens.onRenewal(() => {
        if (!surroundings.isHidden()) void builds.check();
      }),
    [builds, tokens, surroundings],
  );
}

/** Returns a function that loads the page again, and the question that comes first where typed text would be lost. */
export function useReload() {
  const { builds } = useHub();
  const [isAsking, setAsking] = useState(false);
  const reload = () => {
    if (hasTyped()) setAsking(true);
    else builds.reload();
  };
  const question = (
    <Dialog
      title={text.reloadTitle}
      isOpen={isAsking}
      onClose={() => setAsking(false)}
      actions={
        <>
          <Button onClick={() => setAsking(false)}>{text.cancel}</Button>
          <Button kind="primary" onClick={builds.reload}>
            {text.reload}
          </Button>
        </>
      }
    >
      <p>{text.reloadLoses}</p>
    </Dialog>
  );
  return { reload, question };
}

/** NewBuild offers to load the page again when the hub has a new build of the UI. It never does so by itself. */
export function NewBuild() {
  const { builds } = useHub();
  const isNew = useSyncExternalStore(builds.subscribe, builds.isNew);
  const { reload, question } = useReload();
  useChecks();
  useEffect(watchTyping, []);
  return (
    <div role="status">
      {isNew && (
        <div className={styles.offer}>
          <Icon name="info" />
          <span>{text.newBuild}</span>
          <Button onClick={reload}>{text.reload}</Button>
        </div>
      )}
      {question}
    </div>
  );
}
