// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useState } from "react";
import { Card } from "../../fleet/page.tsx";
import { ReachNotice } from "../../fleet/reach.tsx";
import { Table } from "../../fleet/table.tsx";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import type { Place } from "../../kube/object.ts";
import { type KubeObject, readSecret, secretKeys } from "../../kube/object.ts";
import { Button } from "../../parts/button.tsx";
import { LogLine } from "../../parts/line.tsx";
import { reach } from "../../text/reach.ts";
import styles from "./page.module.css";

/** How long a value that was asked for is shown. */
const longest = 60_000;

/** Values are the keys of a Secret. One value at a time is read when the person asks for it, and soon forgotten. */
export function Values({ place, object }: { place: Place; object: KubeObject }) {
  const hub = useHub();
  const [shown, setShown] = useState<{ key: string; value: string | undefined }>();
  const [running, setRunning] = useState<string>();
  const [failure, setFailure] = useState<Failure>();
  const keys = secretKeys(object);

  useEffect(() => {
    if (!shown) return;
    const forget = () => setShown(undefined);
    const ended = new AbortController();
    void hub.surroundings.sleep(longest, ended.signal).then(() => {
      if (!ended.signal.aborted) forget();
    });
    const stop = hub.surroundings.onVisibility(() => {
      if (hub.surroundings.isHidden()) forget();
    });
    return () => {
      ended.abort();
      stop();
    };
  }, [shown, hub]);

  const reveal = async (key: string) => {
    setShown(undefined);
    setFailure(undefined);
    setRunning(key);
    try {
      const value = await readSecret(hub, place.path, place.address, key, new AbortController().signal);
      // A page that was hidden meanwhile does not show it.
      if (!hub.surroundings.isHidden()) setShown({ key, value });
    } catch (thrown) {
      setFailure(failureOf(thrown));
    } finally {
      setRunning(undefined);
    }
  };

  return (
    <Card title={reach.secret.title}>
      <p className={styles.note}>{reach.secret.masked}</p>
      {failure && <ReachNotice failure={failure} />}
      {keys.length === 0 ? (
        <p className={styles.note}>{reach.secret.noKeys}</p>
      ) : (
        <Table
          columns={reach.secret.columns}
          rows={keys.map((key) => {
            const isShown = shown?.key === key;
            return {
              key,
              cells: [
                <code key="key">{key}</code>,
                isShown ? (
                  <code key="value" className={styles.value}>
                    {shown.value === undefined ? reach.secret.gone : <LogLine most={8000}>{shown.value}</LogLine>}
                  </code>
                ) : (
                  <span key="value" className={styles.hidden}>
                    {reach.secret.hidden}
                  </span>
                ),
                <Button
                  key="button"
                  busy={running === key}
                  onClick={() => (isShown ? setShown(undefined) : void reveal(key))}
                >
                  {isShown ? reach.secret.hide(key) : reach.secret.reveal(key)}
                </Button>,
              ],
            };
          })}
        />
      )}
    </Card>
  );
}
