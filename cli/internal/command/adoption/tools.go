// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/migration"
	"github.com/leatdev/leat/cli/internal/migration/argocd"
	fluxcd "github.com/leatdev/leat/cli/internal/migration/flux"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
)

// argoCD is `leat import argocd`.
func argoCD(s *session.Session) *cobra.Command {
	t := translation{reach: reach{session: s}, tool: argocd.Tool(), kinds: argocd.Kinds(), translate: argocd.Translate}
	return t.command(&cobra.Command{
		Use:   "argocd [PATH...] [--cluster NAME]",
		Short: "Make documents of the objects of Argo CD, and say what differs",
		Long: `Make documents of the objects of Argo CD, and say what differs.

An Application becomes a service, an ApplicationSet over clusters a global service, one over a list a service for each
element, an AppProject a project, and each upstream that they name a repository.

` + translationHelp("Argo CD"),
		Example: `  leat import argocd ./argocd --cluster tools --file fleet.yaml
  leat import argocd --cluster tools --map-cluster https://10.0.0.1:6443=prod --report report.json > fleet.yaml`,
	})
}

// flux is `leat import flux`.
func flux(s *session.Session) *cobra.Command {
	t := translation{reach: reach{session: s}, tool: fluxcd.Tool(), kinds: fluxcd.Kinds(), translate: fluxcd.Translate}
	return t.command(&cobra.Command{
		Use:   "flux [PATH...] [--cluster NAME]",
		Short: "Make documents of the objects of Flux, and say what differs",
		Long: `Make documents of the objects of Flux, and say what differs.

A GitRepository, a HelmRepository and an OCIRepository become a repository, and a Kustomization and a HelmRelease a
service. ConfigMaps with values are read if they are among the files.

` + translationHelp("Flux"),
		Example: `  leat import flux ./clusters/prod ./apps --cluster prod --file fleet.yaml
  leat import flux --cluster prod --map-cluster edge-kubeconfig=edge --report report.json > fleet.yaml`,
	})
}

// translationHelp is the part of the help that is the same for each tool.
func translationHelp(tool string) string {
	return `The standard error says for each object what became of it, and for each field that would do something else what to do
about it: nothing is left out silently. Nothing is changed at the hub and in a cluster.

With paths, the objects are read from files, from folders with everything below them, and for - from the standard input.
Without paths they are read from the cluster that --cluster names, through the hub or with a kubeconfig. --cluster is the
name at the hub of the cluster where ` + tool + ` runs. Other clusters have the names that ` + tool + ` gives them, or those
of --map-cluster.

Services are written with dryRun: true. Such a service compares, and changes nothing: leat diff service/NAME shows what it
would change. Switch the other tool off for the same objects, and take dryRun away; the service then adopts them. --live
leaves dryRun out. Credentials are not imported.

The exit code is 0 if documents were written, also if some objects could not be imported.`
}

// translation imports the objects of a tool.
type translation struct {
	reach

	tool      migration.Tool
	kinds     []migration.Kind
	translate func([]migration.Object, migration.Settings) migration.Result

	cluster, file, report, format string
	clusters                      map[string]string
	isLive                        bool
}

// command adds the flags and the work to a command.
func (t *translation) command(cmd *cobra.Command) *cobra.Command {
	t.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&t.cluster, "cluster", "", "name at the hub of the cluster where the tool runs")
	flags.StringToStringVar(&t.clusters, "map-cluster", nil, "what the tool calls a cluster, and its name at the hub: NAME=CLUSTER or URL=CLUSTER; may be repeated")
	flags.BoolVar(&t.isLive, "live", false, "write services that deliver at once, without dryRun")
	flags.StringVar(&t.file, "file", "", "write the documents to this file")
	flags.StringVar(&t.report, "report", "", "also write what became of each object to this file, as JSON")
	flags.StringVarP(&t.format, "output", "o", "yaml", "form of the documents: yaml or json")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		return t.run(ctx, paths, cmd.InOrStdin())
	}
	return cmd
}

