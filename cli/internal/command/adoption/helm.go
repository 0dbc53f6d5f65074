// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/gitref"
	"github.com/leatdev/leat/cli/internal/helmrelease"
	"github.com/leatdev/leat/cli/internal/localrender"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/terminal"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// helm is `leat import helm`.
func helm(s *session.Session) *cobra.Command {
	h := importer{reach: reach{session: s}}
	cmd := &cobra.Command{
		Use:   "helm RELEASE -n NAMESPACE --cluster NAME --repository NAME",
		Short: "Import a Helm release as a service, and show what would change",
		Long: `Import a Helm release as a service, and show what would change.

The release is read from its Secrets in the cluster, and the document of a service with the same chart, version, release
name, namespace and values is printed, ready for leat apply. Before that the chart is rendered as the service's agent will
render it, and compared with what Helm has applied: the standard error lists every object that differs. Nothing is changed
in the cluster and at the hub.

The chart is the one that the release keeps. Helm keeps no charts that it depends on; with dependencies, --chart names the
folder of the chart. --repository is the name of the repository at the hub that has the chart: a Helm repository, an OCI
repository with --oci, or a Git repository with --path.

Values that look like secrets have to be decided about: --secret PATH makes one a secret of the service's configuration,
and --plain PATH leaves it among the values. A document with secrets is not printed on a terminal; --file writes it to a
file that only you can read.

With --retire service/NAME nothing is printed. It deletes the release's own Secrets, if the service is healthy and every
object of the release belongs to it: helm list does not show the release then, and helm uninstall cannot delete what is the
service's. The objects stay as they are. --backup keeps the Secrets in a file.

The cluster is reached through the hub, or with --kubeconfig or --kube-context.`,
		Example: `  leat import helm shop -n shop --cluster berlin --repository charts > shop.yaml
  leat import helm shop -n shop --cluster berlin --repository charts --secret 'db.password' --file shop.yaml
  leat import helm shop -n shop --cluster berlin --repository deploy --path charts/shop --write-chart ~/deploy/charts/shop
  leat import helm shop -n shop --retire service/shop --backup shop-release.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want the name of one release, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			h.release = args[0]
			return s.Fail(explained(h.run(ctx), h.release, h.namespace))
		},
	}
	h.bind(cmd)
	return cmd
}

// importer is one call of the command.
type importer struct {
	reach

	release, namespace, cluster, name string
	repository, path, ref             string
	isOCI, skipsComparison            bool
	chart, writeChart                 string
	secrets, plain                    []string
	file, format                      string
	retire, backup                    string
}

func (h *importer) bind(cmd *cobra.Command) {
	h.reach.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&h.namespace, "namespace", "n", "", "the release's namespace (default: that of the kubeconfig, or \"default\")")
	flags.StringVar(&h.cluster, "cluster", "", "the cluster's name at the hub")
	flags.StringVar(&h.name, "name", "", "name of the service (default: that of the release)")
	flags.StringVar(&h.repository, "repository", "", "name of the repository at the hub that has the chart")
	flags.StringVar(&h.path, "path", "", "the chart's folder, where the repository is a Git repository")
	flags.StringVar(&h.ref, "ref", "", "with --path, what the service follows: "+gitref.Usage)
	flags.BoolVar(&h.isOCI, "oci", false, "the repository is an OCI repository")
	flags.StringVar(&h.chart, "chart", "", "folder of this machine with the chart, instead of the chart that the release keeps")
	flags.StringVar(&h.writeChart, "write-chart", "", "write the chart that the release keeps into this new folder")
	flags.StringArrayVar(&h.secrets, "secret", nil, "path of a value that becomes a secret of the service's configuration; * for all that look like one")
	flags.StringArrayVar(&h.plain, "plain", nil, "path of a value that is not secret, although it looks like one; * for all")
	flags.BoolVar(&h.skipsComparison, "no-compare", false, "do not render the chart and do not compare")
	flags.StringVar(&h.file, "file", "", "write the document to this file, readable for you only, instead of printing it")
	flags.StringVarP(&h.format, "output", "o", "yaml", "how to write the document: yaml|json")
	flags.StringVar(&h.retire, "retire", "", "service/NAME: delete the release's own Secrets, which that service has taken over")
	flags.StringVar(&h.backup, "backup", "", "with --retire, write the Secrets to this file first")
}

func (h *importer) run(ctx context.Context) error {
	if err := h.check(); err != nil {
		return err
	}
	if h.retire != "" {
		return h.runRetire(ctx)
	}
	cluster, err := h.session.ClusterPath(h.cluster)
	if err != nil {
		return err
	}
	store, err := h.open(ctx, cluster)
	if err != nil {
		return err
	}
	release, _, err := h.read(ctx, store)
	if err != nil {
		return err
	}
	plan, err := helmrelease.NewPlan(release, cmp.Or(h.name, release.Name), h.cluster,
		helmrelease.Origin{Repository: h.repository, Path: h.path, Ref: gitref.Parse(h.ref), IsOCI: h.isOCI},
		helmrelease.Choice{Move: h.secrets, Keep: h.plain})
	if err != nil {
		return err
	}
	if err := h.compare(ctx, store, release, plan); err != nil {
		return err
	}
	object, err := plan.Document(release)
	if err != nil {
		return err
	}
	h.session.Place(object)
	return h.write(object, len(plan.Secrets) > 0)
}

// check checks the flags.
func (h *importer) check() error {
	switch {
	case h.retire == "" && h.backup != "":
		return failure.Usage("--backup needs --retire")
	case h.retire != "":
		return nil
	case h.cluster == "":
		return failure.Usage("--cluster is missing: the cluster's name at the hub, where the service will run")
	case h.repository == "":
		return failure.Usage("--repository is missing: the name of the repository at the hub that has the chart")
	case h.path != "" && h.isOCI:
		return failure.Usage("--path is for Git repositories, and --oci for OCI repositories")
	case h.ref != "" && h.path == "":
		return failure.Usage("--ref needs --path; of other repositories the service gets the release's version")
	case h.format != "yaml" && h.format != "json":
		return failure.Usage("--output: want yaml or json, got %q", h.format)
	}
	return nil
}

// open connects to the cluster, and completes the namespace.
func (h *importer) open(ctx context.Context, cluster string) (*helmrelease.Store, error) {
	store, namespace, err := h.connect(ctx, cluster)
	h.namespace = cmp.Or(h.namespace, namespace)
	return store, err
}

// read returns the release in the cluster, and all its revisions.
func (h *importer) read(ctx context.Context, store *helmrelease.Store) (helmrelease.Release, []helmrelease.Revision, error) {
	revisions, err := store.Revisions(ctx, h.namespace, h.release)
	if err != nil {
		return helmrelease.Release{}, nil, err
	}
	at := slices.IndexFunc(revisions, func(r helmrelease.Revision) bool { return r.Status == helmrelease.Deployed })
	switch {
	case len(revisions) == 0:
		return helmrelease.Release{}, nil, failure.New(fmt.Sprintf("namespace %s has no release %s", h.namespace, h.release),
			"helm list -A shows releases and their namespaces. Releases that Helm does not keep in Secrets (HELM_DRIVER) cannot be imported.")
	case at < 0:
		return helmrelease.Release{}, nil, failure.New(fmt.Sprintf("release %s has no revision that is deployed; the last one is %s", h.release, line(revisions[0].Status)),
			"Bring it into a good state with helm upgrade or helm rollback first.")
	case at > 0:
		h.tell("Warning: revision %d of release %s is %s; revision %d is deployed, and is imported\n",
			revisions[0].Version, h.release, line(revisions[0].Status), revisions[at].Version)
	}
	release, err := store.Read(ctx, h.namespace, revisions[at])
	if err == nil && (release.Name != h.release || release.Namespace != h.namespace) {
		err = fmt.Errorf("the Secret %s holds the release %q of namespace %q", revisions[at].Secret, line(release.Name), line(release.Namespace))
	}
	return release, revisions, err
}

// compare renders the chart, and tells the person what would change.
func (h *importer) compare(ctx context.Context, store *helmrelease.Store, release helmrelease.Release, plan helmrelease.Plan) error {
	if h.writeChart != "" {
		content, err := release.Chart.Content()
		if err != nil {
			return err
		}
		if err := helmrelease.WriteChart(h.writeChart, content); err != nil {
			return failure.File(err, "Name a folder that does not exist yet.")
		}
	}
	if h.skipsComparison {
		return nil
	}
	limits := render.LimitsWithin(renderworker.Container())
	files, err := h.files(ctx, release, limits)
	if err != nil {
		return err
	}
	facts, err := store.Facts()
	if err != nil {
		return err
	}
	facts.Name = h.cluster[strings.LastIndexByte(h.cluster, '/')+1:]
	workers := renderworker.NewPool(renderworker.Config{}, limits)
	defer workers.Close()
	result, err := helmrelease.Compare(ctx, render.Split{Limits: limits, Others: workers}, release, plan, files, facts)
	if err != nil {
		return fmt.Errorf("render chart %s %s: %w", line(release.Chart.Name()), line(release.Chart.Version()), err)
	}
	h.report(release, result)
	return nil
}

// files returns the files of the chart.
func (h *importer) files(ctx context.Context, release helmrelease.Release, limits render.Limits) (*render.Files, error) {
	if h.chart != "" {
		return localrender.ReadFolder(ctx, h.chart, limits)
	}
	content, err := release.Chart.Content()
	if err != nil {
		return nil, err
	}
	return render.NewFiles(content), nil
}

// report writes a comparison for people.
func (h *importer) report(release helmrelease.Release, c helmrelease.Comparison) {
	for _, warning := range c.Warnings {
		h.tell("Warning: %s\n", line(warning))
	}
	if c.HasGenerated {
		h.tell("Warning: the chart generates values at random, such as passwords; give them as values, or the service makes others than Helm has made\n")
	}
	counts := map[helmrelease.Change]int{}
	for _, d := range c.Differences {
		counts[d.Change]++
		word := map[helmrelease.Change]string{helmrelease.Added: "+", helmrelease.Changed: "~", helmrelease.Removed: "-"}[d.Change]
		h.tell("%s %s\n", word, line(d.Object))
		for _, field := range d.Fields {
			h.tell("    %s\n", line(field))
		}
	}
	h.tell("release %s, revision %d, of chart %s %s: %s equal, %d added, %d changed, %d not in the chart any more\n",
		line(release.Name), release.Version, line(release.Chart.Name()), line(release.Chart.Version()),
		amount.Of(c.Same, "object"), counts[helmrelease.Added], counts[helmrelease.Changed], counts[helmrelease.Removed])
	if c.Created > 0 {
		h.tell("%s of the chart %s created only where missing\n", amount.Of(c.Created, "definition"), amount.Are(c.Created))
	}
	if len(c.Hooks) > 0 {
		h.tell("hooks and tests that the service runs from now on: %s\n", line(strings.Join(c.Hooks, ", ")))
	}
}

// write writes the document. A terminal does not get secrets.
func (h *importer) write(object *fleetv1.Document, isSecret bool) error {
	var text bytes.Buffer
	var err error
	if h.format == "json" {
		err = document.WriteJSON(&text, object)
	} else {
		err = document.WriteYAML(&text, object)
	}
	switch {
	case err != nil:
		return err
	case h.file != "":
		if err := settings.WriteFile(h.file, text.Bytes()); err != nil {
			return failure.File(err, "")
		}
		return nil
	case isSecret && terminal.IsTerminal(h.session.Out):
		return failure.New("the document holds secrets, and a terminal would show them", "Write it to a file with --file FILE.")
	}
	_, err = io.Copy(h.session.Out, &text)
	return err
}

// tell writes to the person, beside the document.
func (h *importer) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(h.session.Err, format, args...) // there is nowhere else to report an error
}

// runRetire deletes the release's Secrets, if a service has taken over everything.
func (h *importer) runRetire(ctx context.Context) error {
	name, isService := strings.CutPrefix(h.retire, "service/")
	if !isService || name == "" {
		return failure.Usage("--retire: want service/NAME, got %q", h.retire)
	}
	name = h.session.Reference("Service", name)
	service, err := h.healthy(ctx, name)
	if err != nil {
		return err
	}
	cluster, err := session.ClusterOf(service)
	if err != nil {
		return err
	}
	store, err := h.open(ctx, cluster)
	if err != nil {
		return err
	}
	release, revisions, err := h.read(ctx, store)
	if err != nil {
		return err
	}
	if last := revisions[0]; last.Status != helmrelease.Deployed {
		return failure.New(fmt.Sprintf("revision %d of release %s is %s, and may have made objects that no other revision has", last.Version, h.release, line(last.Status)),
			"Nothing was deleted. Finish it with helm upgrade or helm rollback, or delete what it has made and its Secret "+last.Secret+".")
	}
	if err := h.requireOwner(ctx, store, release, service); err != nil {
		return err
	}
	if h.backup != "" {
		content, err := store.Backup(ctx, h.namespace, revisions)
		if err == nil {
			err = settings.WriteFile(h.backup, content)
		}
		if err != nil {
			return failure.File(err, "Nothing was deleted.")
		}
	}
	if err := store.Delete(ctx, h.namespace, revisions); err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.session.Out, "release %s is retired, its objects belong to service/%s\n", h.release, name)
	return err
}
