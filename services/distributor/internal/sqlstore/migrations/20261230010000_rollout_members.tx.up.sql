-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The members of rollouts, a row for each, so that a step writes those that it changes. run of rollout_runs has the rest of a run
-- from now on. summary is what a rollout is shown with; it is empty while the members of a rollout of an earlier version stand in
-- run, which the next migration moves. wave orders the pages of members: those that the rollout does not change come last.
-- rollout_starts holds what the members were as the rollout began, many in a row: it is only added to, and read for replays alone.

CREATE TABLE rollout_members (
    run_id   TEXT   NOT NULL REFERENCES rollout_runs (id) ON DELETE CASCADE,
    uid      TEXT   NOT NULL,
    wave     BIGINT NOT NULL,
    progress TEXT   NOT NULL,
    PRIMARY KEY (run_id, uid)
);
--bun:split
CREATE INDEX rollout_members_wave ON rollout_members (run_id, wave, uid);
--bun:split
CREATE TABLE rollout_starts (
    run_id  TEXT   NOT NULL REFERENCES rollout_runs (id) ON DELETE CASCADE,
    number  BIGINT NOT NULL,
    members TEXT   NOT NULL,
    PRIMARY KEY (run_id, number)
);
--bun:split
ALTER TABLE rollout_runs ADD COLUMN summary TEXT NOT NULL DEFAULT '';