func (t *translation) run(ctx context.Context, paths []string, stdin io.Reader) error {
	switch {
	case t.format != "yaml" && t.format != "json":
		return failure.Usage("--output: want yaml or json, got %q", t.format)
	case len(paths) == 0 && t.cluster == "" && !t.isDirect():
		return failure.Usage("name files or folders with the tool's objects, or with --cluster the cluster to read them from")
	case len(paths) > 0 && t.isDirect():
		return failure.Usage("--kubeconfig and --kube-context are for reading from a cluster, and not from files")
	}
	objects, unread, err := t.read(ctx, paths, stdin)
	if err != nil {
		return err
	}
	chosen := migration.Settings{Cluster: t.cluster, Clusters: maps.Clone(t.clusters), Live: t.isLive}
	if project := t.session.Project(); project != objectname.Default {
		chosen.Project = project
	}
	result := t.translate(objects, chosen)
	result.Entries = append(result.Entries, unread...)
	if len(result.Entries) == 0 {
		return failure.New("there are no objects of the tool", "Name the folder or the cluster that has them.")
	}
	if t.report != "" {
		content, err := json.MarshalIndent(result.Entries, "", "  ")
		if err == nil {
			err = settings.WriteFile(t.report, append(content, '\n'))
		}
		if err != nil {
			return failure.File(err, "")
		}
	}
	t.tell(result)
	if len(result.Documents) == 0 {
		return failure.New("nothing can be imported", "The lines above say why for each object.")
	}
	return t.write(result)
}

// read returns the objects in files or in the cluster.
func (t *translation) read(ctx context.Context, paths []string, stdin io.Reader) ([]migration.Object, []migration.Entry, error) {
	if len(paths) > 0 {
		objects, unread, err := migration.Read(ctx, t.tool, paths, stdin)
		if err != nil {
			err = failure.File(err, "")
		}
		return objects, unread, err
	}
	config, _, err := t.config(ctx, t.cluster)
	if err != nil {
		return nil, nil, err
	}
	return migration.List(ctx, t.tool, config, t.kinds)
}

// tell says what became of each object, and which notes a person has to read.
func (t *translation) tell(result migration.Result) {
	attention := 0
	for _, e := range result.Entries {
		became := "not imported"
		if len(e.Documents) > 0 {
			became = strings.Join(e.Documents, ", ")
		}
		t.say("%s (%s): %s\n", e.Object, e.Origin, migration.Line(became))
		isGrave := false
		for _, note := range e.Notes {
			if note.Grade == migration.Needless && len(e.Documents) > 0 {
				continue
			}
			isGrave = isGrave || note.Grade == migration.Missing
			t.say("    %-8s %s\n", note.Grade, strings.TrimPrefix(note.Field+": "+note.Reason, ": "))
		}
		if isGrave && len(e.Documents) > 0 {
			attention++
		}
	}
	t.say("%s: %d imported, %d not imported\n", amount.Of(len(result.Entries), "object"), result.Imported(), len(result.Entries)-result.Imported())
	if attention > 0 {
		t.say("%s would deliver something else than before: see the lines with %s\n", amount.Of(attention, "imported object"), migration.Missing)
	}
}

func (t *translation) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.session.Err, format, args...) // there is nowhere else to report an error
}

// write writes the documents.
func (t *translation) write(result migration.Result) error {
	var text bytes.Buffer
	var err error
	if t.format == "json" {
		err = document.WriteJSONList(&text, result.Documents)
	} else {
		err = document.WriteYAML(&text, result.Documents...)
	}
	if err != nil {
		return err
	}
	if t.file != "" {
		if err := settings.WriteFile(t.file, text.Bytes()); err != nil {
			return failure.File(err, "")
		}
		return nil
	}
	_, err = io.Copy(t.session.Out, &text)
	return err
}
