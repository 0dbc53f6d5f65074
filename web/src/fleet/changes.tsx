// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { FleetService } from "../gen/leat/fleet/v1/fleet_pb";
import { useHub } from "../hub/hub.ts";
import { useLive } from "../hub/live.ts";
import { Age } from "../parts/age.tsx";
import { Skeleton } from "../parts/states.tsx";
import { changesText } from "../text/changes.ts";
import styles from "./changes.module.css";
import { ms } from "./columns.tsx";
import { CommitLink } from "./commit.tsx";

// A revision can bring many commits, and the newest says most.
const mostShown = 5;

/** Changes are who made the change that a commit brought to a service, when, and in which words. */
export function Changes({ service, commit }: { service: string; commit: string }) {
  const hub = useHub();
  const { value, failure } = useLive(
    `changes ${service} ${commit}`,
    () => ({ load: (signal) => hub.call(FleetService).listServiceCommits({ service, commit }, { signal }) }),
    hub.surroundings,
  );
  // It is a help beside what the page is about, and the mirror of the repository may be gone.
  if (failure) return <p className={styles.quiet}>{changesText.unknown(failure.message)}</p>;
  if (!value) return <Skeleton lines={1} />;
  const shown = value.commits.slice(0, mostShown);
  const left = value.commits.length - shown.length;
  return (
    <ul className={styles.changes} aria-label={changesText.title}>
      {shown.map(({ repository, id, authorName, commitTime, subject }) => (
        <li key={`${repository} ${id}`}>
          <bdi className={styles.subject}>{subject || changesText.noSubject}</bdi>{" "}
          <span className={styles.quiet}>
            <bdi>{authorName || changesText.nobody}</bdi>, <Age at={ms(commitTime)} />
            {id !== commit && (
              <>
                {" "}
                <CommitLink repository={repository} commit={id} />
              </>
            )}
          </span>
        </li>
      ))}
      {value.commits.length === 0 && <li className={styles.quiet}>{changesText.none}</li>}
      {(left > 0 || value.more) && (
        <li className={styles.quiet}>{value.more ? changesText.many : changesText.more(left)}</li>
      )}
    </ul>
  );
}
