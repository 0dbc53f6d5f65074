// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { isOldRow, serviceColumns } from "../../fleet/columns.tsx";
import { FleetList } from "../../fleet/list.tsx";
import { Facts, ListPage } from "../../fleet/page.tsx";
import { shortCommit, splitCommit } from "../../fleet/refs.ts";
import { countsOf, type Window } from "../../hub/list.ts";
import { Empty, ErrorState } from "../../parts/states.tsx";
import { useTitle } from "../../shell/shell.tsx";
import { text } from "../../text/en.ts";

const route = getRouteApi("/commits/$");
const groups = ["phase", "synced", "reason"];

/** CommitPage is one commit: how many services it has reached, where it failed, and where it is on its way. */
export function CommitPage() {
  const { _splat: ref = "" } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate();
  const { repository, commit } = splitCommit(ref);
  const title = text.commitOf(shortCommit(commit), repository);
  useTitle(title);
  // What is no commit may be a term of the filter's language, which the address must not choose.
  if (!/^(sha256:)?[0-9a-f]{4,64}$/.test(commit) || !/^[a-z0-9./-]+$/.test(repository)) {
    return (
      <ErrorState failure={{ kind: "missing", reason: "", message: "", metadata: {} }} command="leat get services" />
    );
  }
  return (
    <ListPage
      title={title}
      lead={
        <Link to="/repositories/$" params={{ _splat: repository }}>
          {repository}
        </Link>
      }
    >
      <FleetList
        kind="Service"
        noun="services"
        scope={`repository=${repository} commit="${commit}"`}
        groupBy={groups}
        summary={(window) => <Reach window={window} />}
        search={search}
        onSearch={(next) => void navigate({ to: "/commits/$", params: { _splat: ref }, search: next })}
        columns={serviceColumns}
        isOld={isOldRow}
        empty={
          <Empty icon="search" title={text.commitNowhere}>
            <p>{text.commitNowhereBody}</p>
          </Empty>
        }
      />
    </ListPage>
  );
}

/** Reach is how far the commit has come, among the services that the list shows. */
function Reach({ window }: { window: Window }) {
  const of = (field: string, value: string) =>
    countsOf(window.groups, field).find(({ phase }) => phase === value)?.count ?? 0;
  const reasons = countsOf(window.groups, "reason")
    .slice(0, 3)
    .map(({ phase, count }) => `${phase} (${text.number(count)})`);
  return (
    <Facts
      facts={[
        [text.commitReach.concerned, text.count(window.total, "Service")],
        [text.commitReach.applied, text.number(of("synced", "true"))],
        [text.commitReach.underWay, text.number(of("synced", "false"))],
        [text.commitReach.healthy, text.number(of("phase", "HEALTHY"))],
        [text.commitReach.failed, text.number(of("phase", "FAILED") + of("phase", "DEGRADED"))],
        reasons.length > 0 && [text.commitReach.reasons, text.list(reasons)],
      ]}
    />
  );
}
