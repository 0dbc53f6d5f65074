// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useId, useState } from "react";
import { ActionFailure, useAction } from "../../fleet/action.tsx";
import { kubectl } from "../../fleet/kubectl.ts";
import { hasProtection } from "../../fleet/protected.ts";
import { FleetService } from "../../gen/leat/fleet/v1/fleet_pb";
import { type Failure, failureOf } from "../../hub/failure.ts";
import { useHub } from "../../hub/hub.ts";
import { deleteObject, type Propagation, propagations } from "../../kube/apply.ts";
import { type KubeObject, leatServiceOf, type Place } from "../../kube/object.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/command.tsx";
import { TextField } from "../../parts/field.tsx";
import { Dialog } from "../../parts/overlay.tsx";
import { Notice } from "../../parts/states.tsx";
import { text } from "../../text/en.ts";
import { reach } from "../../text/reach.ts";
import styles from "./page.module.css";

/** Kinds with which much goes: their names are typed. */
const large = [
  "Namespace",
  "CustomResourceDefinition",
  "PersistentVolume",
  "PersistentVolumeClaim",
  "Node",
  "APIService",
];

/** Remove asks the cluster whether it would delete an object, and deletes it when the person agrees. */
export function Remove({
  place,
  object,
  onClose,
  onDone,
}: {
  place: Place;
  object: KubeObject;
  onClose: () => void;
  onDone: () => void;
}) {
  const hub = useHub();
  const id = useId();
  const { path, cluster, address } = place;
  const { name } = address;
  // An object that is deleted and made again while the dialog is open is another one.
  const [uid] = useState(object.metadata?.uid ?? "");
  const [propagation, setPropagation] = useState<Propagation>("Background");
  const [tried, setTried] = useState<{ failure: Failure | undefined }>();
  const [isProtected, setProtected] = useState(true);
  const [typed, setTyped] = useState("");
  const { run, running, failure } = useAction();
  const service = leatServiceOf(object);
  const mustType = isProtected || large.includes(String(object.kind));

  // biome-ignore lint/correctness/useExhaustiveDependencies: the object is the same as long as its uid is
  useEffect(() => {
    const ended = new AbortController();
    setTried(undefined);
    deleteObject(hub.clusters, path, address, { uid, propagation, isDryRun: true }, ended.signal).then(
      () => setTried({ failure: undefined }),
      (thrown) => {
        if (!ended.signal.aborted) setTried({ failure: failureOf(thrown) });
      },
    );
    return () => ended.abort();
  }, [hub, path, uid, propagation]);

  useEffect(() => {
    const ended = new AbortController();
    hub
      .call(FleetService)
      .get({ kind: "Cluster", name: cluster }, { signal: ended.signal })
      .then(
        ({ document }) => {
          const labels = document?.object.case === "cluster" ? document.object.value.metadata?.labels : undefined;
          setProtected(labels !== undefined && hasProtection(labels));
        },
        // Of a cluster that the person may not see, nothing is known, so it is taken for a protected one.
        () => {},
      );
    return () => ended.abort();
  }, [hub, cluster]);

  const refused = !tried
    ? reach.remove.asking
    : (tried.failure?.message ?? (mustType && typed.trim() !== name ? reach.remove.type(name) : undefined));
  return (
    <Dialog
      title={reach.remove.title(name)}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button
            kind="danger"
            busy={running !== undefined}
            refused={refused}
            onClick={() =>
              void run("delete", async () => {
                const how = { uid, propagation, isDryRun: false };
                await deleteObject(hub.clusters, path, address, how, new AbortController().signal);
                onDone();
                return reach.remove.done(name);
              })
            }
          >
            {reach.remove.button}
          </Button>
        </>
      }
    >
      <div className={styles.remove}>
        {service && <Notice tone="warn" icon="alert" title={reach.remove.again(service.name)} />}
        {tried?.failure ? (
          <ActionFailure failure={tried.failure} />
        ) : (
          <p role="status">{tried ? reach.remove.would : reach.remove.asking}</p>
        )}
        <div className={styles.choice}>
          <label htmlFor={id}>{reach.remove.propagation}</label>
          <select
            id={id}
            value={propagation}
            onChange={(event) => {
              const next = propagations.find((each) => each === event.target.value);
              if (next) setPropagation(next);
            }}
          >
            {propagations.map((each) => (
              <option key={each} value={each}>
                {reach.remove.propagations[each]}
              </option>
            ))}
          </select>
        </div>
        {mustType && (
          <TextField
            label={reach.remove.type(name)}
            help={reach.remove.typeHelp}
            value={typed}
            most={253}
            onChange={setTyped}
          />
        )}
        <Command label={text.sameAs}>{kubectl(place, "delete", `--cascade=${propagation.toLowerCase()}`)}</Command>
        <ActionFailure failure={failure} />
      </div>
    </Dialog>
  );
}
