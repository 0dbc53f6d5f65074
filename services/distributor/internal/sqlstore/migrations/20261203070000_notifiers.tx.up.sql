-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Notifiers, and what they are to send. spec, state and message are JSON; secrets is sealed. notification_lead names the replica
-- that observes and sends; beat changes while it lives. notification_states is what that replica last saw of each object.
-- notifications are messages: state is 0 for one that waits, and 1 for one that was given up.

CREATE TABLE notifiers (
    uid              TEXT   NOT NULL PRIMARY KEY,
    name             TEXT   NOT NULL UNIQUE,
    project          TEXT   NOT NULL,
    labels           TEXT   NOT NULL,
    annotations      TEXT   NOT NULL,
    spec             TEXT   NOT NULL,
    secrets          {{.Bytes}},
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    created_by       TEXT   NOT NULL,
    updated_by       TEXT   NOT NULL,
    reason           TEXT   NOT NULL
);
--bun:split
CREATE INDEX notifiers_revision ON notifiers (revision);
--bun:split
CREATE INDEX notifiers_project ON notifiers (project);
--bun:split
CREATE TABLE notifier_counts (
    notifier_uid  TEXT   NOT NULL PRIMARY KEY REFERENCES notifiers (uid) ON DELETE CASCADE,
    sent          BIGINT NOT NULL,
    lost          BIGINT NOT NULL,
    last_sent_at  BIGINT NOT NULL,
    last_error    TEXT   NOT NULL,
    last_error_at BIGINT NOT NULL
);
--bun:split
CREATE TABLE notifications (
    id           TEXT   NOT NULL PRIMARY KEY,
    notifier_uid TEXT   NOT NULL REFERENCES notifiers (uid) ON DELETE CASCADE,
    cause        TEXT   NOT NULL,
    message      TEXT   NOT NULL,
    state        BIGINT NOT NULL,
    attempts     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    last_error   TEXT   NOT NULL
);
--bun:split
CREATE INDEX notifications_next ON notifications (state, next_at);
--bun:split
CREATE INDEX notifications_notifier ON notifications (notifier_uid, state, cause);
--bun:split
CREATE TABLE notification_states (
    object TEXT NOT NULL PRIMARY KEY,
    state  TEXT NOT NULL
);
--bun:split
CREATE TABLE notification_lead (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder TEXT    NOT NULL,
    term   BIGINT  NOT NULL,
    beat   BIGINT  NOT NULL,
    since  BIGINT  NOT NULL
);
--bun:split
INSERT INTO notification_lead (id, holder, term, beat, since) VALUES (1, '', 0, 0, 0);
