// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/lifetime"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// fleetSourceKind shows fleet sources.
var fleetSourceKind = kind{
	columns: []string{"NAME", "REPOSITORY", "COMMIT", "DOCUMENTS", "MANAGED", "FAILED", "HELD", "SUCCEEDED", "MESSAGE"},
	cells:   fleetSourceCells,
}

// fleetSourceCells shows what a fleet source follows, and what its latest look found.
func fleetSourceCells(object *fleetv1.Document, now time.Time) []cell {
	f := object.GetFleetSource()
	spec, status := f.GetSpec(), f.GetStatus()
	message := status.GetProblem().GetMessage()
	switch {
	case spec.GetSuspended() && !status.GetSuspensionEnded():
		message = strings.TrimSuffix("suspended"+lifetime.Until(spec.GetSuspendedUntil())+"; "+message, "; ")
	case spec.GetDryRun():
		message = strings.TrimSuffix(fmt.Sprintf("dry run: %s pending; %s", amount.Of(status.GetPending(), "change"), message), "; ")
	}
	commit := status.GetCommit()
	return []cell{
		plain(f.GetMetadata().GetName()), plain(spec.GetSource().GetRepository()), plain(commit[:min(len(commit), 12)]),
		plain(fmt.Sprint(status.GetDocuments())), plain(fmt.Sprint(status.GetManaged())), alarming(int64(status.GetFailed())),
		alarming(int64(status.GetHeld())), ago(status.GetSucceededAt(), now), plain(oneLine(message)),
	}
}

// FleetSourceDocuments prints what became of the documents of a fleet source.
func FleetSourceDocuments(w io.Writer, format Format, style Style, documents []*fleetv1.FleetSourceDocument) error {
	return items(w, format, newGrid(style, "DOCUMENT", "ACTION", "OBJECT", "MESSAGE"), documents, func(d *fleetv1.FleetSourceDocument) []cell {
		object := ""
		if d.GetKind() != "" {
			object = strings.ToLower(d.GetKind()) + "/" + d.GetName()
		}
		action := plain(strings.ToLower(enumname.Of(d.GetAction())))
		switch d.GetAction() {
		case fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_FAILED, fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_CONFLICT:
			action.color = red
		case fleetv1.FleetSourceAction_FLEET_SOURCE_ACTION_HELD:
			action.color = yellow
		default:
		}
		return []cell{plain(d.GetPosition()), action, plain(object), plain(oneLine(d.GetMessage()))}
	})
}
