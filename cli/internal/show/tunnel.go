// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"strconv"
	"strings"
	"time"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// Connections prints agents' connections in the given format.
func Connections(w io.Writer, format Format, style Style, sessions []*tunnelv1.Session, now time.Time) error {
	rows := newGrid(style, "CLUSTER", "REPLICA", "TRANSPORT", "CONNECTED", "LAST SEEN", "REQUESTS", "VERSION", "ADDRESS")
	return items(w, format, rows, sessions, func(c *tunnelv1.Session) []cell {
		return []cell{
			plain(objectname.Display(c.GetCluster())), plain(c.GetReplica()), plain(c.GetTransport()), ago(c.GetConnectedAt(), now), ago(c.GetLastSeenAt(), now),
			plain(strconv.Itoa(int(c.GetActiveStreams()))), plain(c.GetAgentVersion()), plain(c.GetRemoteAddress()),
		}
	})
}

// Recordings prints recordings of sessions in the given format.
func Recordings(w io.Writer, format Format, style Style, recordings []*tunnelv1.Recording, now time.Time) error {
	rows := newGrid(style, "ID", "BEGAN", "USER", "CLUSTER", "POD", "COMMAND")
	return items(w, format, rows, recordings, func(r *tunnelv1.Recording) []cell {
		return []cell{
			plain(r.GetId()), ago(r.GetBeganAt(), now), plain(strings.TrimPrefix(r.GetSubject(), "user:")), plain(objectname.Display(r.GetCluster())),
			plain(r.GetNamespace() + "/" + r.GetPod()), line(strings.Join(r.GetCommand(), " ")),
		}
	})
}
