// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/document"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
)

// Connections prints agents' connections in the given format.
func Connections(w io.Writer, format Format, style Style, sessions []*tunnelv1.Session, now time.Time) error {
	switch format {
	case JSON:
		return document.WriteJSONItems(w, sessions)
	case YAML:
		return document.WriteYAMLItems(w, sessions)
	case Table:
	}
	rows := make([][]cell, len(sessions))
	for i, c := range sessions {
		rows[i] = []cell{
			plain(c.GetCluster()), plain(c.GetReplica()), plain(c.GetTransport()), ago(c.GetConnectedAt(), now), ago(c.GetLastSeenAt(), now),
			plain(strconv.Itoa(int(c.GetActiveStreams()))), plain(c.GetAgentVersion()), plain(c.GetRemoteAddress()),
		}
	}
	return newRows(style, []column{
		{title: "CLUSTER"},
		{title: "REPLICA"},
		{title: "TRANSPORT"},
		{title: "CONNECTED"},
		{title: "LAST SEEN"},
		{title: "REQUESTS"},
		{title: "VERSION"},
		{title: "ADDRESS"},
	}).write(w, rows)
}

// Recordings prints recordings of sessions in the given format.
func Recordings(w io.Writer, format Format, style Style, recordings []*tunnelv1.Recording, now time.Time) error {
	switch format {
	case JSON:
		return document.WriteJSONItems(w, recordings)
	case YAML:
		return document.WriteYAMLItems(w, recordings)
	case Table:
	}
	rows := make([][]cell, len(recordings))
	for i, r := range recordings {
		rows[i] = []cell{
			plain(r.GetId()), ago(r.GetBeganAt(), now), plain(strings.TrimPrefix(r.GetSubject(), "user:")), plain(r.GetCluster()),
			plain(r.GetNamespace() + "/" + r.GetPod()), line(strings.Join(r.GetCommand(), " ")),
		}
	}
	return newRows(style, []column{
		{title: "ID"}, {title: "BEGAN"}, {title: "USER"}, {title: "CLUSTER"}, {title: "POD"}, {title: "COMMAND"},
	}).write(w, rows)
}
