// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// maxDocuments is how many documents the hub accepts in one call.
const maxDocuments = 1000

// Apply is `leat apply`.
func Apply(s *session.Session) *cobra.Command {
	a := apply{session: s, format: show.Table}
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Create or update the objects in documents",
		Long: `Create or update the clusters, repositories and services that documents describe: all of them, or none if one of
them is invalid. Other objects of the hub do not change.

-f takes a file, a directory (its .yaml, .yml and .json files, not those in folders below it) or - for the standard
input, and may be given more than once. A file may hold many documents. Fields are checked strictly: an unknown
or misspelled field is refused with file, line and column.

Clusters, repositories and services belong to the project of their metadata, or else to that of --project.`,
		Example: `  leat apply -f fleet.yaml
  leat apply -f fleet/ --dry-run
  leat get services -o yaml > services.yaml && $EDITOR services.yaml && leat apply -f services.yaml

  leat apply -f - <<END
  apiVersion: leat.dev/v1
  kind: Service
  metadata: {name: shop}
  spec: {cluster: demo, sources: [{repository: shop, path: deploy}]}
  END`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(a.run(cmd.Context())) },
	}
	cmd.Flags().StringArrayVarP(&a.files, "filename", "f", nil, "file, directory, or - for the standard input")
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().VarP(&a.format, "output", "o", "how to print the outcome")
	return cmd
}

type apply struct {
	session *session.Session
	files   []string
	dryRun  bool
	format  show.Format
}

func (a *apply) run(ctx context.Context) error {
	if len(a.files) == 0 {
		return failure.Usage("nothing to apply: give -f FILE, -f DIR or -f -")
	}
	documents, err := document.Load(a.files, a.session.In)
	if err != nil {
		return failure.From(err, "")
	}
	switch {
	case len(documents) == 0:
		return failure.New("no documents in "+strings.Join(a.files, ", "), "")
	case len(documents) > maxDocuments:
		return failure.New(fmt.Sprintf("%d documents are more than the hub takes at once (%d)", len(documents), maxDocuments), "Apply them in parts.")
	}
	request := &fleetv1.ApplyRequest{DryRun: a.dryRun}
	for _, d := range documents {
		a.session.Place(d.Object)
		request.Documents = append(request.Documents, d.Object)
	}
	return a.session.Call(ctx, func(ctx context.Context, c *client.Client) error {
		response, err := c.Apply(ctx, request)
		if err != nil {
			return located(err, documents)
		}
		return a.print(response)
	})
}

// located adds to the error the file position of the field, or of the document, that the hub refused.
func located(err error, documents []*document.Document) error {
	path := rpcerr.Metadata(err)[rpcerr.MetadataField]
	if path == "" {
		path, _, _ = strings.Cut(rpcerr.Message(err), ": ")
	}
	at, field, ok := document.Locate(documents, path)
	if !ok {
		return err
	}
	message := strings.TrimPrefix(rpcerr.Message(err), path+": ")
	f := failure.From(err, "")
	return &failure.Failure{
		Message: document.Problem{Position: at, Field: field, Message: message}.Error(),
		Reason:  f.Reason, Advice: f.Advice, Exit: f.Exit,
	}
}

// derivation prints in a dry run which clusters a global service selects, and what fails.
func derivation(outcome *fleetv1.ApplyOutcome) string {
	if outcome.GetDocument().GetGlobalService() == nil || outcome.GetAction() == fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED {
		return ""
	}
	status := outcome.GetDocument().GetGlobalService().GetStatus()
	text := fmt.Sprintf(": selects %d clusters", status.GetClusters())
	if status.GetClusters() == 1 {
		text = ": selects 1 cluster"
	}
	for _, counted := range []struct {
		n    int32
		text string
	}{
		{status.GetForbidden(), ", leaves %d out that the project may not use"},
		{status.GetConflicts(), ", conflicts in %d"},
		{status.GetFailing(), ", fails for %d"},
	} {
		if counted.n > 0 {
			text += fmt.Sprintf(counted.text, counted.n)
		}
	}
	if message := status.GetProblem().GetMessage(); message != "" {
		text += ": " + message
	}
	return text
}

func (a *apply) print(response *fleetv1.ApplyResponse) error {
	if a.format != show.Table {
		var objects []*fleetv1.Document
		for _, outcome := range response.GetOutcomes() {
			objects = append(objects, outcome.GetDocument())
		}
		return show.Objects(a.session.Out, a.format, show.Style{}, time.Now(), "", objects)
	}
	var errs []error
	for _, outcome := range response.GetOutcomes() {
		kind, name := document.Identify(outcome.GetDocument())
		line := strings.ToLower(kind) + "/" + name + " " + document.EnumName(outcome.GetAction())
		if a.dryRun {
			line += " (dry run)" + derivation(outcome)
		}
		_, err := fmt.Fprintln(a.session.Out, line)
		errs = append(errs, err)
		for _, warning := range outcome.GetWarnings() {
			_, err := fmt.Fprintln(a.session.Out, "  "+warning)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
